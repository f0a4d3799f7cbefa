"""Scores of a measurement of the user's own: with an interval, and beside another model's on the same examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from orun.core.metrics import Comparison, Estimate
from orun.errors import UsageError
from orun.measure.metrics import paired
from orun.measure.metrics.bootstrap import resample
from orun.measure.metrics.pooled import Pooled, Rows, of_function

RESAMPLES = 1000

Score = ArrayLike | Callable[[Rows], Any]
"""One value for each example, `[n]`; or what yields one number of examples, given their indices."""


def compare(
    scores: Score, others: Score, seed: int, *, examples: int | None = None, resamples: int = RESAMPLES
) -> Comparison:
    """A metric of one model against another's on the same examples, with 95 % intervals.

    Scores that are one for each example are compared by their means: by McNemar's score interval (Tango 1998) where all
    are 0 or 1, else by the paired bootstrap. A metric that is one number of all examples (BLEU, the mAP of boxes) is a
    function that takes indices of examples, `[k]`, in which one may stand several times, and returns its number of
    those: it is called on resamples, the same ones for both models.

    Args:
        scores: one for each example, `[n]`, or such a function.
        others: the other model's, likewise.
        seed: of the resamples.
        examples: how many there are, for functions.
        resamples: how often each function is called.

    Raises:
        UsageError: when they do not fit one another, or a score is not finite.
    """
    if callable(scores) and callable(others):
        models = {"ours": _pooled(scores, examples, resamples), "theirs": _pooled(others, examples, resamples)}
        found = resample(models, seed)
        return found["ours"].against(found["theirs"])
    if callable(scores) or callable(others):
        raise UsageError("one model has scores and the other a function, which cannot be compared")
    ours, theirs = _array(scores), _array(others)
    if len(ours) != len(theirs):
        why = f"one has {len(ours)} scores, and the other {len(theirs)}"
        raise UsageError("two models can be compared by scores on the same examples alone", why=why)
    return paired.compare(ours, theirs, seed)


def interval(scores: Score, seed: int, *, examples: int | None = None, resamples: int = RESAMPLES) -> Estimate:
    """A metric of one model with its 95 % interval: the mean of its scores, or what a function yields of all examples.

    Arguments and errors are those of `compare`; the interval of a mean is Wilson's (1927) where all scores are 0 or 1.
    """
    if callable(scores):
        return resample({"ours": _pooled(scores, examples, resamples)}, seed)["ours"].interval
    return paired.interval(_array(scores), seed)


def _pooled(score: Callable[[Rows], Any], examples: int | None, resamples: int) -> Pooled:
    if examples is None or examples < 1 or resamples < 1:
        asked = f"examples={examples}, resamples={resamples}"
        raise UsageError(
            f"a function of examples cannot be resampled with {asked}", hint="say how many there are: examples=N"
        )
    return of_function(_one_number(score), np.arange(examples), resamples)


def _one_number(score: Callable[[Rows], Any]) -> Callable[[Rows], float]:
    def once(chosen: Rows) -> float:
        value = np.asarray(score(chosen), dtype=np.float64)
        if value.ndim:
            raise UsageError(
                "a metric of all examples must be one number", why=f"the function returned {list(value.shape)} of them"
            )
        return float(value)

    return once


def _array(scores: ArrayLike) -> paired.Floats:
    found = np.asarray(scores, dtype=np.float64)
    if found.ndim != 1 or not found.size:
        raise UsageError("scores are one number for each example", why=f"these have the shape {list(found.shape)}")
    if not np.isfinite(found).all():
        raise UsageError("a score is not finite", why=f"that of example {int(np.flatnonzero(~np.isfinite(found))[0])}")
    return found
