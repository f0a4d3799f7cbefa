"""Result of a stage for the run record."""

from __future__ import annotations

from orun.core.run_record import Failure, Outcome, StageResult, Unjudged
from orun.errors import StageError
from orun.pipeline.model import Gate, Stage
from orun.planning.plan import Step
from orun.remote.options import FETCHED
from orun.store import Action


def up_to_date(step: Step, action: Action, outcome: Outcome, out: str, *, brought: bool) -> StageResult:
    """The result of a stage that has an artifact.

    Args:
        step: the decision on it.
        action: what is stored of it.
        outcome: `built` or `cached`.
        out: the folder that people open.
        brought: whether another machine built it, and this run fetched it.
    """
    return StageResult(
        step.stage.id,
        step.stage.uses,
        outcome,
        (FETCHED, *step.reasons) if brought else step.reasons,
        key=action.key,
        tree=action.tree,
        out=out,
        size=action.size,
        seconds=action.seconds,
        built_at=action.started_at,
        metrics=action.metrics,
        position=step.stage.position,
        others=action.others,
        inputs=action.inputs,
        wrote=tuple(name for name, stray in action.wrote.items() if stray.how == "written"),
        needs=step.stage.before,
        notes=action.notes,
        trace=action.trace,
    )


def failed(step: Step, error: StageError) -> StageResult:
    """The result of a stage that failed."""
    return StageResult(
        step.stage.id,
        step.stage.uses,
        "failed",
        step.reasons,
        step.key,
        failure=Failure(type(error).__name__, error.what, error.why, error.hint, error.log),
        position=step.stage.position,
        inputs=step.parts,
        unjudged=unjudged(step.stage),
        needs=step.stage.before,
    )


def left(stage: Stage, outcome: Outcome, reasons: tuple[str, ...], *, strict: bool = False) -> StageResult:
    """The result of a stage that is blocked or skipped; of a skipped one each gate fails a `strict` run."""
    return StageResult(
        stage.id,
        stage.uses,
        outcome,
        reasons,
        position=stage.position,
        unjudged=unjudged(stage, fails=strict and outcome == "skipped"),
        needs=stage.before,
    )


def unjudged(stage: Stage, *, fails: bool = False) -> tuple[Unjudged, ...]:
    """The gates of a stage that has nothing to be judged."""
    return tuple(
        Unjudged(stage.id, one.metric, one.rule, one.threshold.text, one.position, one.scope, fails)
        if isinstance(one, Gate)
        else Unjudged(stage.id, one.name, one.rule, "", one.position, fails=fails)
        for one in stage.gates
    )
