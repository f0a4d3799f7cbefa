"""`orun.compare` and `orun.interval`: statistics for the scores of custom measurements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from orun.core.metrics import Comparison, Estimate
from orun.errors import UsageError
from orun.measure.metrics import paired
from orun.measure.metrics.bootstrap import resample
from orun.measure.metrics.pooled import Pooled, Rows, pool_function

RESAMPLES = 1000

Score = ArrayLike | Callable[[Rows], Any]
"""One value for each example, `[n]`; or a function from indices of examples to one number."""


def compare(
    scores: Score, other_scores: Score, seed: int, *, examples: int | None = None, resamples: int = RESAMPLES
) -> Comparison:
    """Compare a metric of one model with another's on the same examples, with 95 % intervals.

    Scores of each example are compared by their means: by McNemar's score interval (Tango 1998) if all are 0 or 1,
    else by the paired bootstrap. A metric that is one number of all examples (BLEU, mAP of boxes) is a function. It
    takes indices of examples, `[k]`, of which one may occur several times, and returns the number. It is called on
    resamples, the same for both models.

    Args:
        scores: of each example, `[n]`, or such a function.
        other_scores: the other model's, likewise.
        seed: of the resamples.
        examples: how many there are, for functions.
        resamples: how often each function is called.

    Raises:
        UsageError: if the two cannot be compared, or a score is not finite.
    """
    if callable(scores) and callable(other_scores):
        models = {"ours": _pool(scores, examples, resamples), "theirs": _pool(other_scores, examples, resamples)}
        resampled = resample(models, seed)
        return resampled["ours"].compare_with(resampled["theirs"])
    if callable(scores) or callable(other_scores):
        raise UsageError("one model has scores and the other a function, which cannot be compared")
    ours, theirs = _to_array(scores), _to_array(other_scores)
    if len(ours) != len(theirs):
        why = f"one model has {len(ours)} scores, and the other {len(theirs)}"
        raise UsageError("models are compared by scores on the same examples", why=why)
    return paired.compare(ours, theirs, seed)


def interval(scores: Score, seed: int, *, examples: int | None = None, resamples: int = RESAMPLES) -> Estimate:
    """Return a metric of one model with its 95 % interval: the mean of its scores, or a function of all examples.

    Arguments and errors are as for `compare`. The interval of a mean is Wilson's (1927) if all scores are 0 or 1.
    """
    if callable(scores):
        return resample({"ours": _pool(scores, examples, resamples)}, seed)["ours"].interval
    return paired.estimate_interval(_to_array(scores), seed)


def _pool(score: Callable[[Rows], Any], examples: int | None, resamples: int) -> Pooled:
    if examples is None or examples < 1 or resamples < 1:
        raise UsageError(
            f"a function of examples cannot be resampled with examples={examples}, resamples={resamples}",
            hint="say how many examples there are: examples=N",
        )
    return pool_function(_require_number(score), np.arange(examples), resamples)


def _require_number(score: Callable[[Rows], Any]) -> Callable[[Rows], float]:
    def call(chosen: Rows) -> float:
        value = np.asarray(score(chosen), dtype=np.float64)
        if value.ndim:
            raise UsageError(
                "a metric of all examples must be one number",
                why=f"the function returned an array of shape {list(value.shape)}",
            )
        return float(value)

    return call


def _to_array(scores: ArrayLike) -> paired.Floats:
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 1 or not array.size:
        raise UsageError("scores must be one number for each example", why=f"their shape is {list(array.shape)}")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise UsageError("a score is not finite", why=f"the first is that of example {bad[0]}")
    return array
