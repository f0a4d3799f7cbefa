"""Check that values fit the inputs of a model, before ONNX Runtime or a quantizer complains."""

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
    """Refuse values of other types or sizes than a model takes; the size of the batch is not checked.

    Args:
        source: where the values come from, for the message.
        inputs: inputs of the model.
        feed: the values by name, each with the axis of the batch.

    Raises:
        UsageError: when a value does not fit.
    """
    for item in inputs:
        value = feed[item.name]
        of_type = value.dtype.name == item.dtype or value.dtype.kind in "OSU"
        if not (of_type and _fits(value.shape, item.shape)):
            raise UsageError(
                f"{source} does not fit the input {item.name!r} of the model",
                why=f"it has {value.dtype} {list(value.shape)}, and the model takes {item.dtype} {list(item.shape)}",
                hint=_conversion(item, value, of_type),
            )


def _fits(shape: Sequence[int], declared: Sequence[int | str]) -> bool:
    """Return whether an array fits a declared shape; the batch and axes with a name may have any size."""
    pairs = zip(shape[1:], declared[1:], strict=False)
    return len(shape) == len(declared) and all(isinstance(axis, str) or axis == size for size, axis in pairs)


def _conversion(item: Input, value: NDArray[Any], of_type: bool) -> str:
    """Return how to convert the values to what the model takes; empty when that is not clear."""
    if not of_type:
        return as_type(item.name, item.dtype)
    for order in ORDERS:
        if value.ndim == len(order) and _fits([value.shape[axis] for axis in order], item.shape):
            return f"in the dataset, {item.name}: values.transpose{order}"
    return ""
