"""Stages of the user's own, some of them badly declared."""

from typing import Annotated, Literal

import orun
from orun import Context, Doc, Duration, Range, Ratio

AMOUNT = 0.5


@orun.stage(tools=["onnx"], interface="same", metrics=["removed"])
def prune(
    context: Context,
    *,
    amount: Annotated[Ratio, Doc("Share of the weights to remove."), Range(0, 1)],
    method: Literal["magnitude", "random"] = "magnitude",
) -> dict[str, float]:
    """Remove the smallest weights."""
    return {"removed": amount}


@orun.stage(inputs={"model": "onxx"}, output="model", stage_class=CLASS, tool=["onnx"])
def badly_declared(
    context,
    amount,
    *,
    level,
    shape: tuple[int, int],
    method: str = AMOUNT,
    within: Duration = "2 parsecs",
    depth: int = "deep",
    size: int = None,
    way: Literal["a", "b"] = "c",
    **more,
):
    """Has many mistakes."""
