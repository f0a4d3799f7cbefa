"""The interval of an area under the ROC curve: by its equation, by symmetry, and how often it holds the truth."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from orun.measure.metrics.curves import auc
from orun.measure.metrics.newcombe import estimate_interval
from orun.measure.metrics.paired import Z


@pytest.mark.parametrize(("area", "positive", "negative"), [(0.5, 10, 10), (0.9, 10, 90), (0.99, 30, 970), (1.0, 6, 6)])
def test_a_bound_is_as_far_as_its_own_error_says(area: float, positive: int, negative: int) -> None:
    low, high = estimate_interval(area, positive, negative)
    assert 0 < low < area <= high <= 1
    for bound in (low, high):
        size = (positive + negative) / 2 - 1
        pairs = 1 + size * ((1 - bound) / (2 - bound) + bound / (1 + bound))
        error = math.sqrt(bound * (1 - bound) * pairs / (positive * negative))
        assert abs(area - bound) == pytest.approx(Z * error, abs=1e-9)


def test_the_other_way_about_it_is_mirrored() -> None:
    low, high = estimate_interval(0.93, 12, 200)
    assert estimate_interval(1 - 0.93, 12, 200) == pytest.approx((1 - high, 1 - low))
    assert estimate_interval(0.93, 200, 12) == pytest.approx((low, high))
    assert estimate_interval(0.0, 12, 200)[0] == 0.0


@pytest.mark.parametrize(
    ("examples", "share", "distance"), [(100, 0.1, 2.8), (1000, 0.03, 2.8), (300, 0.05, 3.6), (100, 0.5, 1.2)]
)
def test_holds_the_truth_where_few_are_nearly_always_told_apart(examples: int, share: float, distance: float) -> None:
    truth, held, trials = NormalDist().cdf(distance / math.sqrt(2)), 0, 0
    for seed in range(300):
        random = np.random.default_rng((seed, examples))
        labels = (random.random(examples) < share).astype(np.int64)
        pooled = auc(random.standard_normal(examples) + distance * labels, labels)
        if pooled is not None and pooled.fewest >= 6 and pooled.bounds is not None:
            trials += 1
            held += pooled.bounds[0] <= truth <= pooled.bounds[1]
    assert trials > 250
    assert held >= 0.93 * trials
