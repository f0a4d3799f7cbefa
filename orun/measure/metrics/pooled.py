"""Pooled metrics, one number of all examples that is no mean over them: macro F1, mean IoU, ROC AUC, average precision.

Each is a function of the examples' weights. A resample is then a row of weights, and no array is indexed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.errors import UsageError
from orun.measure.metrics.fidelity import Floats
from orun.measure.metrics.newcombe import newcombe_interval
from orun.measure.metrics.task import predicted_classes

Array = NDArray[Any]
Rows = NDArray[np.intp]
Weighted = Callable[[Floats], Floats]
Column = tuple[Floats, NDArray[np.bool_], int]  # scores of one class, which examples are of it, its number


@dataclass(frozen=True, eq=False)
class Pooled:
    """A metric of one model over its examples.

    Attributes:
        columns: numbers that identify an example's kind, `[n, columns]`; examples with equal rows are interchangeable.
        of: takes indices of examples, `[k]`; returns a function from rows of their weights, whole numbers `[b, k]`, to
            the metric of each row, `[b]`, NaN where it is not defined.
        fewest: examples of the rarest class; all examples of a metric without classes.
        rarest: the rarest class; None for a metric without classes.
        classes: classes that are averaged.
        answers: predicted class at each position, `[n, positions]`; None for a metric of scores.
        resamples: how often to resample; None decides by the cost.
        bounds: interval of the metric by theory; the bootstrap's interval is not trusted to be narrower.
    """

    columns: Floats
    of: Callable[[Rows], Weighted]
    fewest: int
    rarest: object = None
    classes: int = 1
    answers: Array | None = None
    resamples: int | None = None
    bounds: tuple[float, float] | None = None

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

    def of(rows: Rows) -> Weighted:
        chosen = examples[rows]
        return lambda weights: np.array([score(np.repeat(chosen, row.astype(np.intp))) for row in weights])

    numbers = np.arange(len(examples), dtype=np.float64)[:, None]
    return Pooled(numbers, of, len(examples), resamples=resamples)


def f1_of_part(output: Array, labels: Array) -> Pooled | None:
    """Return the F1 of some of the examples; None if they are of one class."""
    return f1(output, labels) if len(np.unique(labels)) > 1 else None


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
    return _over_classes("f1", _macro_f1, output, labels, only)


def iou_of_part(output: Array, labels: Array) -> Pooled | None:
    """Return the IoU of some of the examples; None if they are of one class."""
    return iou(output, labels) if len(np.unique(labels)) > 1 else None


def iou(output: Array, labels: Array, only: object = None) -> Pooled:
    """Return mean IoU (the Jaccard index), over all classes that are labels or were predicted.

    The intersection and the union of a class are counted over the positions (pixels) of all examples together, as
    benchmarks of segmentation do. Arguments and errors are as for `f1`.
    """
    return _over_classes("iou", _mean_iou, output, labels, only)


def _over_classes(
    metric: str, of: Callable[[Array, Array, Rows, Rows], Weighted], output: Array, labels: Array, only: object
) -> Pooled:
    """Return a metric of classes predicted and right.

    Args:
        metric: its name, for errors.
        of: takes the right and the predicted class at each position, the classes to average, and indices of examples.
        output: as for `f1`.
        labels: as for `f1`.
        only: as for `f1`.
    """
    predicted = predicted_classes(metric, output, labels)
    if only is None and len(np.unique(labels)) == 1:
        raise UsageError(f"{metric}: every example is of class {labels.ravel()[0]}")
    names, codes = np.unique(np.concatenate([labels.ravel(), predicted.ravel()]), return_inverse=True)
    truth, answers = codes[: labels.size].reshape(len(labels), -1), codes[labels.size :].reshape(len(labels), -1)
    held = np.array([np.count_nonzero((truth == code).any(axis=1)) for code in range(len(names))])
    averaged = np.arange(len(names)) if only is None else np.flatnonzero(names == only)
    labelled = averaged[held[averaged] > 0]
    rare = labelled[np.argmin(held[labelled])]
    return Pooled(
        columns=np.concatenate([truth, answers], axis=1).astype(np.float64),
        of=partial(of, truth, answers, averaged),
        fewest=int(held[rare]),
        rarest=names[rare],
        classes=len(averaged),
        answers=predicted.reshape(len(labels), -1),
    )


def _macro_f1(truth: Array, answers: Array, averaged: Rows, rows: Rows) -> Weighted:
    right, counted = _count(truth[rows], answers[rows], averaged)
    return lambda weights: _mean(_divide(weights @ (2 * right), weights @ counted))


def _mean_iou(truth: Array, answers: Array, averaged: Rows, rows: Rows) -> Weighted:
    right, counted = _count(truth[rows], answers[rows], averaged)
    return lambda weights: _mean(_divide(weights @ right, weights @ (counted - right)))


def _count(truth: Array, answers: Array, averaged: Rows) -> tuple[Floats, Floats]:
    """Count for each example and class the positions that are right, and those of the class in truth and answers."""
    classes = int(max(truth.max(), answers.max(), averaged.max())) + 1
    right = _tally(truth, classes, (truth == answers).astype(np.float64))
    return right[:, averaged], (_tally(truth, classes) + _tally(answers, classes))[:, averaged]


def _tally(codes: Array, classes: int, weights: Floats | None = None) -> Floats:
    """Count each class in each row: `[k, positions] -> [k, classes]`."""
    cells = (np.arange(len(codes))[:, None] * classes + codes).ravel()
    counts = np.bincount(cells, None if weights is None else weights.ravel(), minlength=len(codes) * classes)
    return counts.reshape(len(codes), classes).astype(np.float64)


def auc(output: Array, labels: Array, only: object = None, *, part: bool = False) -> Pooled | None:
    """Return the area under the ROC curve, ties counted half; for several classes the mean of each against the rest.

    Args:
        output: the score of class 1, `[n]` or `[n, 1]`; of both classes, `[n, 2]`; or of each class, `[n, classes]`.
        labels: classes `[n]`, from 0; or whether an example is of each class, `[n, classes]` of 0 and 1.
        only: a class, for its area alone.
        part: whether these are some of the examples: classes without examples, or with all of them, are left out.

    Returns:
        None if no class is left.

    Raises:
        UsageError: if the shapes do not fit, or a class has no example or all of them.
    """
    columns: list[Column] = []
    for scores, positive, name in _against_the_rest("auc", output, labels, only):
        count = int(np.count_nonzero(positive))
        if 0 < count < len(positive):
            columns.append((scores, positive, name))
        elif not part:
            raise UsageError(f"auc: {'no' if count == 0 else 'every'} example is of class {name}")
    pooled = _pool_columns(columns, _area, min)
    if pooled is None or len(columns) > 1:
        return pooled
    count = int(np.count_nonzero(columns[0][1]))
    return replace(pooled, bounds=newcombe_interval(pooled.overall, count, len(pooled) - count))


def average_precision(output: Array, labels: Array, only: object = None, *, part: bool = False) -> Pooled | None:
    """Return the mean over classes (mAP) of the precision at each threshold, weighted by the recall that it adds.

    This is the area under the precision-recall curve without interpolation, as in scikit-learn's
    average_precision_score. Arguments and result are as for `auc`. A class of all examples has 1, whatever the scores.

    Raises:
        UsageError: if the shapes do not fit, a class has no example, or each class has all examples.
    """
    columns: list[Column] = []
    for scores, positive, name in _against_the_rest("average_precision", output, labels, only):
        if positive.any() and not (part and positive.all()):
            columns.append((scores, positive, name))
        elif not part:
            raise UsageError(f"average_precision: no example is of class {name}")
    if columns and all(positive.all() for _, positive, _ in columns):
        raise UsageError(f"average_precision: every example is of class {columns[0][2]}")
    return _pool_columns(columns, _precision, lambda count, _: count)


def _against_the_rest(metric: str, output: Array, labels: Array, only: object) -> Iterator[Column]:
    """Yield each class's scores, which examples are of it, and its number; of two classes only the second."""
    scores = output.reshape(len(output), -1).astype(np.float64)
    many = labels.ndim == 2 and labels.shape == scores.shape  # noqa: PLR2004 - [n, classes]
    if output.dtype.kind != "f" or not (many or labels.shape == (len(output),)) or labels.dtype.kind not in "iub":
        raise UsageError(
            f"{metric} needs scores for each example, and the label of its class as a number",
            why=f"the output is {output.dtype} {list(output.shape)}, the labels {labels.dtype} {list(labels.shape)}",
            hint="give labels as integers: labels.astype(np.int64)"
            if labels.dtype.kind == "f" and output.dtype.kind == "f" and labels.shape in ((len(output),), scores.shape)
            else "name the output that holds scores in `outputs`",
        )
    if scores.shape[1] == 1 and not many:
        scores = np.concatenate([-scores, scores], axis=1)
    classes = range(scores.shape[1])
    if only is not None:
        classes = range(int(only), int(only) + 1) if only in classes else range(0)  # type: ignore[call-overload]
    elif not many and len(classes) == 2:  # noqa: PLR2004 - one class against the other
        classes = range(1, 2)
    for number in classes:
        yield scores[:, number], labels[:, number] > 0 if many else labels == number, number


def _pool_columns(
    columns: Sequence[Column], curve: Callable[[Floats, Floats], Floats], few: Callable[[int, int], int]
) -> Pooled | None:
    if not columns:
        return None
    scores = np.stack([scores for scores, _, _ in columns], axis=1)
    positive = np.stack([positive for _, positive, _ in columns], axis=1)
    counts = [few(int(held), len(positive) - int(held)) for held in positive.sum(axis=0)]
    least = int(np.argmin(counts))

    def of(rows: Rows) -> Weighted:
        gathers = [_rank(scores[rows, index], positive[rows, index]) for index in range(len(columns))]
        return lambda weights: _mean(np.stack([curve(*gather(weights)) for gather in gathers], axis=1))

    return Pooled(
        np.concatenate([scores, positive], axis=1), of, counts[least], columns[least][2], classes=len(columns)
    )


def _rank(scores: Floats, positive: NDArray[np.bool_]) -> Callable[[Floats], tuple[Floats, Floats]]:
    """Return a function from weights to the weight at each score, highest first: of all examples, and of the class."""
    _, rank = np.unique(-scores, return_inverse=True)
    order = np.argsort(rank, kind="stable")
    starts = np.flatnonzero(np.diff(rank[order], prepend=-1))
    of_class = positive[order].astype(np.float64)

    def gather(weights: Floats) -> tuple[Floats, Floats]:
        counted = np.take(weights, order, axis=1)
        right = counted * of_class
        if len(starts) == len(order):
            return counted, right
        return np.add.reduceat(counted, starts, axis=1), np.add.reduceat(right, starts, axis=1)

    return gather


def _area(counted: Floats, right: Floats) -> Floats:
    """Return Mann-Whitney's statistic: how often an example of the class scores above another example.

    Args:
        counted: weight of all examples at each score, highest first, `[b, scores]`.
        right: weight of the examples of the class.
    """
    positive = right.sum(axis=1)
    negative = counted.sum(axis=1) - positive
    above = np.cumsum(right, axis=1) - right / 2
    pairs = np.einsum("ij,ij->i", counted - right, above)
    both = positive * negative
    return _divide(pairs, both)


def _precision(counted: Floats, right: Floats) -> Floats:
    """Return the mean precision at the scores of the class's examples; arguments as for `_area`."""
    positive, reached = right.sum(axis=1), np.cumsum(counted, axis=1)
    total = np.einsum("ij,ij->i", right, np.cumsum(right, axis=1) / np.maximum(reached, 1))
    return _divide(total, positive)


def _mean(by_class: Floats) -> Floats:
    """Return the mean over the classes that have a figure, `[b, classes] -> [b]`."""
    known = ~np.isnan(by_class)
    return _divide(np.where(known, by_class, 0.0).sum(axis=1), known.sum(axis=1))


def _divide(total: Floats, count: Array) -> Floats:
    """Return the quotient, NaN where nothing counts."""
    quotient: Floats = np.full(np.shape(total), np.nan)
    np.divide(total, count, out=quotient, where=count > 0)
    return quotient
