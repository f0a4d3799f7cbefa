"""Orders of a run: stages that other machines run, from their start to the result in the store of this machine.

A stage that is refused or lost starts again: the planner decides with the facts of then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from orun import errors
from orun.core.events import Event, Notice, StageStarted, StageWaiting
from orun.core.machines import Built, Failed, Joined, Leaving, LogText, Lost, Order, Refused
from orun.core.reason_codes import ReasonCode
from orun.core.serialization import replace
from orun.environment.env_vars import build_stage_environment
from orun.errors import MachineLost, StageError, StageFailed
from orun.executors import Progress, format_commands
from orun.fs.observed_state import ABSENT
from orun.fs.os_errors import convert_os_errors, quote
from orun.pipeline.model import Stage
from orun.planning.implicit_deps import build_changed_error
from orun.planning.key_diff import list_key_changes
from orun.planning.plan import Done, Step
from orun.planning.planner import Planner
from orun.runner.fleet import FleetMessage, FleetRun
from orun.runner.machine_choice import MachineChoice
from orun.runner.setbacks import Setbacks
from orun.runner.stage_execution import StageEnd
from orun.runner.stage_reports import StageReports
from orun.store import Action
from orun.store.layout import format_command_options, to_safe_name
from orun.text.suggestions import show_path

if TYPE_CHECKING:
    from orun.remote.sync import Sync

LOOK_SECONDS = 5.0  # between two looks for machines that join
AGAIN = (ReasonCode.FORCED, ReasonCode.MEASURED_AGAIN)  # the agent must not use a result that it has


@dataclass
class Sent:
    """Order that a machine works on."""

    step: Step
    started_at: float  # monotonic time
    built: Built | None = None  # about the result, which is being fetched


@dataclass
class Orders:
    """Orders of one run."""

    run: FleetRun
    planner: Planner
    remote: Sync
    logs: Path
    emit: Callable[[Event], None]
    reports: StageReports
    _sent: dict[str, Sent] = field(default_factory=dict)
    _unread: dict[str, set[str]] = field(default_factory=dict)  # machines whose results did not arrive here, by stage
    _repairing: set[str] = field(default_factory=set)  # stages whose results are pushed again for other machines
    _unfed: dict[str, set[str]] = field(default_factory=dict)  # machines at which inputs did not arrive, by stage
    _looked_at: float = float("-inf")
    _news: bool = False  # whether machines came or went since `drain_news`

    def __post_init__(self) -> None:
        assert self.planner.assignment  # noqa: S101 - there are no orders without one
        self._assignment = self.planner.assignment
        self.choice = MachineChoice(self.planner, self._assignment)
        self.setbacks = Setbacks(self.run.wait, self.emit)

    @property
    def active(self) -> bool:
        """Whether a machine works on an order, or its result is being fetched."""
        return bool(self._sent or self._repairing)

    def look(self) -> None:
        """Look for machines that join, every few seconds. Never waits."""
        if monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = monotonic()
            self.run.fleet.look(self.run.snapshot, self.remote.url)

    def drain_news(self) -> bool:
        """Return whether machines came or went since the last call, so that stages are decided on anew."""
        news, self._news = self._news, False
        return news

    def share_inputs(self, step: Step, done: Mapping[str, Done]) -> bool:
        """Start to push the inputs of a stage that are not in the remote; return whether all are there.

        Raises:
            StageFailed: if one cannot be there.
        """
        shared = True
        for name in dict.fromkeys(step.stage.needs.values()):
            if name in self._repairing:
                return False
            if problem := self.remote.uploads.share(done[name].step, done[name].action):
                hint = "see `orun run --help` on --remote-mode, and the notices above"
                raise StageFailed(step.stage.id, f"{step.stage.id} cannot run on another machine: {problem}", hint=hint)
            shared = shared and self.remote.uploads.is_shared(done[name].action)
        return shared

    def start(self, step: Step, done: Mapping[str, Done]) -> None:
        """Send a stage to the machine of its decision."""
        name = step.stage.id
        self.logs.mkdir(exist_ok=True)
        log = self._log(name)
        log.touch()
        self.setbacks.start(name, step.machine)
        self._sent[name] = Sent(step, monotonic())
        self.emit(StageStarted(name, step.reasons, str(log), step.seconds, step.machine))
        self.run.fleet.start(self._order(step, done), step.machine)

    def _order(self, step: Step, done: Mapping[str, Done]) -> Order:
        upstream = {item: done[item].action for item in step.stage.before if item in done}
        return Order(
            stage=step.stage.id,
            key=step.key,
            snapshot=self.run.snapshot,
            upstream={item: action.key for item, action in upstream.items()},
            remote=self.remote.url,
            components=step.components,
            trees={item: action.tree for item, action in upstream.items()},
            again=any(item.code in AGAIN for item in step.reasons),
            repair=step.stage.id in self._unread,
        )

    def receive(self, timeout: float, done: Mapping[str, Done]) -> list[StageEnd]:
        """Take the messages of the machines, wait so many seconds at most for the first, and go on fetching results."""
        ended = [self._handle(message, done) for message in self.run.fleet.wait(timeout)]
        for name, sent in list(self._sent.items()):
            if sent.built and self.remote.downloads.take(sent.step, sent.built):
                del self._sent[name]
                ended.append(StageEnd(sent.step, self._accept(sent.step, done), sent.built.stored))
        return [item for item in ended if item]

    def _handle(self, message: FleetMessage, done: Mapping[str, Done]) -> StageEnd | None:
        """Take a message; return the end of an order if it is that."""
        if isinstance(message, Progress):
            self.reports.pass_progress(message)
        elif isinstance(message, LogText):
            with convert_os_errors(f"write the log of {message.stage}", self.logs):
                self.logs.mkdir(exist_ok=True)
                with self._log(message.stage).open("a", encoding="utf-8") as log:
                    log.write(message.text)
        elif isinstance(message, (Notice, StageWaiting)):
            self.emit(message)
        elif isinstance(message, Joined):
            self._welcome(message)
        elif isinstance(message, Leaving):
            self.emit(Notice("info", f"machine {message.machine} takes no more stages: its agent stops"))
            self._assignment.remove(message.machine)
            self._news = True
        elif message.stage in self._repairing:
            self._repairing.discard(message.stage)
        elif message.stage in self._sent:  # else it ended before, as with a machine that was lost and came back
            return self._end(message, done)
        return None

    def _welcome(self, message: Joined) -> None:
        """Use a machine that has joined, or say why it takes no part."""
        name, assignment = message.machine.id, self._assignment
        was_there, left_out = name in assignment.machines, assignment.left_out
        assignment.add(message.machine, message.facts)
        for why in assignment.left_out[len(left_out) :]:
            self.emit(Notice("warning", why))
        if name in assignment.machines and not was_there:
            self.emit(Notice("info", f"machine {name} has joined"))
        self._news = True

    def _end(self, message: Built | Failed | Refused | Lost, done: Mapping[str, Done]) -> StageEnd | None:
        sent = self._sent[message.stage]
        if isinstance(message, Built):
            sent.built = message
            return None
        if sent.built or message.machine != sent.step.machine:
            return None  # its result is in the remote already, or another machine has the order now
        del self._sent[message.stage]
        if isinstance(message, Failed):
            return StageEnd(sent.step, None if self._repair(message, done) else self._build_error(message))
        again = self._lose(sent, message) if isinstance(message, Lost) else self._refuse(message)
        return StageEnd(sent.step, again)

    def _repair(self, message: Failed, done: Mapping[str, Done]) -> bool:
        """Push the input again that did not arrive at a machine; return False if that is not why the stage failed."""
        upstream = done.get(message.lacks)
        if upstream is None or not self.setbacks.may_repair(message.stage) or not self._push_again(upstream, done):
            return False
        self.emit(Notice("warning", f"{message.failure.problem}; it is pushed again"))
        self._suspect(self.planner.pipeline.stage(message.stage), message.machine, self._unfed)
        return True

    def _push_again(self, upstream: Done, done: Mapping[str, Done]) -> bool:
        """Push a result once more from the machine that has it; return whether that is there."""
        step, action = upstream.step, upstream.action
        if not self.planner.store.check(action.tree):
            return not self.remote.uploads.share(step, action, repair=True)
        machine = action.host.get("machine", "")
        if machine not in self._assignment.machines:
            return False
        self._repairing.add(step.stage.id)
        self.run.fleet.start(replace(self._order(step, done), repair=True), machine)
        return True

    def _suspect(self, stage: Stage, machine: str, failed: dict[str, set[str]]) -> None:
        """Take a machine out of the run if transfers for a stage have failed there before, as with a wrong key.

        It stays if no other machine can run the stage.
        """
        machines = failed.setdefault(stage.id, set())
        if machine in machines and self.planner.find_candidates(stage).machines != (machine,):
            self._assignment.bar(machine)
            text = f"machine {machine} gets no more stages: transfers for {stage.id} failed there twice"
            self.emit(Notice("warning", text))
        machines.add(machine)

    def _build_error(self, message: Failed) -> StageError:
        failure = message.failure
        kind = getattr(errors, failure.error, StageFailed)
        kind = kind if isinstance(kind, type) and issubclass(kind, StageError) else StageFailed
        log = str(self._log(message.stage))
        hint, command = failure.hint, ""
        if failure.command:  # as it is typed on that machine
            command = self._format_command(message.stage)
            hint = format_commands(log, command)
        error: StageError = kind(
            message.stage,
            failure.problem,
            why=failure.why,
            hint=hint,
            log=log,
            advice=failure.advice,
            command=command,
            code=failure.code,
            settings=failure.settings,
        )
        return error

    def _format_command(self, stage: str) -> str:
        """Return the command that runs a stage alone, on the same machines."""
        pipeline = self.planner.pipeline
        options = format_command_options(pipeline.overrides, self.planner.store.root, pipeline.root)
        file = quote(show_path(str(pipeline.file)))
        return f"orun {file} --only {quote(stage)}{options}{self.run.options}"

    def _lose(self, sent: Sent, message: Lost) -> MachineLost | None:
        """Return the error of a stage that was lost too often; None if it starts again."""
        self._assignment.remove(message.machine)
        if not self.planner.find_candidates(sent.step.stage).classes:
            self.refresh()
        return self.setbacks.lose(message, monotonic() - sent.started_at)

    def _refuse(self, message: Refused) -> StageFailed | None:
        """Return the error of a stage that was refused too often; None if it starts again."""
        file, stage = quote(self.planner.pipeline.file), quote(message.stage)
        error = self.setbacks.refuse(message, f"orun explain {file} {stage}{self.run.options or ' --on URL'}")
        if error is None:
            self.refresh()
        return error

    def find_lack(self, stage: Stage) -> MachineLost | None:
        """Return the error of a stage that no machine can run; None while it may wait for one."""
        return self.setbacks.find_lack(stage.id, self.planner.find_candidates(stage).problem)

    def refresh(self) -> None:
        """Ask the machines for their facts again."""
        fleet = self.run.fleet
        self._assignment.update(fleet.machines(), fleet.facts(self.run.snapshot, self.remote.url))

    def _accept(self, step: Step, done: Mapping[str, Done]) -> Action | StageError | None:
        """Return the result of an order, or why it is none of the present project.

        Return None if it did not arrive, and its machine is to push it again.
        """
        stage, action = step.stage, self.remote.downloads.take_arrived(step)
        if action is None or self.planner.results.find_damage(action):
            problem = f"{stage.id} was built on {step.machine}, and its result did not arrive from the remote"
            if self.setbacks.may_repair(stage.id):
                self.setbacks.begin_again(stage.id, problem)
                self._suspect(stage, step.machine, self._unread)
                return None
            hint = "see the notices above, and run again: the result is there"
            return StageFailed(stage.id, problem, why=f"remote {self.remote.url}", hint=hint)
        changes = list_key_changes(stage, step.components, self.planner.list_components(stage, done, step.machine))
        changes = changes or self.planner.list_changes(stage, action, step.machine)
        if changes:
            subject = str(changes[0].arguments.get("subject", changes[0].code))
            return build_changed_error(stage.id, f"{subject} was changed")
        self._unread.pop(stage.id, None)
        self._warn_of_unset(step, action)
        return action

    def _warn_of_unset(self, step: Step, action: Action) -> None:
        """Say which variables a stage looked for in vain on its machine, while they are set on this one."""
        here = build_stage_environment()
        states = action.implicit_deps.environment.items()
        if unset := sorted(name for name, state in states if state == ABSENT and name in here):
            names = ", ".join(unset)
            text = f"{step.stage.id} looked for {names}, set here and not on {step.machine}: variables do not travel"
            self.emit(Notice("warning", f"{text}; set {names} where the agent runs"))

    def _log(self, name: str) -> Path:
        return self.logs / f"{to_safe_name(name)}.log"
