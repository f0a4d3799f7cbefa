"""Check that values are what a model takes, before ONNX Runtime or a quantizer complains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orun.errors import UsageError
from orun.measure.dataset import as_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from orun.stages._graph.feeds import Input

ORDERS = ((0, 2, 3, 1), (0, 3, 1, 2))  # channels last, channels first


def require_fitting(source: str, inputs: Iterable[Input], feed: Mapping[str, NDArray[Any]]) -> None:
    """See that values are of the types and sizes that a model takes; how many are fed together is not looked at.

    Args:
        source: where the values come from, for the message.
        inputs: what the model takes.
        feed: the values by name, each with the axis of the batch.

    Raises:
        UsageError: when one is not.
    """
    for item in inputs:
        value = feed[item.name]
        of_type = value.dtype.name == item.dtype or value.dtype.kind in "OSU"
        if not (of_type and _fits(value.shape, item.shape)):
            raise UsageError(
                f"{source} does not fit the input {item.name!r} of the model",
                why=f"it has {value.dtype} {list(value.shape)}, and taken is {item.dtype} {list(item.shape)}",
                hint=_as_taken(item, value, of_type),
            )


def _fits(shape: Sequence[int], taken: Sequence[int | str]) -> bool:
    """Whether an array of that shape is taken; an axis with a name has any size, and so has that of the batch."""
    pairs = zip(shape[1:], taken[1:], strict=False)
    return len(shape) == len(taken) and all(isinstance(size, str) or size == given for given, size in pairs)


def _as_taken(item: Input, value: NDArray[Any], of_type: bool) -> str:
    """How to give the values as the model takes them."""
    if not of_type:
        return as_type(item.name, item.dtype)
    for order in ORDERS:
        if value.ndim == len(order) and _fits([value.shape[axis] for axis in order], item.shape):
            return f"in the dataset, {item.name}: values.transpose{order}"
    return ""
