"""The dataset that a parameter names, loaded and checked."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from orun.errors import StageFailed
from orun.stages.contract import Context
from orun.stages.params import Code

if TYPE_CHECKING:
    from orun.measure.dataset import Dataset


def load_dataset(context: Context, reference: Code, inputs: Collection[str] = ()) -> Dataset:
    """What the function that `reference` names returns.

    Args:
        context: of the stage.
        reference: `file.py:function`.
        inputs: names of inputs that it must have values for.

    Raises:
        StageFailed: when it is no dataset, or has no values for one of the inputs.
    """
    from orun.measure.dataset import Dataset

    dataset = context.load(reference)()
    if not isinstance(dataset, Dataset):
        raise StageFailed(
            context.stage,
            f"{reference} must return an orun.Dataset, not a {type(dataset).__name__}",
            hint="wrap the arrays: orun.Dataset({'input name': array})",
        )
    for name in inputs:
        if name not in dataset.inputs:
            raise StageFailed(
                context.stage,
                f"{reference} has no values for the input {name!r} of the model",
                why=f"it has {', '.join(dataset.inputs)}",
            )
    return dataset
