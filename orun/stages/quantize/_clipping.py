"""Ranges of activations from the distribution of their values, for `quantize/static` with `method: distribution`.

A narrower range rounds the values in it more finely, and cuts off those beyond. For normal or Laplacian values, the
width of the least mean squared error follows from the standard deviation and the number of bits: ACIQ, Banner, Nahshan
and Soudry 2019, "Post training 4-bit quantization of convolutional networks for rapid-deployment". The kurtosis decides
between the two. ONNX Runtime's own method of this name finds scales for 8-bit floats only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto

from orun.measure.dataset import Dataset
from orun.stages._graph.inner_values import iter_values

BETWEEN = 4.5  # kurtosis; normal values have 3, Laplacian ones 6
WIDEST = 100.0  # in standard deviations: beyond the best width for any number of bits


@dataclass
class Moments:
    """Running moments of the values of a tensor.

    Attributes:
        count: number of values.
        low, high: their bounds.
        shift: the mean of the first values; differences are taken to it.
        sums: sums of the first to fourth powers of the differences.
    """

    count: int
    low: float
    high: float
    shift: float
    sums: NDArray[Any]

    @classmethod
    def of(cls, values: NDArray[Any], shift: float | None = None) -> Moments:
        """Return the moments of finite values, of which there is at least one."""
        flat = values.astype(np.float64).ravel()
        centre = float(flat.mean()) if shift is None else shift
        away = flat - centre
        sums = np.array([np.sum(away**power) for power in (1, 2, 3, 4)])
        return cls(flat.size, float(flat.min()), float(flat.max()), centre, sums)

    def add(self, values: NDArray[Any]) -> None:
        """Add further values."""
        more = Moments.of(values, self.shift)
        self.count += more.count
        self.low, self.high = min(self.low, more.low), max(self.high, more.high)
        self.sums = self.sums + more.sums

    def choose_bounds(self, bits: int) -> tuple[float, float]:
        """Return the range of the least mean squared error for integers of so many bits, within the values."""
        first, second, third, fourth = (float(total) / self.count for total in self.sums)
        mean, variance = self.shift + first, second - first * first
        if variance <= 0:
            return self.low, self.high
        away = fourth - 4 * first * third + 6 * first * first * second - 3 * first * first * first * first
        kurtosis = away / (variance * variance)
        half = (compute_normal_width if kurtosis < BETWEEN else compute_laplacian_width)(bits) * math.sqrt(variance)
        return max(self.low, mean - half), min(self.high, mean + half)


def compute_normal_width(bits: int) -> float:
    """Return half of the best range for normal values, in standard deviations: 2.56 for 4 bits, 3.92 for 8."""

    def compute_slope(half: float) -> float:
        beyond = half * math.erfc(half / math.sqrt(2)) - math.sqrt(2 / math.pi) * math.exp(-half * half / 2)
        return beyond + half / (3.0 * 2.0 ** (2 * bits))

    return _find_root(compute_slope)


def compute_laplacian_width(bits: int) -> float:
    """Return half of the best range for Laplacian values: 3.56 for 4 bits, 6.99 for 8."""
    return _find_root(lambda half: half / (3.0 * 2.0 ** (2 * bits)) - math.exp(-half * math.sqrt(2)) / math.sqrt(2))


def _find_root(slope: Callable[[float], float]) -> float:
    """Return where a slope that is negative at 0 becomes positive."""
    low, high = 0.0, WIDEST
    while high - low > WIDEST * 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return high


def add_bounds(
    model: ModelProto, dataset: Dataset, overrides: Mapping[str, Sequence[Mapping[str, Any]]], stored: str
) -> dict[str, list[dict[str, Any]]]:
    """Return ONNX Runtime's `TensorQuantOverrides` with a range for every float value that is finite in some example.

    The model is whole in memory, the types of its values declared. `overrides` are types of some tensors, in ONNX
    Runtime's form; all other values are `stored` in one type, such as `uint8`.
    """
    graph = model.graph
    declared = (*graph.input, *graph.value_info, *graph.output)
    floats = {item.name for item in declared if item.type.tensor_type.elem_type == TensorProto.FLOAT}
    names = sorted(floats - {tensor.name for tensor in graph.initializer})
    moments: dict[str, Moments] = {}
    for values in iter_values(model, names, dataset):
        for name, value in values.items():
            finite = value[np.isfinite(value)]
            if name in moments and finite.size:
                moments[name].add(finite)
            elif finite.size:
                moments[name] = Moments.of(finite)
    result = {name: [dict(item) for item in items] for name, items in overrides.items()}
    for name, measured in moments.items():
        (override,) = result.setdefault(name, [{}])
        kind = override.get("quant_type")
        low, high = measured.choose_bounds(16 if "16" in (stored if kind is None else kind.name) else 8)
        override |= {"rmin": np.array(low, np.float32), "rmax": np.array(high, np.float32)}
    return result
