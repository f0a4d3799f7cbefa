"""Session of a run: from its first event to its record."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orun import __version__
from orun.core.events import Event, Notice, RunStarted
from orun.core.run_record import (
    INTERRUPTED,
    INVESTIGATIONS,
    UNDECIDED,
    ChangedSetting,
    RunInterrupted,
    RunResult,
    StageResult,
)
from orun.core.serialization import Record, replace
from orun.core.verdict import Verdict
from orun.environment import device, platforms
from orun.environment.resources import Resources
from orun.errors import OrunError, StoreError
from orun.eventlog import Journal, build_unrecorded_notice
from orun.executors import LocalExecutor, Mask, find_enclosing_stage
from orun.fs.observed_state import to_portable_name
from orun.fs.os_errors import quote
from orun.history import source_snapshot
from orun.history.git_revision import read_commit
from orun.pipeline.graph import find_reachable
from orun.pipeline.problems import render_note
from orun.planning.plan import DUE, Plan
from orun.planning.planner import Planner
from orun.runner.preflight import make_environments
from orun.runner.runner import Runner
from orun.runner.stage_results import list_unjudged
from orun.store.layout import store_option
from orun.text.suggestions import show_path

if TYPE_CHECKING:
    from orun.remote.settings import Settings
    from orun.remote.sync import Sync
    from orun.runner.fleet import FleetRun

UNLIMITED = "{stage}: its `resources.memory` limits nothing on {system}; only Linux stops a stage that takes more"
MOST_NAMED = 5  # stages in the error about a read-only store


class RunSession(Record, frozen=True):
    """A run that may have work to do."""

    planner: Planner
    plan: Plan
    chosen: Collection[str]  # ids of the stages that may run
    resources: Resources  # what the run may use of the machine
    journal: Journal
    remote: Settings | None = None
    fleet: FleetRun | None = None

    def run(self, *, keep_going: bool) -> tuple[RunResult, Runner]:
        """Run to the end; return the result, and the runner with what became of each stage.

        Raises:
            OrunError: if the run itself cannot go on, as when the store fails.
            RunInterrupted: if the user stops it; it has ended in order.
        """
        pipeline, needed = self.planner.pipeline, self._find_needed()
        plan = Plan(pipeline, tuple(step for step in self.plan.steps if step.stage.id in needed))
        self.journal.emit(self._run_started(tuple(step.stage.id for step in plan.steps)))
        if not self.journal.recorded:
            self._emit(build_unrecorded_notice(self.planner.store.root))
        for warning in self._iter_warnings(plan):
            self._emit(Notice("warning", warning))
        with LocalExecutor() as executor:
            runner = Runner(
                planner=self.planner,
                executor=executor,
                emit=self._emit,
                logs=self.journal.folder / "logs",
                resources=self.resources,
                keep_going=keep_going,
                allowed=frozenset(self.chosen),
                remote=self._open_sync(),
                fleet=self.fleet,
            )
            try:
                make_environments(self.plan, self.chosen, lambda text: self._emit(Notice("info", text)))
                if runner.remote:
                    runner.remote.fetch_models(plan.steps)
                runner.run(plan)
                if runner.remote:
                    runner.remote.finish()
                code = choose_exit_code(tuple(runner.outcome.results.values()), runner.outcome.verdicts)
            except KeyboardInterrupt:
                code = INTERRUPTED
            except OrunError as error:
                with suppress(StoreError):  # a store that failed may take no record either
                    self._end(error.exit_code)
                Mask.of(pipeline.private).hide_in_error(error)
                raise
            finally:
                if runner.remote:
                    runner.remote.close()
        result = self._end(code)
        if code == INTERRUPTED:
            raise RunInterrupted(result)
        return result, runner

    def _iter_warnings(self, plan: Plan) -> Iterator[str]:
        """Yield what the user should know before the first stage starts."""
        pipeline = self.planner.pipeline
        yield from () if pipeline.name.endswith(INVESTIGATIONS) else map(render_note, pipeline.notes)
        yield from self.plan.left_out
        for step in plan.steps:
            if step.stage.memory and sys.platform != "linux":
                yield UNLIMITED.format(stage=step.stage.id, system=platforms.name_here())

    def _emit(self, event: Event) -> None:
        """Write an event and pass it on; secrets in a notice, which may quote anything, are masked."""
        if isinstance(event, Notice):
            event = replace(event, text=Mask.of(self.planner.pipeline.private).hide_in_text(event.text))
        self.journal.emit(event)

    def _open_sync(self) -> Sync | None:
        if self.remote is None:
            return None
        from orun.remote.sync import Sync

        if self.fleet is None:
            return Sync(self.remote, self.planner, self._emit)
        return Sync(self.remote, self.planner, self._emit, self.fleet.fleet.wake)

    def _find_needed(self) -> set[str]:
        """Return the chosen stages and all before them, including those that guard a release."""
        return find_reachable(self.chosen, {step.stage.id: step.stage.before for step in self.plan.steps})

    def _run_started(self, stages: tuple[str, ...]) -> RunStarted:
        pipeline = self.planner.pipeline
        project = pipeline.project
        return RunStarted(
            run=self.journal.folder.name,
            pipeline=pipeline.name,
            file=str(pipeline.file),
            stages=stages,
            jobs=self.resources.cores,
            started_at=self.journal.started_at,
            host=device.fingerprint("measurement", None),
            folder=self.journal.folder,
            overrides=pipeline.overrides,
            sources={
                to_portable_name(Path(path), pipeline.root, project): digest
                for path, digest in pipeline.sources.items()
            },
            commit=""
            if find_enclosing_stage()
            else read_commit(pipeline.root),  # git would be a dependency of that stage
            orun=__version__,
            expected={
                step.stage.id: step.seconds
                for step in self.plan.steps
                if step.stage.id in self.chosen and step.action in DUE
            },
        )

    def _end(self, code: int) -> RunResult:
        result = self.journal.build_result(code)
        result = replace(
            result, not_asked=self._list_gates_left_out(), changed_settings=tuple(self._iter_changed_settings(result))
        )
        if self.journal.recorded:
            source_snapshot.keep(result, self.planner.pipeline)
            result = replace(result, edited=source_snapshot.find_edited(result, self.planner.pipeline))
            self._add_to_history(result)
        return self.journal.finish(result)

    def _iter_changed_settings(self, result: RunResult) -> Iterator[ChangedSetting]:
        """Yield the settings that differ from the accepted ones, with secrets masked, in the order of the stages."""
        mask = Mask.of(self.planner.pipeline.private)
        if baseline := self.planner.baseline:
            for stage in result.stages:
                for setting in baseline.list_changed_settings(stage.stage, stage.inputs):
                    yield replace(setting, current=mask.hide_in_text(setting.current))

    def _list_gates_left_out(self) -> tuple[str, ...]:
        """Return the gates of the stages that this run leaves out."""
        needed = self._find_needed()
        left_out = (stage for stage in self.planner.pipeline.stages if stage.id not in needed)
        return tuple(gate.title for stage in left_out for gate in list_unjudged(stage))

    def _add_to_history(self, result: RunResult) -> None:
        """Add the measurements to the history. A history that cannot be written fails no release."""
        measured = {stage.outcome for stage in result.stages if stage.metrics}
        if result.pipeline.endswith(INVESTIGATIONS) or not measured & {"built", "cached"}:
            return
        from orun.history import History, find_renamed_points, list_points, list_points_used_again, locate_history

        history = History(locate_history(self.planner.store.root))
        try:
            past = find_renamed_points(history, result, {stage.id for stage in self.planner.pipeline.stages})
            if past:
                history.add(past)
            new = (*list_points(result), *list_points_used_again(result, history.read_last_values(result.pipeline)))
            if new:
                history.add(new)
        except StoreError as error:
            if "built" not in measured:
                return
            text = f"{error.problem} ({error.why}): the measurements of this run are not in it; {error.hint}"
            self._emit(Notice("warning", text))


def require_up_to_date(plan: Plan, chosen: Collection[str], store: Path) -> None:
    """Refuse a run on a read-only store that has work to do.

    Raises:
        StoreError: with the stages that would run.
    """
    due = [step for step in plan.steps if step.stage.id in chosen and step.action in DUE]
    if due:
        stages = ", ".join(step.stage.id for step in due[:MOST_NAMED])
        file, option = quote(show_path(str(plan.pipeline.file))), store_option(store, plan.pipeline.root)
        raise StoreError(
            f"the store {show_path(str(store))} cannot be written, and {len(due)} of {len(chosen)} stages would run",
            why=f"not up to date: {stages}; to see why: orun plan {file}{option}",
            hint=f"Choose a place that can be written (--store DIR): ls -ld {quote(store)}",
        )


def choose_exit_code(stages: Sequence[StageResult], verdicts: Sequence[Verdict]) -> int:
    """Return the exit code of a run.

    Returns:
        The first that applies: 3 if a stage failed; 1 if a gate failed; 4 if a gate that must be decided is undecided
        or not judged; 3 if a stage is blocked; otherwise 0.
    """
    if any(result.outcome == "failed" for result in stages):
        return 3
    if any(verdict.fails and verdict.outcome == "failed" for verdict in verdicts):
        return 1
    if any(verdict.fails for verdict in verdicts) or any(gate.fails for result in stages for gate in result.unjudged):
        return UNDECIDED
    return 3 if any(result.outcome == "blocked" for result in stages) else 0
