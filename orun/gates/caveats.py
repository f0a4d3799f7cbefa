"""Limits of a stage's verdicts that the pipeline alone shows."""

from __future__ import annotations

from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.targets import Target
from orun.pipeline.graph import find_reachable
from orun.pipeline.model import Pipeline, Stage

DATASET = "dataset"  # parameter of kinds that judge a model by its answers
CPU = "CPUExecutionProvider"
COMPILING = "compile/"  # kinds that make another form of a model, and compare its answers


def list_caveats(pipeline: Pipeline, stage: Stage) -> tuple[Reason, ...]:
    """Return the caveats of a stage with gates."""
    return tuple(filter(None, (_explain_fitted(pipeline, stage), _explain_unchecked(pipeline, stage))))


def _explain_fitted(pipeline: Pipeline, stage: Stage) -> Reason | None:
    """Return the caveat about figures on the very data that the model was calibrated with, or chosen by."""
    data = stage.params.get(DATASET)
    if not data:
        return None
    needs = {item.id: tuple(item.needs.values()) for item in pipeline.stages}
    upstream = find_reachable(list(stage.needs.values())[:1], needs)
    parameters = [
        [name, maker.id]
        for maker in reversed(pipeline.stages)
        if maker.id in upstream
        for name in pipeline.kinds[maker.uses].spec.calibration_params
        if maker.params.get(name) == data
    ]
    return build_reason(ReasonCode.FITTED_DATA, parameters=parameters) if parameters else None


def _explain_unchecked(pipeline: Pipeline, stage: Stage) -> Reason | None:
    """Return the caveat about speed on a target where no gate checks the model's answers.

    Providers compute in precisions of their own.
    """
    timed = pipeline.kinds[stage.uses].spec.stage_class == "measurement"
    source, target = _find_primary(stage), stage.target
    if not timed or not source or target is None or all(provider.name == CPU for provider in target.providers):
        return None
    forms = {source}
    while source and pipeline.stage(source).uses.startswith(COMPILING):
        source = _find_primary(pipeline.stage(source))
        forms.add(source)
    if any(_find_primary(item) in forms and _judges(pipeline, item, target) for item in pipeline.stages):
        return None
    return build_reason(ReasonCode.UNCHECKED_TARGET, target=target.name, source=source)


def _find_primary(stage: Stage) -> str:
    """Return the stage at the first input; empty when there is none."""
    return next(iter(stage.needs.values()), "")


def _judges(pipeline: Pipeline, stage: Stage, target: Target) -> bool:
    """Return whether a stage has gates on answers on that target; a function of the user's own may have them."""
    if not stage.gates or pipeline.kinds[stage.uses].origin == "file":
        return bool(stage.gates)
    return DATASET in stage.params and stage.target is not None and stage.target.name == target.name
