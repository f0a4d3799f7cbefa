"""Outcome of a run so far: results of stages, verdicts of gates, and the stages that are up to date."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orun.core.events import Event, GateJudged, Notice, StageFinished
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import Outcome, StageResult
from orun.core.serialization import replace
from orun.core.verdict import Verdict
from orun.errors import StageError
from orun.pipeline.graph import find_reachable
from orun.pipeline.model import Stage
from orun.planning.plan import Done, Step
from orun.planning.planner import Planner
from orun.runner.output_checkouts import OutputCheckouts, describe_name_conflict, withdraw_removed_stages
from orun.runner.stage_results import build_failed_result, build_not_run_result, build_up_to_date_result
from orun.store import Action

if TYPE_CHECKING:
    from orun.remote.sync import Sync


@dataclass
class RunOutcome:
    """Results, verdicts and up-to-date stages of a run; each is emitted as it is added."""

    planner: Planner
    emit: Callable[[Event], None]
    outputs: OutputCheckouts
    remote: Sync | None
    guards: Collection[str] = ()  # ids of stages before a release: none of their gates may be undecided
    results: dict[str, StageResult] = field(default_factory=dict)  # of each settled stage, by id
    verdicts: tuple[Verdict, ...] = ()
    done: dict[str, Done] = field(default_factory=dict)  # the stages that are up to date, by id

    @property
    def complete(self) -> bool:
        """Whether every stage of the pipeline is up to date, and would be in any run of it.

        A stage behind a failed gate would be blocked in a run without `--keep-going`.
        """
        every = len(self.done) == len(self.planner.pipeline.stages)
        return every and not any(item.behind for item in self.done.values())

    def find_guards(self, stages: Sequence[Stage]) -> None:
        """Find the stages before each release of a run."""
        releases = [
            stage
            for stage in stages
            if self.planner.resolve_context(stage).spec.releases and not self.planner.skips(stage)
        ]
        before = {stage.id: stage.before for stage in stages}
        self.guards = find_reachable([name for release in releases for name in release.before], before)

    def find_blocker(self, stage: Stage) -> Reason | None:
        """Return which stage or gate before a ready stage keeps it from running; None if none does."""
        for name in stage.before:
            outcome = self.results[name].outcome
            if outcome == "skipped" and name not in stage.upstream and not self.planner.pipeline.strict:
                continue
            if name not in self.done:
                return build_reason(ReasonCode.STAGE_BEFORE, stage=name, outcome=outcome)
        return self.planner.find_blocking_gate(stage, self.done)

    def settle_outputs(self) -> None:
        """At the end of a run, restore outputs that another run replaced and remove those of removed stages."""
        pipeline = self.planner.pipeline
        for notice in self.outputs.restore_replaced():
            self.emit(Notice("warning", notice))
        if conflict := describe_name_conflict(self.planner.store, pipeline):
            self.emit(Notice("warning", conflict))
        for notice in withdraw_removed_stages(self.planner.store, pipeline):
            self.emit(Notice("info", notice))

    def add_up_to_date(self, step: Step, action: Action, outcome: Outcome) -> None:
        """Check out the artifact of a stage that is up to date, and judge its gates."""
        stage, pipeline = step.stage, self.planner.pipeline
        out, restored = self._check_out(stage, action)
        fetched = self.remote is not None and self.remote.downloads.is_fetched(step)
        if restored and step.previous and outcome == "cached" and not fetched:
            self.emit(Notice("info", f"{stage.id}: restored {out}"))
        self.planner.store.set_latest(pipeline.name, stage.id, action)
        if self.remote:
            self.remote.uploads.push(step, action, new=outcome == "built" and not step.machine)
        self.done[stage.id] = self.planner.build_done(step, action, self.done)
        verdicts = self.done[stage.id].verdicts
        if stage.id in self.guards:
            verdicts = tuple(replace(verdict, fails=verdict.fails or verdict.blocks) for verdict in verdicts)
        self.verdicts += verdicts
        self._add(build_up_to_date_result(step, action, outcome, out, fetched=fetched))
        for verdict in verdicts:
            self.emit(GateJudged(verdict))

    def _check_out(self, stage: Stage, action: Action) -> tuple[str, bool]:
        """Check out an artifact; return its folder, and whether that had to change.

        If its files are left in the remote, there is no folder, and an earlier output of the stage is removed.
        """
        if action in self.planner.results.in_remote and self.planner.store.check(action.tree):
            if self.planner.store.withdraw(self.planner.pipeline.name, stage.id):
                notice = f"{stage.id}: its earlier output was removed from out/; the new one is in the remote"
                self.emit(Notice("info", notice))
            return "", False
        out, restored = self.outputs.put(stage.id, action)
        return str(out), restored

    def add_failure(self, step: Step, error: StageError) -> None:
        """Add the result of a stage that failed."""
        self._add(build_failed_result(step, error))

    def add_not_run(self, stage: Stage, outcome: Outcome, reasons: tuple[Reason, ...]) -> None:
        """Add the result of a stage that is blocked or skipped; the output of a skipped one is removed."""
        pipeline = self.planner.pipeline
        if outcome == "skipped" and self.planner.store.withdraw(pipeline.name, stage.id):
            notice = f"{stage.id}: its output, of another version, was removed: this run leaves it out"
            self.emit(Notice("info", notice))
        self._add(build_not_run_result(stage, outcome, reasons, strict=pipeline.strict))

    def emit_store_notices(self) -> None:
        """Emit what the store has to say since the last call."""
        for notice in self.planner.store.drain_notices():
            self.emit(Notice("warning", notice))

    def _add(self, result: StageResult) -> None:
        self.results[result.stage] = result
        self.emit_store_notices()
        self.emit(StageFinished(result))
