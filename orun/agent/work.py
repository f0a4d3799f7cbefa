"""Work of an agent: orders of all drivers, side by side within the resources of the machine.

Orders start in the order in which their inputs arrived. A measurement that waits for the machine keeps all orders
behind it waiting, and while it runs nothing is transferred: transfers take the machine's lock too.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic

from orun.agent.executor_pool import ExecutorPool
from orun.agent.frames import FactsFailed, FactsRequest, Message
from orun.agent.orders import RefusedError, StageOrder
from orun.agent.portability import is_of_machine, to_failure
from orun.agent.project_folders import ProjectFolders
from orun.agent.questions import Question
from orun.agent.remotes import Remotes
from orun.agent.task import Owner, Task, describe_end
from orun.agent.upkeep import Upkeep
from orun.core.events import Notice
from orun.core.machines import Built, Failed, Lost, Machine, Order
from orun.core.run_record import Failure
from orun.core.serialization import replace
from orun.environment.resources import to_resources
from orun.environment.secret_variables import Secrets
from orun.errors import OrunError, StageFailed
from orun.executors import Finished, Mask, Progress
from orun.fs.os_errors import quote, to_store_error
from orun.remote.artifacts import Download
from orun.remote.connection import FAILURES
from orun.runner.scheduler import fits_beside
from orun.store import Action, Store
from orun.store.object_storage import NoFolderError

POLL_SECONDS = 0.05  # between two tries of a lock that another process holds
LOG_SECONDS = 0.25  # between two looks at the logs of running stages


@dataclass
class Work:
    """Orders and questions of all drivers; for one thread."""

    store: Store
    machine: Machine
    folder: Path  # whose `pyproject.toml` names the keys of remotes that this machine trusts
    wake: Callable[[], None]  # called by another thread when `advance` has something to do
    log: Callable[[str], None] = lambda _: None
    _tasks: list[Task] = field(default_factory=list)
    _questions: list[Question] = field(default_factory=list)
    _executors: ExecutorPool = field(default_factory=ExecutorPool)
    _logs_sent_at: float = float("-inf")
    _leaving: str = ""  # why no more orders are taken

    def __post_init__(self) -> None:
        self._folders = ProjectFolders(self.store)
        self.upkeep = Upkeep(self.store, self.machine, self._folders, self._executors, self.log)
        self.upkeep.begin_session()
        self.store.sweep()
        self._remotes = Remotes(self.folder, self.wake)

    # Requests of drivers

    def add_order(self, owner: Owner, order: Order, send: Callable[[Message], None]) -> None:
        """Begin to work on an order; one of `Built`, `Failed`, `Refused` and `Lost` is sent at its end."""
        if self._leaving:
            send(Lost(order.stage, self.machine.id, self._leaving, started=False))
            return
        work = StageOrder(order, self.machine.id, self.store, self._folders, send)
        download = Download(work.fetch_inputs(), partial(self._remotes.submit, order.remote))
        self._tasks.append(Task(owner, work, download))

    def add_question(self, owner: Owner, request: FactsRequest, send: Callable[[Message], None]) -> None:
        """Begin to find the facts of a snapshot; `MachineFacts` or `FactsFailed` is sent at the end."""
        if self._leaving:
            send(FactsFailed(Failure("StageFailed", self._leaving)))
            return
        self.upkeep.expect_change()
        self._questions.append(Question(owner, request, self.machine, self.store, self._folders, self._remotes, send))

    def leave(self, why: str) -> None:
        """Take no more orders, and hand back those that have not started."""
        self._leaving = why
        self._fail_questions(why)
        for task in [task for task in self._tasks if task.phase in ("fetching", "waiting")]:
            self._end(task, Lost(task.work.name, self.machine.id, why, started=False))

    def cancel(self, owner: Owner, stage: str) -> None:
        """Stop an order of a driver: `Failed` is sent, at once or when its process has ended.

        An order whose result is already being pushed goes on, and ends with `Built`.
        """
        for task in [task for task in self._tasks if task.owner is owner and task.work.name == stage]:
            self._stop(task)

    def drop(self, owner: Owner) -> None:
        """Stop all orders of a driver that is gone."""
        self._questions = [question for question in self._questions if question.owner is not owner]
        for task in [task for task in self._tasks if task.owner is owner]:
            task.abandoned = True
            self._stop(task)

    def _stop(self, task: Task) -> None:
        if task.phase == "running" and task.executor:
            task.executor.cancel(task.work.name)
        elif task.phase != "pushing":
            stopped = StageFailed(task.work.name, f"{task.work.name} was stopped", why="the run was interrupted")
            self._end(task, Failed(task.work.name, self.machine.id, to_failure(stopped, self.machine.id)))

    # Progress

    @property
    def stages(self) -> list[str]:
        """The stages that are worked on."""
        return [task.work.name for task in self._tasks]

    @property
    def pause(self) -> float | None:
        """Seconds until `advance` must be called again; None if only a message or `wake` brings news."""
        if any(task.phase == "waiting" for task in self._tasks):
            return POLL_SECONDS
        return LOG_SECONDS if any(task.phase == "running" for task in self._tasks) else None

    def list_descriptors(self) -> set[int]:
        """Return the descriptors that are readable when a running stage has news."""
        return {task.executor.fileno() for task in self._tasks if task.phase == "running" and task.executor}

    def advance(self) -> None:
        """Continue everything as far as it goes without waiting."""
        self._refresh()
        for question in list(self._questions):
            self._answer(question)
        for task in list(self._tasks):
            if task.phase == "fetching":
                self._fetch(task)
        self._receive()
        self._start_waiting()
        for task in list(self._tasks):
            if task.phase == "pushing":
                self._finish_push(task)
        self._send_logs()
        self._pass_notices()

    def _send_logs(self) -> None:
        """Send what running stages have printed, from time to time."""
        if monotonic() - self._logs_sent_at < LOG_SECONDS:
            return
        self._logs_sent_at = monotonic()
        for task in [task for task in self._tasks if task.phase == "running"]:
            with self._ending_failed(task):
                task.work.send_log()

    def _pass_notices(self) -> None:
        """Send what the store has to say, such as damage that it found, to every driver."""
        for text in self.store.drain_notices():
            self.log(text)
            for send in {id(task.owner): task.work.send for task in self._tasks}.values():
                send(Notice("warning", f"{self.machine.id}: {text}"))

    def _refresh(self) -> None:
        """Look at packages, devices and orun's code again before the next order, unless a stage relies on them."""
        if any(task.phase in ("waiting", "running") for task in self._tasks):
            return
        if self._tasks or self._questions:
            if why := self.upkeep.refresh():
                self._lose_all(why)
        elif not self._remotes.busy:
            self.upkeep.release_results()

    def _fail_questions(self, why: str) -> None:
        for question in self._questions:
            question.send(FactsFailed(Failure("StageFailed", why)))
        self._questions.clear()

    def _lose_all(self, why: str) -> None:
        self._fail_questions(why)
        for task in list(self._tasks):
            self._end(task, Lost(task.work.name, self.machine.id, why))

    def _answer(self, question: Question) -> None:
        failure = None
        try:
            if not question.advance():
                return
        except Exception as error:  # noqa: BLE001 - a bug must not end the orders of others
            failure = self._to_failure(error, question.request)
        self._questions.remove(question)
        if failure:
            question.send(FactsFailed(failure))

    def _fetch(self, task: Task) -> None:
        with self._ending_failed(task):
            if not task.download.advance():
                return
            if task.download.failure:
                raise task.download.failure
            if task.work.is_stored and (action := task.work.decide().cached_action):
                self._push_stored(task, action)
            else:
                task.locks = task.work.build_locks()
                task.phase = "waiting"

    def _start_waiting(self) -> None:
        """Start what is next, in the order of arrival, as far as resources and the machine's lock are free."""
        for task in [task for task in self._tasks if task.phase == "waiting"]:
            running = [other.work.stage for other in self._tasks if other.phase == "running"]
            fits = fits_beside(task.work.stage, running, to_resources(self.machine))
            if not fits or (not self._start(task) and task.work.exclusive):
                break

    def _start(self, task: Task) -> bool:
        """Take the locks of a stage, decide and start it; return False if it still waits."""
        with self._ending_failed(task):
            assert task.locks, "a task that waits has locks"  # noqa: S101
            locks = task.locks.prepare_locks(task.work.expected, task.work.lock_mode)
            task.locks.refused.clear()
            if holder := task.locks.try_acquire(locks):
                task.locks.report_waiting(task.work.name, holder)
                return False
            step = task.work.decide()  # under the lock: another process may have built it
            if step.cached_action:
                task.locks.release_all()
                self._push_stored(task, step.cached_action)
                return True
            name = task.work.name
            same = [other.executor for other in self._tasks if other.phase == "running" and other.work.name == name]
            task.executor = self._executors.take_free(list(filter(None, same)))
            task.work.start(step, task.executor)
            task.phase = "running"
            self.log(f"{name} started")
        return True

    def _receive(self) -> None:
        for executor, message in self._executors.receive_messages():
            (task,) = (
                task
                for task in self._tasks
                if task.executor is executor and task.phase == "running" and task.work.name == message.stage
            )
            if isinstance(message, Progress):
                task.work.pass_progress(message)
            else:
                self._conclude(task, message)

    def _conclude(self, task: Task, message: Finished) -> None:
        """Store the result of a process that has ended, and begin to push it."""
        action = None
        with self._ending_failed(task):
            task.work.send_log(ended=True)
            action = task.work.store_result(message.result)
        task.work.discard()
        if task.locks:
            task.locks.release_all()  # first: a push takes the machine's lock
        if action:
            with self._ending_failed(task):
                self._push(task, action)

    def _push_stored(self, task: Task, action: Action) -> None:
        """Begin to push a result that was there; a run that has it repaired asked for it before."""
        task.stored = not task.work.order.repair
        self._push(task, action)

    def _push(self, task: Task, action: Action) -> None:
        operation = task.work.push(action)
        task.phase = "pushing"
        task.pushed = self._remotes.submit(task.work.order.remote, operation)

    def _finish_push(self, task: Task) -> None:
        if task.pushed is None or not task.pushed.done():
            return
        with self._ending_failed(task):
            self._end(task, Built(task.work.name, task.pushed.result().record.decode(), task.stored))

    # Ends

    @contextmanager
    def _ending_failed(self, task: Task) -> Iterator[None]:
        """End an order whose work fails in this block."""
        failure = None
        try:
            yield
        except RefusedError as refused:
            self._end(task, refused.message)
        except Exception as error:  # noqa: BLE001 - a bug must not end the orders of others
            failure = self._to_failure(error, task.work.order)
        if failure:
            self._end(task, Failed(task.work.name, self.machine.id, failure, task.work.lacks))

    def _to_failure(self, error: Exception, request: Order | FactsRequest) -> Failure:
        """Return an error in the work on a request as data; it names this machine unless the stage is to blame."""
        url, name = request.remote, self.machine.id
        if isinstance(error, OSError):  # of a transfer: this machine's disk is full, for example
            error = to_store_error(error, f"transfer files of the remote {url}", self.store.root)
        if isinstance(error, OrunError):
            failure = to_failure(error, name, self._folders.read_place(request.snapshot))
            return replace(failure, problem=f"on {name}: {failure.problem}") if is_of_machine(error) else failure
        if not isinstance(error, FAILURES):
            problem = f"{name} met a bug in orun: {type(error).__name__}: {error}"
            return Failure("StageFailed", problem, "".join(traceback.format_tb(error.__traceback__)))
        hint = "See that it is there and lets that machine in, and run again"
        if isinstance(error, NoFolderError):
            folder = quote(error.folder)
            hint = f"on {name}: mount what all machines share at {folder}, or make it: mkdir -p {folder}"
        return Failure(
            "StageFailed", f"{name} cannot use the remote {url}", Mask.of(Secrets()).hide_in_text(str(error)), hint
        )

    def _end(self, task: Task, message: Message) -> None:
        self._tasks.remove(task)
        task.work.discard()
        if task.locks:
            task.locks.release_all()
        if not task.abandoned:
            task.work.send(message)
        self.log(f"{task.work.name} {describe_end(message)}")

    def close(self, why: str) -> None:
        """Stop all stages and wait until they have ended; tell the drivers why."""
        self._executors.close()
        self._lose_all(why)
        self._remotes.close()
        self._folders.release()
        self.store.close()
