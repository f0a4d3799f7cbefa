"""Ranges from the distribution of values, compared with the figures of the paper and with brute force."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from orun.stages.quantize._clipping import Moments, compute_laplacian_width, compute_normal_width

NORMAL = {2: 1.71063519, 3: 2.15159277, 4: 2.55913646, 5: 2.93620062, 6: 3.28691474, 7: 3.6151146, 8: 3.92403714}
LAPLACIAN = {2: 2.83, 3: 3.89, 4: 5.03, 5: 6.2, 6: 7.41, 7: 8.64, 8: 9.89}  # in scales of the distribution


def test_the_figures_of_the_paper() -> None:
    assert {bits: compute_normal_width(bits) for bits in NORMAL} == pytest.approx(NORMAL, abs=1e-5)
    assert {bits: 2**0.5 * compute_laplacian_width(bits) for bits in LAPLACIAN} == pytest.approx(LAPLACIAN, abs=0.01)


def error(values: NDArray[np.float64], half: float, bits: int) -> float:
    """Return the mean squared error of values that are rounded to so many bits in a range."""
    step = 2 * half / (2**bits - 1)
    rounded = np.round(np.clip(values, -half, half) / step) * step
    return float(((values - rounded) ** 2).mean())


@pytest.mark.parametrize("draw", ["normal", "laplace"])
def test_no_other_width_has_a_smaller_error(draw: str) -> None:
    values = getattr(np.random.default_rng(0), draw)(0, 3, 400_000)
    _, high = Moments.of(values).choose_bounds(4)
    errors = {factor: error(values, factor * high, 4) for factor in (0.8, 0.9, 1.0, 1.1, 1.25)}
    assert min(errors, key=errors.__getitem__) in (0.9, 1.0, 1.1)
    assert errors[1.0] < 1.02 * min(errors.values())
    assert errors[1.0] < 0.8 * error(values, float(np.abs(values).max()), 4)


def test_values_may_come_in_parts() -> None:
    values = np.random.default_rng(1).laplace(100, 2, 30_000).astype(np.float32)
    together, parts = Moments.of(values), Moments.of(values[:10])
    for part in np.array_split(values[10:], 7):
        parts.add(part)
    assert parts.choose_bounds(8) == pytest.approx(together.choose_bounds(8), rel=1e-9)
    assert (parts.count, parts.low, parts.high) == (together.count, together.low, together.high)
    assert together.choose_bounds(4)[1] == pytest.approx(values.mean() + 5.0286 * values.std() / 2**0.5, rel=1e-4)


def test_a_range_never_goes_beyond_the_values() -> None:
    assert Moments.of(np.array([0.0, 0.0, 1.0])).choose_bounds(8) == (0.0, 1.0)
    assert Moments.of(np.array([3.0])).choose_bounds(8) == (3.0, 3.0)
