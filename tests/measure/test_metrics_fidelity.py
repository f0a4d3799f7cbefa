"""Figures of two models' outputs, by hand-worked examples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orun.measure.metrics_fidelity import SQNR_LIMIT, SUMMARIES, Difference, compare, concatenate


def values(difference: Difference) -> dict[str, float]:
    return {name: summary(difference) for name, summary in SUMMARIES.items()}


def test_identical_outputs() -> None:
    output = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    assert values(compare(output, output)) == {
        "cosine": 1.0,
        "cosine.mean": 1.0,
        "cosine.min": 1.0,
        "max_abs": 0.0,
        "sqnr": SQNR_LIMIT,
        "agreement": 1.0,
    }


def test_by_hand() -> None:
    reference = np.array([[3.0, 4.0], [0.0, 2.0]])
    output = np.array([[4.0, 3.0], [0.0, 1.0]])
    difference = compare(output, reference)
    assert difference.cosine.tolist() == pytest.approx([24 / 25, 1.0])
    assert difference.max_abs.tolist() == [1.0, 1.0]
    assert difference.agreement.tolist() == [0.0, 1.0]
    assert difference.sqnr.tolist() == pytest.approx([10 * math.log10(25 / 2), 10 * math.log10(4 / 1)])
    assert values(difference) == pytest.approx(
        {
            "cosine": 0.98,
            "cosine.mean": 0.98,
            "cosine.min": 0.96,
            "max_abs": 1.0,
            "sqnr": 10 * math.log10(29 / 3),
            "agreement": 0.5,
        }
    )


def test_zero_vectors() -> None:
    difference = compare(np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    assert difference.cosine.tolist() == [1.0, 0.0, 0.0]
    assert difference.sqnr.tolist() == [SQNR_LIMIT, 0.0, -SQNR_LIMIT]


def test_cosine_never_leaves_its_range() -> None:
    output = np.random.default_rng(0).standard_normal((100, 384)).astype(np.float32)
    assert compare(output, output * np.float32(3)).cosine.max() <= 1.0
    assert compare(output, -output).cosine.min() >= -1.0


def test_half_precision_does_not_overflow() -> None:
    output = np.full((1, 64), 60000, np.float16)
    assert compare(output, output).cosine.tolist() == [1.0]


def test_every_position_of_an_example_counts() -> None:
    reference = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    output = np.array([[[1.0, 0.0], [1.0, 0.0]]])
    assert compare(output, reference).agreement.tolist() == [0.5]


def test_integers_agree_when_they_are_equal() -> None:
    assert compare(np.array([1, 2, 3]), np.array([1, 0, 3])).agreement.tolist() == [1.0, 0.0, 1.0]


def test_concatenated_and_reordered() -> None:
    reference = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    output = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    parts = concatenate((compare(output[2:], reference[2:]), compare(output[:2], reference[:2])))
    whole = compare(output, reference)
    assert parts.take(np.array([1, 2, 0])).cosine.tolist() == whole.cosine.tolist()
