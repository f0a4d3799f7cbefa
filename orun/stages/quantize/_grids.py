"""Recovery of integers and scales from float weights that were rounded before they were stored.

TensorFlow's converters fold the fake quantization of a constant weight, and store the rounded floats.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from orun.measure.dataset import Array
from orun.stages._graph.names import make_unique
from orun.stages._graph.nodes import find_channel_axis

STEPS = 255  # between the least and the largest integer of 8 bits
CLOSE = 1e-3  # of a step: largest error of a whole number in float32, with a margin
WEIGHT = 1  # index of the weight among the inputs


def store_integers(model: ModelProto) -> list[str]:
    """Replace float weights of products, in place, by integers that yield the same values.

    A weight is replaced when all values of each output channel are whole multiples of one number, with at most 255
    steps between them. The dequantized values keep the name of the weight.

    Returns:
        Names of the replaced weights.
    """
    axes = _find_axes(model)
    names = {tensor.name for tensor in model.graph.initializer} | {value.name for value in model.graph.input}
    names |= {name for node in model.graph.node for name in (node.name, *node.output)}
    replaced = []
    for tensor in [*model.graph.initializer]:
        axis = axes.get(tensor.name)
        integers = None if axis is None else _find_integers(numpy_helper.to_array(tensor), axis)
        if axis is None or integers is None:
            continue
        _replace(model, tensor, axis % len(tensor.dims), integers, names)
        replaced.append(tensor.name)
    return replaced


def _find_axes(model: ModelProto) -> Mapping[str, int]:
    """Return the axis of the output channels of each weight that only products read, all along the same axis."""
    axes: dict[str, set[int | None]] = {}
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            axes.setdefault(name, set()).add(find_channel_axis(node) if place == WEIGHT else None)
    return {name: axis for name, (axis, *rest) in axes.items() if axis is not None and not rest}


def _find_integers(weight: Array, axis: int) -> tuple[Array, Array, Array] | None:
    """Return integers, scales and zero points of a float weight; None when it is not rounded to 8 bits."""
    if weight.dtype != np.float32 or weight.ndim < 2:  # noqa: PLR2004 - a matrix
        return None
    channels = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1).astype(np.float64)
    steps = [_find_step(channel) for channel in channels]
    if None in steps:
        return None
    scales = np.array(steps)
    along = scales.reshape([-1 if place == axis % weight.ndim else 1 for place in range(weight.ndim)])
    multiples = np.rint(weight / along).astype(np.int64)
    signed = multiples.min() >= -128 and multiples.max() <= 127  # noqa: PLR2004 - of int8
    zero = 0 if signed else -int(multiples.min())
    if multiples.max() + zero > STEPS:
        return None
    dtype = np.int8 if signed else np.uint8
    return (multiples + zero).astype(dtype), scales.astype(np.float32), np.full(len(scales), zero, dtype)


def _find_step(channel: Array) -> float | None:
    """Return the largest number of which all values are whole multiples, 255 times at most."""
    most = float(np.abs(channel).max())
    if most == 0.0:
        return 1.0
    for count in range(1, STEPS + 1):
        multiples = channel * (count / most)
        if np.abs(multiples - np.rint(multiples)).max() < CLOSE:
            return most / count
    return None


def _replace(
    model: ModelProto, weight: TensorProto, axis: int, integers: tuple[Array, Array, Array], used: set[str]
) -> None:
    name = weight.name
    suffixes = ("integers", "scale", "zero_point", "dequantize")
    *names, node = (make_unique(f"{name}_{suffix}", used) for suffix in suffixes)
    model.graph.initializer.remove(weight)
    model.graph.initializer.extend(map(numpy_helper.from_array, integers, names))
    model.graph.node.insert(0, helper.make_node("DequantizeLinear", names, [name], node, axis=axis))
