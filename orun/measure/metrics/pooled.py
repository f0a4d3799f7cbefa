"""Pooled metrics, one number of all examples and no mean over them: precision, recall, F1 and IoU of predicted classes.

Each is a function of the examples' weights. A resample is then a row of weights, and no array is indexed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.errors import UsageError
from orun.measure.metrics.fidelity import Floats
from orun.measure.metrics.task import choose_classes

Array = NDArray[Any]
Rows = NDArray[np.intp]
Weighted = Callable[[Floats], Floats]
Formula = Callable[[Floats, Floats, Floats], Floats]  # of positions that are right, labelled and predicted, by class


@dataclass(frozen=True, eq=False)
class Pooled:
    """A metric of one model over its examples.

    Attributes:
        columns: numbers that identify an example's kind, `[n, columns]`; examples with equal rows are interchangeable.
        of: takes indices of examples, `[k]`; returns a function from rows of their weights, whole numbers `[b, k]`, to
            the metric of each row, `[b]`, NaN where it is not defined.
        fewest: examples of the rarest class, for precision those predicted to be of it; all examples if there are no
            classes.
        rarest: the rarest class; None for a metric without classes.
        classes: classes that are averaged.
        answers: predicted class at each position, `[n, positions]`; None for a metric of scores.
        resamples: how often to resample; None decides by the cost.
        bounds: interval of the metric by theory; the bootstrap's interval is not trusted to be narrower.
        most: largest value of a metric that is not below 0 and that an example changes by its own share at most; None
            if that is not known, as of a function of the user.
        unknown: why the metric has no interval; empty if resamples give one that holds.
        counted: what `fewest` counts: `example` or `prediction`.
    """

    columns: Floats
    of: Callable[[Rows], Weighted]
    fewest: int
    rarest: object = None
    classes: int = 1
    answers: Array | None = None
    resamples: int | None = None
    bounds: tuple[float, float] | None = None
    most: float | None = None
    unknown: str = ""
    counted: str = "example"

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.columns)

    @property
    def overall(self) -> float:
        """Metric of all examples."""
        return float(self.of(np.arange(len(self)))(np.ones((1, len(self))))[0])


def pool_function(score: Callable[[Rows], float], examples: Rows, resamples: int) -> Pooled:
    """Return a function of examples as a pooled metric.

    Args:
        score: takes indices of examples, of which one may occur several times.
        examples: indices of all examples, `[n]`.
        resamples: how often to resample.
    """

    def weigh_rows(rows: Rows) -> Weighted:
        chosen = examples[rows]
        return lambda weights: np.array([score(np.repeat(chosen, row.astype(np.intp))) for row in weights])

    numbers = np.arange(len(examples), dtype=np.float64)[:, None]
    return Pooled(numbers, weigh_rows, len(examples), resamples=resamples)


def pool_part(metric: Callable[[Array, Array], Pooled], output: Array, labels: Array) -> Pooled | None:
    """Return a metric of predicted classes for some of the examples; None if these are of one class."""
    return metric(output, labels) if len(np.unique(labels)) > 1 else None


def f1(output: Array, labels: Array, only: object = None) -> Pooled:
    """Return macro F1: the mean F1 of all classes that are labels or were predicted.

    Labels of a single class are refused: any other class predicted once would count as 0, as much as that class, so 99
    right of 100 would be 0.497.

    Args:
        output: scores `[n, ..., classes]`, or classes `[n, ...]` as integers or texts.
        labels: classes `[n, ...]`.
        only: a class, for its F1 alone.

    Raises:
        UsageError: if the shapes do not fit, or all labels are of one class.
    """

    def divide_by_mean(right: Floats, labelled: Floats, predicted: Floats) -> Floats:
        return divide(2 * right, labelled + predicted)

    return _pool_classes("f1", divide_by_mean, output, labels, only)


def precision(output: Array, labels: Array, only: object = None) -> Pooled:
    """Return macro precision: for each class the share of its predictions that are right; the mean over all classes.

    A class that is never predicted counts as 0, as in scikit-learn. Arguments and errors are as for `f1`.
    """

    def divide_by_predicted(right: Floats, labelled: Floats, predicted: Floats) -> Floats:
        return _divide_or_zero(right, predicted, labelled)

    return _pool_classes("precision", divide_by_predicted, output, labels, only, of_predictions=True)


def recall(output: Array, labels: Array, only: object = None) -> Pooled:
    """Return macro recall: for each class the share of its examples that are found; the mean over all classes.

    A class that is only predicted counts as 0, as in scikit-learn. Arguments and errors are as for `f1`.
    """
    return _pool_classes("recall", _divide_or_zero, output, labels, only)


def iou(output: Array, labels: Array, only: object = None) -> Pooled:
    """Return mean IoU (the Jaccard index), over all classes that are labels or were predicted.

    The intersection and the union of a class are counted over the positions (pixels) of all examples together, as
    benchmarks of segmentation do. Arguments and errors are as for `f1`.
    """

    def divide_by_union(right: Floats, labelled: Floats, predicted: Floats) -> Floats:
        return divide(right, labelled + predicted - right)

    return _pool_classes("iou", divide_by_union, output, labels, only)


def _pool_classes(
    metric: str,
    formula: Formula,
    output: Array,
    labels: Array,
    only: object,
    *,
    of_predictions: bool = False,
) -> Pooled:
    """Return a metric of classes predicted and right.

    Args:
        metric: its name, for errors.
        formula: figure of each class by its positions that are right, that have its label, and that are predicted.
        output: as for `f1`.
        labels: as for `f1`.
        only: as for `f1`.
        of_predictions: whether the metric is a share of the predictions of a class, and not of its examples.
    """
    predicted = choose_classes(metric, output, labels)
    if only is None and len(np.unique(labels)) == 1:
        raise UsageError(f"{metric}: every example is of class {labels.ravel()[0]}")
    names, codes = np.unique(np.concatenate([labels.ravel(), predicted.ravel()]), return_inverse=True)
    truth, answers = codes[: labels.size].reshape(len(labels), -1), codes[labels.size :].reshape(len(labels), -1)
    occurrences = answers if of_predictions else truth
    held = np.array([np.count_nonzero((occurrences == code).any(axis=1)) for code in range(len(names))])
    averaged = np.arange(len(names)) if only is None else np.flatnonzero(names == only)
    occurring = averaged[held[averaged] > 0]
    rare = occurring[np.argmin(held[occurring])] if len(occurring) else averaged[0]
    return Pooled(
        columns=np.concatenate([truth, answers], axis=1).astype(np.float64),
        of=partial(_weigh, formula, truth, answers, averaged),
        fewest=int(held[rare]),
        rarest=names[rare],
        classes=len(averaged),
        answers=predicted.reshape(len(labels), -1),
        most=1.0,
        counted="prediction" if of_predictions else "example",
    )


def _weigh(formula: Formula, truth: Array, answers: Array, averaged: Rows, rows: Rows) -> Weighted:
    counted = _count(truth[rows], answers[rows], averaged)
    return lambda weights: average_classes(formula(*(weights @ counts for counts in counted)))


def _divide_or_zero(right: Floats, count: Floats, otherwise: Floats) -> Floats:
    """Return the share of positions that are right; of a class without any, 0 if it occurs otherwise, else NaN."""
    return divide(right, np.maximum(count, otherwise > 0))


def _count(truth: Array, answers: Array, averaged: Rows) -> tuple[Floats, Floats, Floats]:
    """Count for each example and class the positions that are right, that have the label, and that are predicted."""
    classes = int(max(truth.max(), answers.max(), averaged.max())) + 1
    right = _tally(truth, classes, (truth == answers).astype(np.float64))
    return right[:, averaged], _tally(truth, classes)[:, averaged], _tally(answers, classes)[:, averaged]


def _tally(codes: Array, classes: int, weights: Floats | None = None) -> Floats:
    """Count each class in each row: `[k, positions] -> [k, classes]`."""
    cells = (np.arange(len(codes))[:, None] * classes + codes).ravel()
    counts = np.bincount(cells, None if weights is None else weights.ravel(), minlength=len(codes) * classes)
    return counts.reshape(len(codes), classes).astype(np.float64)


def average_classes(by_class: Floats) -> Floats:
    """Return the mean over the classes that have a figure, `[b, classes] -> [b]`."""
    known = ~np.isnan(by_class)
    return divide(np.where(known, by_class, 0.0).sum(axis=1), known.sum(axis=1))


def divide(total: Floats, count: Array) -> Floats:
    """Return the quotient, NaN where nothing counts."""
    quotient: Floats = np.full(np.shape(total), np.nan)
    np.divide(total, count, out=quotient, where=count > 0)
    return quotient
