"""An order on its way: inputs from the remote, decision, process, result for the remote."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

from orun.agent.frames import Message
from orun.agent.portability import require_portable, strip_folder
from orun.agent.project_folders import Project, ProjectFolders
from orun.core.events import Event, Notice, StageProgress, StageWaiting
from orun.core.machines import LogText, Order, Refused, Snapshot
from orun.core.serialization import replace
from orun.environment.env_vars import SHARED_KEY
from orun.errors import StageError, StageFailed, UsageError
from orun.executors import Executor, JobResult, Progress
from orun.fs.digests import is_digest
from orun.fs.os_errors import convert_os_errors
from orun.pipeline.model import Stage
from orun.planning.key_diff import list_key_changes
from orun.planning.plan import Done, Step
from orun.remote.artifacts import Artifacts, Steps, list_pieces
from orun.remote.transfers import Pushed, Transfers
from orun.remote.upload import encode_record
from orun.remote.variables import list_held_back
from orun.runner.stage_execution import StageExecution
from orun.runner.stage_locks import LockMode, RunLocks
from orun.runner.stage_reports import StageReports
from orun.store import Action, Store

CHUNK = 1 << 20  # bytes of a log in one message


class RefusedError(Exception):
    """The key of a stage is another one here than in its order."""

    def __init__(self, message: Refused) -> None:
        super().__init__(message.stage)
        self.message = message


@dataclass
class StageOrder:
    """An order and the work on it."""

    order: Order
    machine: str
    store: Store
    folders: ProjectFolders
    send: Callable[[Message], None]
    execution: StageExecution | None = None
    lacks: str = ""  # the stage before it whose result did not arrive from the remote
    _done: dict[str, Done] = field(default_factory=dict)
    _problems: list[str] = field(default_factory=list)
    _logged: int = 0  # bytes of the log that were sent

    @property
    def name(self) -> str:
        """Id of the stage."""
        return self.order.stage

    @property
    def project(self) -> Project:
        """The project, once its files are here."""
        return self.folders.load_project(self.order.snapshot)

    @property
    def stage(self) -> Stage:
        """The stage, once its project is here."""
        return self.project.planner.pipeline.stage(self.name)

    @property
    def exclusive(self) -> bool:
        """Whether the stage has the machine to itself."""
        return self.project.planner.pipeline.kinds[self.stage.uses].spec.exclusive

    # Inputs

    def fetch_inputs(self) -> Steps:
        """Fetch the project, the results before the stage and the accepted model from the remote.

        Raises:
            StageFailed: if something is not there.
        """
        require_digests((self.order.key, *self.order.upstream.values(), *filter(None, self.order.trees.values())))
        artifacts = Artifacts(self.store, self._emit)
        if not (yield from fetch_project(self.name, self.order.snapshot, artifacts, self.folders)):
            raise self._report_unfetched("the project")
        stage, planner = self.stage, self.project.planner
        for name, key in self.order.upstream.items():
            tree, feeds = self.order.trees.get(name, ""), name in stage.needs.values()
            private = planner.pipeline.private
            noun = f"the result of {name}"
            if not (yield from artifacts.fetch_result(self.name, key, tree, private, noun=noun, artifact=feeds)):
                raise self._report_unfetched(noun, name)
            action = next(each for each in self.store.list_actions(key) if tree in ("", each.tree))
            step = Step(planner.pipeline.stage(name), "cached", (), key=key, cached_action=action)
            self._done[name] = Done(step, action, ())
        if model := planner.find_missing_model(stage):
            yield from artifacts.fetch(self.name, model, noun="the accepted model")
        return True

    def _emit(self, event: Event) -> None:
        """Send what the driver's user must see; keep what explains a failure."""
        if isinstance(event, Notice):
            self._problems.append(event.text)
        elif isinstance(event, StageWaiting):
            self.send(event)

    def _report_unfetched(self, noun: str, upstream: str = "") -> StageFailed:
        self.lacks = upstream
        text = f"{self.machine} did not get {noun} from the remote {self.order.remote}"
        return StageFailed(self.name, text, why="\n".join(self._problems))

    # Decision

    @property
    def is_stored(self) -> bool:
        """Whether this machine has results of the key."""
        return bool(self.store.list_actions(self.order.key))

    @property
    def expected(self) -> Step:
        """The decision that the driver expects."""
        return Step(self.stage, "run", (), key=self.order.key)

    def decide(self) -> Step:
        """Return the decision on the stage with the facts of this machine.

        Raises:
            RefusedError: if its key is another one than the driver expects.
        """
        step = self.project.planner.decide(self.stage, self._done)
        if step.key != self.order.key:
            differing = list_key_changes(self.stage, self.order.components, step.components)
            reasons = differing if step.key and self.order.components else step.reasons
            raise RefusedError(Refused(self.name, self.machine, tuple(reasons)))
        return replace(step, action="run", cached_action=None) if step.cached_action and self.order.again else step

    def build_locks(self) -> RunLocks:
        """Return the locks of the stage."""
        return RunLocks(self.store, self._emit, str(self.project.place.folder), self.project.planner.pipeline.name)

    @property
    def lock_mode(self) -> LockMode:
        """How the stage takes the lock of the machine."""
        return LockMode.EXCLUSIVE if self.exclusive else LockMode.SHARED

    # Process

    def start(self, step: Step, executor: Executor) -> None:
        """Start the process of the stage.

        Raises:
            StoreError: if the store fails, or this machine allows no more processes.
        """
        pipeline = self.project.planner.pipeline
        self._reports = StageReports(pipeline.private, self._pass_progress, self.project.mask)
        with convert_os_errors(f"start {self.name}", self.store.root):
            logs = self.store.make_session_folder("log")
            self.execution = StageExecution.prepare(pipeline, self.store, step, logs, self.machine)
            executor.start(self.execution.build_job(self._done))

    def pass_progress(self, message: Progress) -> None:
        """Send the progress of the process."""
        self._reports.pass_progress(message)

    def _pass_progress(self, event: Event) -> None:
        if isinstance(event, StageProgress):
            self.send(Progress(event.stage, event.done, event.total, event.unit))
        elif isinstance(event, Notice):
            self.send(event)

    def send_log(self, *, ended: bool = False) -> None:
        """Send the lines that were printed since the last call; all the rest if the process has ended."""
        execution = self._running
        if not execution.log.exists():
            return
        with convert_os_errors(f"read the log of {self.name}", self.store.root), execution.log.open("rb") as file:
            file.seek(self._logged)
            while data := file.read(CHUNK):
                lines = data if ended or len(data) == CHUNK else data[: data.rfind(b"\n") + 1]
                if not lines:
                    break
                self._logged += len(lines)
                text = self.project.mask.hide_in_bytes(lines).decode(errors="replace")
                self.send(LogText(self.name, strip_folder(text, self.project.place.folder)))
                file.seek(self._logged)

    @property
    def _running(self) -> StageExecution:
        if self.execution is None:
            raise ValueError(f"{self.name} does not run")
        return self.execution

    def store_result(self, result: JobResult | StageError) -> Action:
        """Store the result of the process.

        Raises:
            StageError: if the stage failed, or its result is not valid on other machines.
            StoreError: if the store fails.
        """
        self._reports.filter_log(self.name, self._running.log, self.store.root)
        if isinstance(result, StageError):
            raise self.project.mask.hide_in_error(result)
        if result.undeclared_writes:
            self.folders.check_again(self.project)
        require_portable(self.stage, result, self.project, self.machine)
        return self._running.store_result(self._reports.filter_result(self.name, result), self._done)

    def discard(self) -> None:
        """Remove the folders of the process."""
        if self.execution:
            self.execution.discard()
            self.store.discard(self.execution.log.parent)

    # Result

    def push(self, action: Action) -> Callable[[Transfers], Pushed]:
        """Return the operation that pushes the result.

        Raises:
            StageFailed: if it must not be pushed.
        """
        if names := sorted(list_held_back(action)):
            raise StageFailed(
                self.name,
                f"the result of {self.name} stays on {self.machine}: it depends on the variables {', '.join(names)}",
                why="digests of their values would be in the remote, where they could be guessed",
                hint=f"Set {SHARED_KEY} to one secret on all machines, or list them under `env` of the stage",
            )
        newest = self.project.planner.pipeline.kinds[self.stage.uses].spec.stage_class == "measurement"
        pieces = list_pieces(self.store, action.tree, action.log)
        return partial(
            Transfers.push,
            key=action.key,
            record=encode_record(action),
            pieces=pieces,
            newest=newest,
            repair=self.order.repair,
        )


def fetch_project(name: str, snapshot: Snapshot, artifacts: Artifacts, folders: ProjectFolders) -> Steps:
    """Fetch the files of a snapshot, unless its folder is in use; notices name the stage.

    Raises:
        UsageError: if the snapshot names files outside of it.
    """
    require_digests([snapshot.tree])
    file = PurePosixPath(snapshot.file)
    if file.is_absolute() or ".." in file.parts:
        raise UsageError(f"the pipeline file {snapshot.file!r} is outside of its project")
    return folders.has(snapshot) or (yield from artifacts.fetch(name, snapshot.tree, noun="the project"))


def require_digests(texts: Iterable[str]) -> None:
    """Raise UsageError unless texts are digests: they become names of files."""
    if unusable := [text for text in texts if not is_digest(text)]:
        raise UsageError(f"{unusable[0][:80]!r} is no digest")
