"""What became of a stage that ran or was found, as the record says it."""

from __future__ import annotations

from orun.errors import StageError
from orun.planner import Step
from orun.record import Failure, Outcome, StageResult
from orun.remote.asked import FETCHED
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
    )
