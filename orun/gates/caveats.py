"""Limits of a stage's verdicts that the pipeline alone shows."""

from __future__ import annotations

from orun.core.targets import Target
from orun.pipeline.graph import reached
from orun.pipeline.model import Pipeline, Stage

DATASET = "dataset"  # parameter of what judges a model by its answers
CPU = "CPUExecutionProvider"
COMPILING = "compile/"  # how kinds begin that make another form of a model, and compare what it answers


def caveat_of(pipeline: Pipeline, stage: Stage) -> str:
    """The sentences about a stage with gates; empty when there is nothing to say."""
    return "; ".join(filter(None, (_fitted(pipeline, stage), _unanswered(pipeline, stage))))


def _fitted(pipeline: Pipeline, stage: Stage) -> str:
    """Figures on the very data that the model was calibrated with, or chosen by: on other data it may be worse."""
    data = stage.params.get(DATASET)
    if not data:
        return ""
    led = reached(list(stage.needs.values())[:1], {one.id: tuple(one.needs.values()) for one in pipeline.stages})
    told = [
        f"`{name}` of {maker.id}"
        for maker in reversed(pipeline.stages)
        if maker.id in led
        for name in pipeline.kinds[maker.uses].spec.calibration_params
        if maker.params.get(name) == data
    ]
    if not told:
        return ""
    makers = " and ".join(told)
    return (
        f"its data is the {makers}, by which the model was made: on other data it may be worse, so keep some for this"
    )


def _unanswered(pipeline: Pipeline, stage: Stage) -> str:
    """Speed on a target where nobody looks at what the model answers: providers compute in precisions of their own."""
    timed = pipeline.kinds[stage.uses].spec.stage_class == "measurement"
    source, target = _primary(stage), stage.target
    if not timed or not source or target is None or all(one.name == CPU for one in target.providers):
        return ""
    forms = {source}
    while source and pipeline.stage(source).uses.startswith(COMPILING):
        source = _primary(pipeline.stage(source))
        forms.add(source)
    if any(_primary(one) in forms and _judges(pipeline, one, target) for one in pipeline.stages):
        return ""
    return (
        f"its speed is that of target {target.name}, on which no gate judges what {source} answers: "
        f"one on measure/accuracy with `target: {target.name}` does"
    )


def _primary(stage: Stage) -> str:
    """What feeds a stage first; empty when nothing does."""
    return next(iter(stage.needs.values()), "")


def _judges(pipeline: Pipeline, stage: Stage, target: Target) -> bool:
    """Whether a stage has gates on answers that it takes on that target; a function of the user's own may take them."""
    if not stage.gates or pipeline.kinds[stage.uses].origin == "file":
        return bool(stage.gates)
    return DATASET in stage.params and stage.target is not None and stage.target.name == target.name
