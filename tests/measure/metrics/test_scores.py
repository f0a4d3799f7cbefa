"""Scores of the user's own: one for each example, or what a function yields of them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import orun
from orun.errors import UsageError
from orun.measure.metrics import paired

Rows = NDArray[np.intp]
GENERATOR = np.random.default_rng(0)
THEIRS = GENERATOR.beta(3, 2, 60)
HINT = "\n  hint: say how many examples there are: examples=N"
OURS = THEIRS - 0.05 + GENERATOR.normal(0, 0.02, 60)


def middle(scores: NDArray[np.float64]) -> Callable[[Rows], float]:
    """One number of any examples, and no mean over them."""
    return lambda chosen: float(np.median(scores[chosen]))


def mean(scores: NDArray[np.float64]) -> Callable[[Rows], float]:
    return lambda chosen: float(scores[chosen].mean())


def test_scores_of_each_example_are_compared_as_everywhere() -> None:
    assert orun.compare(OURS, THEIRS, 3) == paired.compare(OURS, THEIRS, 3)
    assert orun.interval(OURS, 3) == paired.estimate_interval(OURS, 3)
    right, wrong = [True] * 9 + [False], [1] * 8 + [0] * 2
    compared = orun.compare(right, wrong, 0)
    assert compared.method == "McNemar's score interval over 10 examples, 1 better and 0 worse"
    assert orun.interval(right, 0).low == pytest.approx(0.5958, abs=1e-4)  # Wilson's for 9 of 10


def test_a_function_of_examples_is_resampled_with_both_models() -> None:
    compared = orun.compare(middle(OURS), middle(THEIRS), 3, examples=60, resamples=400)
    assert compared.value == np.median(THEIRS)
    assert compared.difference.value == np.median(OURS) - np.median(THEIRS)
    assert compared.difference.low < compared.difference.value < compared.difference.high < 0.0
    assert (compared.method, compared.count) == ("paired bootstrap over 60 examples", 60)
    alone = orun.interval(middle(OURS), 3, examples=60, resamples=400)
    assert alone.value == np.median(OURS)
    assert alone.high - alone.low > 2 * (compared.difference.high - compared.difference.low)  # what both share is gone
    assert compared == orun.compare(middle(OURS), middle(THEIRS), 3, examples=60, resamples=400)


def test_of_a_mean_both_ways_agree() -> None:
    by_function = orun.compare(mean(OURS), mean(THEIRS), 0, examples=60, resamples=4000).difference
    by_scores = orun.compare(OURS, THEIRS, 0).difference
    assert by_function.value == pytest.approx(by_scores.value)
    assert [by_function.low, by_function.high] == pytest.approx([by_scores.low, by_scores.high], abs=0.001)


def test_a_few_examples_tell_nothing_of_a_function_either() -> None:
    compared = orun.compare(middle(OURS), middle(THEIRS), 0, examples=5)
    assert compared.method == "5 examples, too few for an interval, which takes 6"
    assert compared.difference.low == -np.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: orun.compare(OURS, middle(THEIRS), 0, examples=60),
            "one model has scores and the other a function, which cannot be compared",
        ),
        (
            lambda: orun.compare(OURS[:6], THEIRS[:7], 0),
            "models are compared by scores on the same examples\n  one model has 6 scores, and the other 7",
        ),
        (
            lambda: orun.compare(middle(OURS), middle(THEIRS), 0),
            f"a function of examples cannot be resampled with examples=None, resamples=1000{HINT}",
        ),
        (
            lambda: orun.interval(middle(OURS), 0, examples=60, resamples=0),
            f"a function of examples cannot be resampled with examples=60, resamples=0{HINT}",
        ),
        (
            lambda: orun.interval(lambda chosen: OURS[chosen], 0, examples=60),
            "a metric of all examples must be one number\n  the function returned an array of shape [60]",
        ),
        (lambda: orun.interval([], 0), "scores must be one number for each example\n  their shape is [0]"),
        (lambda: orun.interval([[1.0]], 0), "scores must be one number for each example\n  their shape is [1, 1]"),
        (lambda: orun.interval([1.0, np.nan], 0), "a score is not finite\n  the first is that of example 1"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value) == message
