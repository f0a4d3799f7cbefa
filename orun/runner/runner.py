"""Runner of a plan: starts stages, stores their results and judges the gates.

One thread, one loop. A stage is decided again once its inputs are known, and once more under the lock of its key,
because another process may have built the result meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from orun.core.events import Event, Notice, StageStarted
from orun.core.reason import Reason, reason
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import Outcome, StageResult
from orun.core.serialization import replace
from orun.environment.resources import Resources
from orun.errors import Interrupted, StageError
from orun.executors import Executor, Finished, Progress
from orun.fs.os_errors import convert_os_errors
from orun.pipeline.model import Stage
from orun.planning.implicit_deps import keeps_changing
from orun.planning.key_diff import key_changes
from orun.planning.plan import Plan, Step
from orun.planning.planner import Planner
from orun.planning.provenance import Provenance
from orun.runner.output_checkouts import OutputCheckouts
from orun.runner.run_outcome import RunOutcome
from orun.runner.scheduler import Schedule
from orun.runner.stage_execution import StageExecution
from orun.runner.stage_locks import SAME_STAGE, SHORT, LockMode, RunLocks
from orun.runner.stage_reports import StageReports
from orun.runner.undeclared_writes import IsolationCheck
from orun.store import Action, Store

if TYPE_CHECKING:
    from orun.remote.sync import Sync
    from orun.runner.orders import Ended, FleetRun, Orders

PAUSE_SECONDS = 1.0  # between two writes of the index while stages come and go
IDLE_SECONDS = 0.25  # without a message from a stage, after which postponed writes are done
MOST_CHANGES = 5  # of a stage's dependencies between its decision and its start
POLL_SECONDS = 0.05  # between two tries of a lock that another process holds


@dataclass
class Runner:
    """Brings the stages of a plan up to date.

    Attributes:
        planner: decides which stages run.
        store: takes their results.
        executor: runs their processes.
        emit: receives each event.
        logs: folder of the logs of this run.
        resources: what the run may use of the machine.
        keep_going: whether a failed stage stops only the stages after it.
        allowed: ids of stages that may run; the others must be up to date.
        remote: the store shared between machines, if any.
        fleet: other machines that run stages, if any.
    """

    planner: Planner
    store: Store
    executor: Executor
    emit: Callable[[Event], None]
    logs: Path
    resources: Resources
    keep_going: bool = False
    allowed: Collection[str] = ()
    remote: Sync | None = None
    fleet: FleetRun | None = None

    def __post_init__(self) -> None:
        pipeline = self.planner.pipeline
        outputs = OutputCheckouts(self.store, pipeline.name)
        self.outcome = RunOutcome(self.planner, self.store, self.emit, outputs, self.remote)
        self._locks = RunLocks(self.store, self.emit, str(pipeline.project), pipeline.name)
        self._reports = StageReports(pipeline.private, self.emit)
        self._orders = self._make_orders(self.fleet) if self.fleet else None
        self._executions: dict[str, StageExecution] = {}
        self._steps: dict[str, Step] = {}
        self._waiting: dict[str, Stage] = {}
        self._changes: Counter[str] = Counter()
        self._stopped = False

    def _make_orders(self, fleet: FleetRun) -> Orders:
        from orun.runner.orders import Orders

        assert self.remote  # noqa: S101 - results of other machines travel through it
        return Orders(fleet, self.planner, self.remote, self.logs, self.emit, self._reports.pass_progress)

    def run(self, plan: Plan) -> tuple[StageResult, ...]:
        """Run until every stage is settled; return the results in the order of the plan.

        Raises:
            StoreError: if the store fails; running stages are stopped.
            Interrupted: if the user stops the run; running stages are stopped.
        """
        self.store.pause(PAUSE_SECONDS)
        stages = tuple(step.stage for step in plan.steps)
        seconds = {step.stage.id: step.seconds for step in plan.steps if step.seconds is not None}
        # One GPU at least: a driver may hide it, and preflight has found the provider.
        self._schedule = Schedule(stages, seconds, replace(self.resources, gpus=max(self.resources.gpus, 1)))
        if self._orders:
            self._schedule.machines = self._orders.resources()
        self.outcome.find_guards(stages)
        try:
            while not self._schedule.finished:
                self._advance()
            self.outcome.settle_outputs()
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None
        finally:
            if self.fleet:
                self.fleet.fleet.close()
            if self._executions:
                self.executor.close()  # nothing may write into a session directory any more
            for name, execution in self._executions.items():
                self._reports.filter_log(name, execution.log, self.store.root)
                execution.discard()
            self._locks.release_all()
            self.store.pause(0.0)
            self.store.flush()
        return tuple(self.outcome.results[stage.id] for stage in stages)

    def _advance(self) -> None:
        """Settle and start every stage that can be, then wait for the next message or lock."""
        waiting = self._start_ready()
        self.outcome.emit_store_notices()
        if self.remote:
            self.remote.gather()
        if self._orders:
            self._orders.look()
        if self._orders and (self._orders.active or self._orders.waiting):
            self._receive_from_all(self._orders, POLL_SECONDS if waiting else IDLE_SECONDS)
        elif self._executions:
            self._receive(POLL_SECONDS if waiting else None)
        elif waiting and self.remote:
            self.remote.wait(POLL_SECONDS)
        elif waiting:
            sleep(POLL_SECONDS)

    def _receive(self, timeout: float | None) -> None:
        """Wait for messages of stages; without a timeout the store does postponed writes while they are silent."""
        messages = self.executor.wait(IDLE_SECONDS if timeout is None else timeout)
        if not messages and timeout is None:
            self.store.flush()
            messages = self.executor.wait()
        for message in messages:
            self._handle(message)

    def _handle(self, message: Progress | Finished) -> None:
        if isinstance(message, Progress):
            self._reports.pass_progress(message)
        else:
            self._conclude(message)

    def _receive_from_all(self, orders: Orders, timeout: float) -> None:
        """Wait for messages of stages here and on other machines."""
        messages = self.executor.wait(0.0) if self._executions else []
        for message in messages:
            self._handle(message)
        soon = POLL_SECONDS if self._executions or orders.fetching else timeout
        for ended in orders.receive(0.0 if messages else min(timeout, soon), self.outcome.done):
            self._end_order(orders, ended)
        if orders.drain_news():
            self._decide_anew(orders)

    def _end_order(self, orders: Orders, ended: Ended) -> None:
        """Settle a stage that another machine has ended, or let it start again."""
        step, name = ended.step, ended.step.stage.id
        self._locks.release(name)
        if isinstance(ended.outcome, StageError):
            self._fail(step, self._reports.filter_error(ended.outcome))
        elif ended.outcome:
            self._finish(step, ended.outcome, "built")
        else:
            self._schedule.stop(name)
        if ended.outcome is None or isinstance(ended.outcome, StageError):  # machines or facts may have changed
            self._decide_anew(orders)

    def _decide_anew(self, orders: Orders) -> None:
        """Forget the decisions on stages that do not run: machines or their facts have changed."""
        self._steps = {name: step for name, step in self._steps.items() if name in self._schedule.running}
        self._schedule.machines = orders.resources() | {
            step.machine: self._schedule.machines[step.machine]
            for step in self._steps.values()
            if step.machine in self._schedule.machines
        }

    def _start_ready(self) -> bool:
        """Settle and start every stage that can be; return whether one waits for another process.

        A stage is tried when it becomes ready, and again while resources are free or while it waits. To try all ready
        stages at every event would take n^2 tries for a fan of n stages.
        """
        self._locks.refused.clear()
        while True:
            for stage in self._schedule.drain_new():
                self._try(stage, start=False)
            for stage in tuple(self._waiting.values()):
                self._try(stage)
            for stage in self._schedule.ready():
                if self._schedule.full or not (self._orders or self._locks.may_try(LockMode.SHORT)):
                    break  # an exclusive stage needs more than these
                if stage.id not in self._waiting and self._locks.may_try(self._lock_mode(stage)):
                    self._try(stage)
            if not self._schedule.has_new:
                return bool(self._waiting)

    def _try(self, stage: Stage, *, start: bool = True) -> None:
        """Settle a ready stage, or start it if allowed; note whether it waits for another process."""
        if self._settle_or_start(stage, start=start):
            self._waiting[stage.id] = stage
        else:
            self._waiting.pop(stage.id, None)

    def _settle_or_start(self, stage: Stage, *, start: bool) -> bool:
        """Do what `_try` says; return whether the stage waits for another process."""
        if blocker := self._blocker(stage):
            skipped = any(self.outcome.results[name].outcome == "skipped" for name in stage.upstream)
            self._settle_not_run(stage, "skipped" if skipped else "blocked", (blocker,))
            return False
        step = self._steps.get(stage.id) or self.planner.decide(stage, self.outcome.done)
        self._steps[stage.id] = step
        if step.action == "skipped":
            self._settle_not_run(stage, "skipped", step.reasons)
        elif step.hit:
            self._reuse(step, step.hit)
        elif self.remote and self.remote.wants(step):
            return self._fetch(step, self.remote)
        elif self._orders and not step.key and stage.id in self.allowed:
            if error := self._orders.lack(stage):
                self._fail(step, error)
            else:
                return True
        elif stage.id not in self.allowed or not step.key:
            self._settle_not_run(stage, "blocked", (reason(ReasonCode.NOT_SELECTED), *step.reasons))
        elif start and self._orders and step.machine:
            return self._send(self._orders, step)
        elif start and self._schedule.fits(stage) and not self._must_run_later(stage):
            return self._lock_and_start(step)
        return False

    def _send(self, orders: Orders, step: Step) -> bool:
        """Start a stage on another machine if one is free; return whether the stage waits."""
        stage = step.stage
        machine = orders.choose(step, self._schedule)
        if not machine:
            return False
        if machine != step.machine:
            key, step = step.key, self.planner.decide_for(stage, self.outcome.done, step, machine)
            self._steps[stage.id] = step
            if step.key != key:  # of a machine with other facts
                return self._settle_or_start(stage, start=True)
        try:
            if not orders.are_inputs_shared(step, self.outcome.done):
                return True
        except StageError as error:
            self._fail(step, error)
            return False
        return self._lock_and_start(step)

    def _blocker(self, stage: Stage) -> Reason | None:
        """Return why a ready stage must not run; None if it may."""
        for name in stage.before:
            outcome = self.outcome.results[name].outcome
            if outcome == "skipped" and name not in stage.upstream and not self.planner.pipeline.strict:
                continue
            if name not in self.outcome.done:
                return reason(ReasonCode.STAGE_BEFORE, stage=name, outcome=outcome)
        if gate := self.planner.gate_before(stage, self.outcome.done):
            return gate
        return reason(ReasonCode.STOPPED) if self._stopped else None

    def _must_run_later(self, stage: Stage) -> bool:
        """Return whether an exclusive stage lets shared stages of this run go first."""
        if self._lock_mode(stage) is not LockMode.EXCLUSIVE:
            return False
        ready = (each for each in self._schedule.ready() if each.id in self.allowed)
        return bool(self._schedule.running) or any(self._lock_mode(each) is not LockMode.EXCLUSIVE for each in ready)

    def _lock_mode(self, stage: Stage) -> LockMode:
        if self._orders and not self._orders.runs_here(stage):
            return LockMode.REMOTE
        spec, seconds = self.planner.pipeline.kinds[stage.uses].spec, self._schedule.seconds.get(stage.id)
        if spec.exclusive:
            return LockMode.EXCLUSIVE
        small = seconds is not None and seconds <= SHORT and stage.cpus == 1 and not stage.gpus
        return LockMode.SHORT if small and spec.stage_class == "portable" else LockMode.SHARED

    def _lock_and_start(self, step: Step) -> bool:
        """Acquire the locks, decide again, and start; return whether the stage waits for another process."""
        stage = step.stage
        locks = self._locks.locks_of(step, self._lock_mode(stage))
        if holder := self._locks.try_acquire(locks):
            self._locks.report_waiting(stage.id, holder)
            return True
        before, step = step, self._decide_again(step)  # another process may have built it
        self._steps[stage.id] = step
        if step.hit:
            self._locks.release(stage.id)
            return self._settle_or_start(stage, start=True)
        if step.key != locks.key:  # a file has changed
            self._locks.release(stage.id)
            self._changes[stage.id] += 1
            if self._changes[stage.id] < MOST_CHANGES:
                return self._settle_or_start(stage, start=True)
            self._fail(step, keeps_changing(stage.id, key_changes(stage, before.components, step.components)))
            return False
        if self._orders and step.machine:
            self._schedule.start(stage, step.machine)
            self._orders.start(step, self.outcome.done)
        else:
            self._start(step)
        return False

    def _decide_again(self, step: Step) -> Step:
        stage, done = step.stage, self.outcome.done
        if self._orders:
            return self.planner.decide_for(stage, done, step, step.machine)
        return self.planner.decide(stage, done, step)

    def _fetch(self, step: Step, remote: Sync) -> bool:
        """Continue to ask the remote for a result, under the lock of its key; return whether the answer is pending."""
        stage = step.stage
        if not self._locks.locks_of(step, self._lock_mode(stage)).key_lock.try_acquire():
            self._locks.report_waiting(stage.id, SAME_STAGE)
            return True
        if not remote.fetch(step):
            return True
        self._locks.release(stage.id)
        del self._steps[stage.id]  # decided again: the result may be in the store now
        return self._settle_or_start(stage, start=False)

    def _start(self, step: Step) -> None:
        name = step.stage.id
        if why := self.planner.why_here(step.stage):
            self.emit(Notice("info", f"{name} runs on this machine: {why}"))
        for environment in step.stage.environments:
            from orun.environment import venv_builder

            venv_builder.make(environment, lambda text: self.emit(Notice("info", text)))
        provenance = Provenance.of(self.planner.pipeline, step.stage, self.outcome.done)
        with convert_os_errors(f"start {name}", self.store.root):
            execution = StageExecution.prepare(self.planner.pipeline, self.store, step, self.logs)
            self._executions[name] = execution
            job = execution.job(provenance.text() if provenance else b"")
        self._schedule.start(step.stage)
        self.emit(StageStarted(name, step.reasons, str(execution.log), step.seconds))
        with convert_os_errors(f"start {name}", self.store.root):
            self.executor.start(job)

    def _conclude(self, message: Finished) -> None:
        """Store the result of a stage that has finished, or report its failure."""
        execution = self._executions[message.stage]
        step = execution.step
        try:
            self._reports.filter_log(message.stage, execution.log, self.store.root)
            if isinstance(message.result, StageError):
                raise message.result
            result = self._reports.filter_result(message.stage, message.result)
            action = execution.store_result(result, self.outcome.done)
        except StageError as error:
            self._fail(step, self._reports.filter_error(error))
        else:
            self._finish(step, action, "built")
        finally:
            self._executions.pop(message.stage).discard()
            self._locks.release(message.stage)

    def _reuse(self, step: Step, action: Action) -> None:
        """Use a stored result, unless it depends on an undeclared write of another run."""
        try:
            check = IsolationCheck(self.planner.pipeline, self.outcome.done, self.store)
            check.require(step.stage, action.implicit_deps, action.wrote)
        except StageError as error:
            self._fail(step, error)
        else:
            self._finish(step, action, "cached")

    def _finish(self, step: Step, action: Action, outcome: Outcome) -> None:
        self.outcome.add_up_to_date(step, action, outcome)
        self._schedule.settle(step.stage.id)

    def _fail(self, step: Step, error: StageError) -> None:
        self._stopped = not self.keep_going
        self.outcome.add_failure(step, error)
        self._schedule.settle(step.stage.id)

    def _settle_not_run(self, stage: Stage, outcome: Outcome, reasons: tuple[Reason, ...]) -> None:
        self.outcome.add_not_run(stage, outcome, reasons)
        self._schedule.settle(stage.id)
