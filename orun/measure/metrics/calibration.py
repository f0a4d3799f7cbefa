"""Metrics of predicted probabilities: Brier score, log loss, and expected calibration error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.measure.metrics.fidelity import Floats, are_distributions, is_single_score, log_softmax
from orun.measure.metrics.pooled import Pooled, Rows, Weighted, divide
from orun.measure.metrics.task import choose_classes, need_fitting, need_scores

Array = NDArray[Any]

BINS = 15  # of equal width, as in Guo et al. (2017)
BINARY = 2  # classes
UNKNOWN = "no interval of ece holds; `brier` and `log_loss` have one"


def brier(output: Array, labels: Array) -> Floats:
    """Return the Brier score of each example, as scikit-learn's `brier_score_loss`, mean over positions.

    It is the sum of squared errors of all probabilities, `[0, 2]`; of two classes half of it, `[0, 1]`.

    Args:
        output: scores `[n, ..., classes]`, or the score of class 1, `[n]` or `[n, 1]`. They count as probabilities if
            all of them are, else as logits: an SVM's margins, too, which no value tells from logits.
        labels: classes `[n, ...]`, or `[n, ..., 1]`.

    Raises:
        UsageError: if the output holds no scores, or the shapes do not fit.
    """
    errors, _, truth = _compute_probabilities("brier", output, labels)
    halves = 2 if errors.shape[1] == BINARY else 1
    errors[np.arange(len(truth)), truth] -= 1
    return _average_positions(np.square(errors).sum(axis=1) / halves, len(labels))


def log_loss(output: Array, labels: Array) -> Floats:
    """Return the negative log of the probability of each example's label, as scikit-learn's `log_loss`, in nats.

    A probability below the smallest difference of the output's type counts as that. Arguments and errors are as for
    `brier`.
    """
    _, logs, truth = _compute_probabilities("log_loss", output, labels)
    return _average_positions(-logs[np.arange(len(truth)), truth], len(labels))


def calibration_error(output: Array, labels: Array) -> Callable[[Rows], Pooled]:
    """Return a function of indices of examples to their expected calibration error (Guo et al. 2017).

    Positions are binned by the probability of their top class, in 15 bins of equal width. The error is the distance of
    the mean probability of a bin from its accuracy, averaged over the positions. Arguments and errors are as for
    `brier`.

    It has no interval. Chance alone makes it positive, and more so for a calibrated model than for another, so that
    resamples miss the truth (benchmarks/task_coverage.py).
    """
    probabilities, _, truth = _compute_probabilities("ece", output, labels)
    confidence = probabilities.max(axis=1)
    gap = (probabilities.argmax(axis=1) == truth) - confidence
    bins = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], confidence)
    positions = len(truth) // len(labels)
    cells = np.repeat(np.arange(len(labels)), positions) * BINS + bins
    gaps: Floats = np.zeros((len(labels), BINS))
    np.add.at(gaps.reshape(-1), cells, gap)

    def pool(examples: Rows) -> Pooled:
        def weigh_rows(rows: Rows) -> Weighted:
            table = gaps[examples[rows]]
            return lambda weights: divide(np.abs(weights @ table).sum(axis=1), positions * weights.sum(axis=1))

        return Pooled(gaps[examples], weigh_rows, len(examples), unknown=UNKNOWN)

    return pool


def _compute_probabilities(metric: str, output: Array, labels: Array) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Return the probability of each class at each position, `[positions, classes]`, its log, and the labels."""
    is_single = is_single_score(output)
    if not is_single:
        need_scores(metric, output)
    scores = output.astype(np.float64)
    if is_single:
        single = scores if output.ndim == 1 else scores[..., 0]
        need_fitting(metric, single.shape, output, labels)
        probable = bool(((single >= 0) & (single <= 1)).all())
        scores = np.stack([1 - single if probable else np.zeros_like(single), single], axis=-1)
    choose_classes(metric, scores, labels)  # refuses labels that do not fit
    scores, truth = scores.reshape(-1, scores.shape[-1]), labels.reshape(-1).astype(np.intp)
    if are_distributions(scores).all():
        probabilities = scores / scores.sum(axis=1, keepdims=True)
        return probabilities, np.log(np.maximum(probabilities, float(np.finfo(output.dtype).eps))), truth
    logs = log_softmax(scores)
    return np.exp(logs), logs, truth


def _average_positions(positions: Floats, examples: int) -> Floats:
    return np.asarray(positions.reshape(examples, -1).mean(axis=1), dtype=np.float64)
