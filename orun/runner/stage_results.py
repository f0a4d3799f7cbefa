"""Results of stages for the run record."""

from __future__ import annotations

from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import Failure, Outcome, StageResult
from orun.core.verdict import Unjudged
from orun.errors import StageError
from orun.pipeline.model import Gate, Stage
from orun.planning.plan import Step
from orun.store import Action


def build_up_to_date_result(step: Step, action: Action, outcome: Outcome, out: str, *, fetched: bool) -> StageResult:
    """Return the result of a stage that was `built` or `cached`, and perhaps fetched, with its output checkout."""
    return StageResult(
        step.stage.id,
        step.stage.uses,
        outcome,
        (build_reason(ReasonCode.FETCHED), *step.reasons) if fetched else step.reasons,
        key=action.key,
        tree=action.tree,
        out=out,
        size=action.size,
        seconds=action.seconds,
        built_at=action.started_at,
        metrics=action.metrics,
        position=step.stage.position,
        other_trees=action.other_trees,
        inputs=action.inputs,
        wrote=tuple(name for name, write in action.wrote.items() if write.how == "written"),
        needs=step.stage.before,
        notes=action.notes,
        trace=action.trace,
        machine=step.machine if outcome == "built" else action.host.get("machine", ""),
    )


def build_failed_result(step: Step, error: StageError) -> StageResult:
    """Return the result of a stage that failed."""
    texts = error.problem, error.why, error.hint, error.log, error.advice, error.command
    return StageResult(
        step.stage.id,
        step.stage.uses,
        "failed",
        step.reasons,
        step.key,
        failure=Failure(type(error).__name__, *texts, error.code, error.settings),
        position=step.stage.position,
        inputs=step.components,
        unjudged=list_unjudged(step.stage),
        needs=step.stage.before,
        machine=step.machine,
    )


def build_not_run_result(stage: Stage, outcome: Outcome, reasons: tuple[Reason, ...], *, strict: bool) -> StageResult:
    """Return the result of a stage that is blocked or skipped; each gate of a skipped stage fails a strict run."""
    return StageResult(
        stage.id,
        stage.uses,
        outcome,
        reasons,
        position=stage.position,
        unjudged=list_unjudged(stage, fails=strict and outcome == "skipped"),
        needs=stage.before,
    )


def list_unjudged(stage: Stage, *, fails: bool = False) -> tuple[Unjudged, ...]:
    """Return the gates of a stage that has no measurement to judge."""
    return tuple(
        Unjudged(stage.id, gate.metric, gate.rule, gate.threshold.text, gate.position, gate.scope, fails)
        if isinstance(gate, Gate)
        else Unjudged(stage.id, gate.name, gate.rule, "", gate.position, fails=fails)
        for gate in stage.gates
    )
