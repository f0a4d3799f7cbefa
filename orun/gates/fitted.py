"""Figures on the very data that a model was calibrated with, or chosen by: on other data it may be worse."""

from __future__ import annotations

from orun.pipeline.model import Pipeline, Stage

DATASET = "dataset"  # parameter of what is measured on data


def fitted(pipeline: Pipeline, stage: Stage) -> str:
    """The sentence about stages that led to the measured model and saw the data it is measured on; else empty."""
    data = stage.params.get(DATASET)
    if not data:
        return ""
    before = dict.fromkeys(list(stage.needs.values())[:1])
    waiting, told = list(before), list[str]()
    while waiting:
        maker = pipeline.stage(waiting.pop())
        names = pipeline.kinds[maker.uses].spec.fits
        told += [f"`{name}` of {maker.id}" for name in names if maker.params.get(name) == data]
        new = dict.fromkeys(name for name in maker.needs.values() if name not in before)
        before |= new
        waiting += new
    if not told:
        return ""
    makers = " and ".join(told)
    return (
        f"its data is the {makers}, by which the model was made: on other data it may be worse, so keep some for this"
    )
