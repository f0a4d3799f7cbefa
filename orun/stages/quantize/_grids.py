"""Weights that were rounded before they were stored: their integers and scales are found again.

TensorFlow's converters compute the fake quantization of weights, which are constants by then, and leave its results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper, numpy_helper

from orun.stages._graph.names import unique

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto, TensorProto

    Array = NDArray[Any]

STEPS = 255  # between the least and the largest integer of 8 bits
CLOSE = 1e-3  # of a step: what rounding to float32 leaves of whole numbers, with a margin
AXES = {"Conv": 0, "ConvTranspose": 1, "MatMul": -1}  # of a weight's output channels
WEIGHT = 1  # place of the weight among the inputs of each of them


def store_integers(model: ModelProto) -> list[str]:
    """Replace float weights of products, in place, by integers that yield the same values.

    A weight is replaced when in each output channel all of its values are whole multiples, of at most 255 steps between
    them, of one number. Its name stays that of the values.

    Returns:
        The names of the weights.
    """
    axes = _axes(model)
    taken = {tensor.name for tensor in model.graph.initializer} | {value.name for value in model.graph.input}
    taken |= {name for node in model.graph.node for name in (node.name, *node.output)}
    done = []
    for tensor in [*model.graph.initializer]:
        axis = axes.get(tensor.name)
        found = None if axis is None else _integers(numpy_helper.to_array(tensor), axis)
        if axis is None or found is None:
            continue
        _replace(model, tensor, axis % len(tensor.dims), found, taken)
        done.append(tensor.name)
    return done


def _axes(model: ModelProto) -> Mapping[str, int]:
    """The axis of the output channels of each weight that products alone take, all along the same axis."""
    axes: dict[str, set[int | None]] = {}
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            axes.setdefault(name, set()).add(_axis(node) if place == WEIGHT else None)
    return {name: axis for name, (axis, *others) in axes.items() if axis is not None and not others}


def _axis(node: NodeProto) -> int | None:
    if node.op_type == "Gemm":
        return next((0 for attribute in node.attribute if attribute.name == "transB" and attribute.i), 1)
    return AXES.get(node.op_type)


def _integers(weight: Array, axis: int) -> tuple[Array, Array, Array] | None:
    """Integers, scales and zero points of a float weight; None when it is not rounded to 8 bits."""
    if weight.dtype != np.float32 or weight.ndim < 2:  # noqa: PLR2004 - a matrix
        return None
    channels = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1).astype(np.float64)
    steps = [_step(channel) for channel in channels]
    if None in steps:
        return None
    scales = np.array(steps)
    along = scales.reshape([-1 if place == axis % weight.ndim else 1 for place in range(weight.ndim)])
    whole = np.rint(weight / along).astype(np.int64)
    signed = whole.min() >= -128 and whole.max() <= 127  # noqa: PLR2004 - of int8
    zero = 0 if signed else -int(whole.min())
    if whole.max() + zero > STEPS:
        return None
    dtype = np.int8 if signed else np.uint8
    return (whole + zero).astype(dtype), scales.astype(np.float32), np.full(len(scales), zero, dtype)


def _step(channel: Array) -> float | None:
    """The largest number of which all of the values are whole multiples, 255 times at most."""
    most = float(np.abs(channel).max())
    if most == 0.0:
        return 1.0
    for count in range(1, STEPS + 1):
        multiples = channel * (count / most)
        if np.abs(multiples - np.rint(multiples)).max() < CLOSE:
            return most / count
    return None


def _replace(
    model: ModelProto, weight: TensorProto, axis: int, found: tuple[Array, Array, Array], taken: set[str]
) -> None:
    name = weight.name
    *names, node = (unique(f"{name}_{what}", taken) for what in ("integers", "scale", "zero_point", "dequantize"))
    model.graph.initializer.remove(weight)
    model.graph.initializer.extend(map(numpy_helper.from_array, found, names))
    model.graph.node.insert(0, helper.make_node("DequantizeLinear", names, [name], node, axis=axis))
