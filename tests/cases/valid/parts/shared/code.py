"""Code that the good pipeline files name."""

from typing import Annotated, Literal

import orun
from orun import Code, Context, Doc, Duration, FilePath, Range, Ratio


def load() -> None:
    """Make the model."""


def pairs() -> None:
    """Make the dataset."""


@orun.stage(tools=["onnx"], metrics=["removed"])
def prune(
    context: Context,
    *,
    amount: Annotated[Ratio, Doc("Share of the weights to remove."), Range(0, 1)],
    method: Literal["magnitude", "random"] = "magnitude",
    mask: FilePath | None = None,
    score: Code | None = None,
    within: Duration = 60,
) -> dict[str, float]:
    """Remove the smallest weights.

    Args:
        context: what it may touch.
        method: which weights go first.
    """
    return {"removed": amount}
