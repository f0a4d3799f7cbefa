"""Figures of rounds in which models take turns, compared round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orun.core.metrics import Better, Comparison, Estimate, Metric, Unit, with_comparisons
from orun.measure.latency.quantiles import find_ranks, quantile


def compare_rounds(
    figures: Mapping[str, Sequence[float]], unit: Unit, better: Better = "lower", noun: str = "rounds"
) -> Metric:
    """Return the median of a figure over rounds, compared with the other models round by round.

    Intervals are distribution-free: they lie between order statistics (see `quantiles.ranks`).

    Args:
        figures: of each round, by the model's role: `model`, and any of `reference`, `reference.<name>` and `baseline`.
        unit: of the figure.
        better: direction of improvement.
        noun: what a round is, for people: `launches`.
    """
    ours = figures["model"]
    value = _estimate_median(ours)
    comparisons = {
        role: Comparison(
            value=_estimate_median(theirs).value,
            ratio=_estimate_median([our / their for our, their in zip(ours, theirs, strict=True)]),
            difference=_estimate_median([our - their for our, their in zip(ours, theirs, strict=True)]),
            method=f"{len(ours)} {noun} of each in turn",
            count=len(ours),
        )
        for role, theirs in figures.items()
        if role != "model"
    }
    return with_comparisons(Metric(value.value, unit, better, "timing", value), comparisons)


def _estimate_median(values: Sequence[float]) -> Estimate:
    ordered = sorted(values)
    low, high = find_ranks(len(ordered), 0.5)
    return Estimate(quantile(ordered, 0.5), ordered[low - 1], ordered[high - 1])
