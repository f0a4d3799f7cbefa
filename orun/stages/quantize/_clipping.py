"""Ranges of activations from the distribution of their values, for `quantize/static` with `method: distribution`.

A narrower range rounds what is in it more finely, and cuts off what is beyond. Of values that are normal, or Laplacian,
the width of the least mean squared error follows from their standard deviation and the number of bits: ACIQ, Banner,
Nahshan and Soudry 2019, "Post training 4-bit quantization of convolutional networks for rapid-deployment". Which of the
two they are like is told by their kurtosis. ONNX Runtime's own method of this name finds scales for 8-bit floats alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

    from orun.measure.dataset import Dataset

BETWEEN = 4.5  # kurtosis: 3 of normal values, 6 of Laplacian ones
WIDEST = 100.0  # in standard deviations: beyond the best width for any number of bits


@dataclass
class Moments:
    """What is known of the values of a tensor.

    Attributes:
        count: how many.
        low, high: the bounds of all.
        shift: what the powers are of the differences to: the mean of the first values.
        sums: of the first to fourth powers of these differences.
    """

    count: int
    low: float
    high: float
    shift: float
    sums: NDArray[Any]

    @classmethod
    def of(cls, values: NDArray[Any], shift: float | None = None) -> Moments:
        """Those of some finite values, at least one."""
        import numpy as np

        flat = values.astype(np.float64).ravel()
        centre = float(flat.mean()) if shift is None else shift
        away = flat - centre
        sums = np.array([np.sum(away**power) for power in (1, 2, 3, 4)])
        return cls(flat.size, float(flat.min()), float(flat.max()), centre, sums)

    def add(self, values: NDArray[Any]) -> None:
        """Take in further values."""
        more = Moments.of(values, self.shift)
        self.count += more.count
        self.low, self.high = min(self.low, more.low), max(self.high, more.high)
        self.sums = self.sums + more.sums

    def bounds(self, bits: int) -> tuple[float, float]:
        """The range of the least mean squared error for integers of so many bits; never beyond the values."""
        first, second, third, fourth = (float(total) / self.count for total in self.sums)
        mean, variance = self.shift + first, second - first * first
        if variance <= 0:
            return self.low, self.high
        away = fourth - 4 * first * third + 6 * first * first * second - 3 * first * first * first * first
        kurtosis = away / (variance * variance)
        half = (normal_width if kurtosis < BETWEEN else laplacian_width)(bits) * math.sqrt(variance)
        return max(self.low, mean - half), min(self.high, mean + half)


def normal_width(bits: int) -> float:
    """Half of the best range for normal values, in standard deviations: 2.56 for 4 bits, 3.92 for 8."""

    def slope(half: float) -> float:
        beyond = half * math.erfc(half / math.sqrt(2)) - math.sqrt(2 / math.pi) * math.exp(-half * half / 2)
        return beyond + half / (3.0 * 2.0 ** (2 * bits))

    return _root(slope)


def laplacian_width(bits: int) -> float:
    """The same for Laplacian values: 3.56 for 4 bits, 6.99 for 8."""
    return _root(lambda half: half / (3.0 * 2.0 ** (2 * bits)) - math.exp(-half * math.sqrt(2)) / math.sqrt(2))


def _root(slope: Callable[[float], float]) -> float:
    """Where a slope, negative from 0 on, becomes positive."""
    low, high = 0.0, WIDEST
    while high - low > WIDEST * 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return high


def with_bounds(
    model: ModelProto, dataset: Dataset, overrides: Mapping[str, Sequence[Mapping[str, Any]]], stored: str
) -> dict[str, list[dict[str, Any]]]:
    """ONNX Runtime's `TensorQuantOverrides` with the range of every value in float, finite for some example.

    Args:
        model: whole in memory, the types of its values declared.
        dataset: typical examples.
        overrides: what is stored otherwise, in its form.
        stored: how values are stored by default, such as `uint8`.
    """
    import numpy as np
    from onnx import TensorProto

    from orun.stages.quantize._calibration import values_of

    graph = model.graph
    declared = (*graph.input, *graph.value_info, *graph.output)
    floats = {one.name for one in declared if one.type.tensor_type.elem_type == TensorProto.FLOAT}
    names = sorted(floats - {tensor.name for tensor in graph.initializer})
    found: dict[str, Moments] = {}
    for values in values_of(model, names, dataset):
        for name, value in values.items():
            finite = value[np.isfinite(value)]
            if name in found and finite.size:
                found[name].add(finite)
            elif finite.size:
                found[name] = Moments.of(finite)
    made = {name: [dict(one) for one in given] for name, given in overrides.items()}
    for name, moments in found.items():
        (override,) = made.setdefault(name, [{}])
        kind = override.get("quant_type")
        low, high = moments.bounds(16 if "16" in (stored if kind is None else kind.name) else 8)
        override |= {"rmin": np.array(low, np.float32), "rmax": np.array(high, np.float32)}
    return made
