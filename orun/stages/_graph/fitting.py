"""Check that values fit the inputs of a model, before ONNX Runtime or a quantizer complains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from orun.errors import UsageError
from orun.measure.dataset import Values, spread_indices, suggest_type
from orun.stages._graph.feeds import Input
from orun.stages._graph.input_domain import InputValues

SLACK = 0.01  # share of their span by which real numbers may exceed a domain, as rounding and interpolation do
TINY = 0.05  # share of the span of a domain; real numbers that use less of it may be scaled otherwise
LOOKED_AT = 1000  # examples whose values are held against a domain, so that a large file is not read whole
ENDING = "GRU"  # ONNX Runtime's ends the process on an input of size 0, as of 1.31; its LSTM and RNN answer
ORDERS = ((0, 2, 3, 1), (0, 3, 1, 2))  # channels last, channels first


def require_fitting(source: str, inputs: Iterable[Input], feed: Mapping[str, NDArray[Any]]) -> None:
    """Refuse values of other types or sizes than a model takes; the size of the batch is not checked.

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
                hint=_suggest_conversion(item, value, of_type),
            )


def require_steps(source: str, model: ModelProto, inputs: Mapping[str, Values]) -> None:
    """Refuse examples of length 0 for a model with an operator that does not survive them.

    Raises:
        UsageError: when there is such an example.
    """
    if not any(node.op_type == ENDING for node in model.graph.node):
        return
    for name in (item.name for item in model.graph.input if item.name in inputs):
        for place, value in enumerate(inputs[name]):
            if not np.size(value):
                raise UsageError(
                    f"example {place} of {source} has no values in {name!r}: its shape is {list(np.shape(value))}",
                    why=f"the model has a {ENDING}, on which ONNX Runtime ends the process then",
                    hint="leave such examples out, or pad them to one step",
                )


def warn_of_bounds(domain: Mapping[str, InputValues], inputs: Mapping[str, Values]) -> Iterator[str]:
    """Yield a sentence for each input whose values are outside of the domain of the model, as pixels without a scale.

    Real numbers that use a tiny part of the domain are noted, too, as scaled pixels for a model that takes 0 to 255.
    Integers are often rows of a table: they begin at 0 unless the domain says otherwise, and have no slack.
    """
    for name, declared in domain.items():
        if name not in inputs or (declared.low is None and declared.high is None):
            continue
        values = inputs[name]
        arrays = [np.asarray(values[number]) for number in spread_indices(len(values), LOOKED_AT)]
        are_integers = all(array.dtype.kind in "iu" for array in arrays)
        numbers = [array for array in arrays if array.dtype.kind in "iuf" and array.size]
        low = min((float(np.fmin.reduce(array, axis=None)) for array in numbers), default=math.inf)
        high = max((float(np.fmax.reduce(array, axis=None)) for array in numbers), default=-math.inf)
        if low > high:  # there is no number
            continue
        lowest = 0.0 if are_integers else -math.inf
        least = lowest if declared.low is None else declared.low
        most = math.inf if declared.high is None else declared.high
        is_finite = math.isfinite(most - least)
        bounds = f"{least:g} to {most:g}"
        if not is_finite:
            bounds = f"at most {most:g}" if least == -math.inf else f"at least {least:g}"
        slack = 0.0 if are_integers else SLACK * min(most - least, high - low)
        if low < least - slack or high > most + slack:
            change = "use values within it" if are_integers else "scale the data"
            yield (
                f"{name} goes from {low:g} to {high:g} in the data, and the input domain of the model is {bounds}: "
                f"{change}, or declare its bounds where the model is converted"
            )
        elif is_finite and not are_integers and 0 < high - low < TINY * (most - least):
            yield (
                f"{name} goes from {low:g} to {high:g} in the data, a small part of the input domain of the model, "
                f"{bounds}: the data may be scaled otherwise than the model expects"
            )


def _fits(shape: Sequence[int], declared: Sequence[int | str]) -> bool:
    """Return whether an array fits a declared shape; the batch and axes with a name may have any size."""
    pairs = zip(shape[1:], declared[1:], strict=False)
    return len(shape) == len(declared) and all(isinstance(axis, str) or axis == size for size, axis in pairs)


def _suggest_conversion(item: Input, value: NDArray[Any], of_type: bool) -> str:
    """Return how to convert the values to what the model takes; empty when that is not clear."""
    if not of_type:
        return suggest_type(item.name, item.dtype)
    for order in ORDERS:
        if value.ndim == len(order) and _fits([value.shape[axis] for axis in order], item.shape):
            return f"in the dataset, {item.name}: values.transpose{order}"
    return ""
