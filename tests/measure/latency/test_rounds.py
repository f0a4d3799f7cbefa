"""Figures of rounds in turn, by hand-worked examples."""

from __future__ import annotations

from orun.core.metrics import Comparison, Estimate
from orun.measure.latency.rounds import compare_rounds


def test_the_median_lies_between_the_extremes_of_six() -> None:
    metric = compare_rounds({"model": [3, 1, 2, 6, 5, 4]}, "s")
    assert (metric.value, metric.unit, metric.better, metric.noise) == (3, "s", "lower", "timing")
    assert metric.interval == Estimate(3, 1, 6)
    assert metric.reference is None


def test_more_rounds_narrow_it() -> None:
    metric = compare_rounds({"model": range(1, 21)}, "s")
    assert metric.interval == Estimate(10, 6, 15)  # ranks 6 and 15 of 20 hold a median with 95 %


def test_others_are_compared_round_by_round() -> None:
    metric = compare_rounds(
        {
            "model": [2, 4, 6, 8, 10, 12],
            "reference": [1, 2, 3, 4, 5, 12],
            "baseline": [2] * 6,
            "reference.turned": [12, 5, 4, 3, 2, 1],
        },
        "s",
    )
    assert metric.reference == Comparison(
        value=3,
        ratio=Estimate(2, 1, 2),
        difference=Estimate(2, 0, 5),
        method="6 rounds of each in turn",
        count=6,
    )
    assert metric.baseline is not None
    assert metric.baseline.ratio == Estimate(3, 1, 6)
    assert metric.references["turned"].ratio == Estimate(6 / 4, 2 / 12, 12 / 1)  # not the sorted ones side by side
