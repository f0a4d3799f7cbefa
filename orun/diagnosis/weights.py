"""Signal-to-noise ratio of quantized weights against the float weights that they replace."""

from __future__ import annotations

from types import EllipsisType

import numpy as np
from onnx import ModelProto, numpy_helper

from orun.diagnosis.segments import Segment
from orun.diagnosis.values import Array
from orun.measure.metrics.fidelity import decibels

VALUES = 2**21  # values of a weight that are compared at once


def measure_weights(segment: Segment, model: ModelProto, reference: ModelProto) -> float | None:
    """Return the lowest SQNR in dB among the quantized weights of a segment; None if it has none.

    Weights are recognized by the names of ONNX Runtime's quantizers: `W_quantized`, `W_scale` and `W_zero_point` for
    `W`. Weights in blocks (MatMulNBits) are not recognized.
    """
    ours = {tensor.name: tensor for tensor in model.graph.initializer}
    theirs = {tensor.name: tensor for tensor in reference.graph.initializer}
    ratios = []
    for name in segment.theirs.constants:
        parts = [ours.get(f"{name}_{part}") for part in ("quantized", "scale", "zero_point")]
        if name not in theirs or parts[0] is None or parts[1] is None:
            continue
        quantized, scale, zero = (None if part is None else numpy_helper.to_array(part) for part in parts)
        right = numpy_helper.to_array(theirs[name])
        if quantized is not None and scale is not None and quantized.shape == right.shape:
            ratios.append(_sqnr(right, quantized, scale, zero))
    return min(ratios, default=None)


def _sqnr(right: Array, quantized: Array, scale: Array, zero: Array | None) -> float:
    """Return the SQNR with one scale, or along the axis of the scale's size; if two axes fit, the better one."""
    axes = [axis for axis, size in enumerate(right.shape) if scale.size > 1 and size == scale.size]
    shapes = [[-1 if place == axis else 1 for place in range(right.ndim)] for axis in axes] or [[1] * right.ndim]
    offset = np.zeros(scale.shape) if zero is None else zero.astype(np.float64)
    signal, noises = 0.0, [0.0] * len(shapes)
    for part in _split_rows(right):
        exact, steps = right[part].astype(np.float64), quantized[part].astype(np.float64)
        signal += float(np.square(exact).sum())
        for place, shape in enumerate(shapes):
            low, size = (np.broadcast_to(array.reshape(shape), right.shape)[part] for array in (offset, scale))
            noises[place] += float(np.square((steps - low) * size - exact).sum())
    return decibels(signal, min(noises))


def _split_rows(values: Array) -> list[slice | EllipsisType]:
    """Split a weight into ranges of rows: double-precision copies of all rows would take too much memory."""
    if not values.ndim:
        return [...]
    count = max(1, VALUES * len(values) // max(values.size, 1))
    return [slice(start, start + count) for start in range(0, len(values), count)]
