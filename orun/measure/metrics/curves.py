"""Pooled metrics of scores: area under the ROC curve and average precision, each a mean over classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.errors import UsageError
from orun.measure.metrics.fidelity import Floats, log_softmax
from orun.measure.metrics.newcombe import estimate_interval
from orun.measure.metrics.pooled import Pooled, Rows, Weighted, average_classes, divide

Array = NDArray[Any]
Column = tuple[Floats, NDArray[np.bool_], int]  # scores of one class, which examples are of it, its number


def auc(output: Array, labels: Array, only: object = None, *, part: bool = False) -> Pooled | None:
    """Return the area under the ROC curve, ties counted half; for several classes the mean of each against the rest.

    Args:
        output: the score of class 1, `[n]` or `[n, 1]`; of both classes, `[n, 2]`; or of each class, `[n, classes]`.
            With labels of classes, the scores of classes count as probabilities if all of them are, else as logits.
        labels: classes `[n]` or `[n, 1]`, from 0; or whether an example is of each class, `[n, classes]` of 0 and 1.
        only: a class, for its area alone.
        part: whether these are some of the examples: classes without examples, or with all of them, are left out.

    Returns:
        None if no class is left.

    Raises:
        UsageError: if the shapes do not fit, or a class has no example or all of them.
    """
    columns: list[Column] = []
    for scores, positive, name in _iter_classes("auc", output, labels, only):
        count = int(np.count_nonzero(positive))
        if 0 < count < len(positive):
            columns.append((scores, positive, name))
        elif not part:
            raise UsageError(f"auc: {'no' if count == 0 else 'every'} example is of class {name}")
    pooled = _pool_columns(columns, _compute_area, min)
    if pooled is None or len(columns) > 1:
        return pooled
    count = int(np.count_nonzero(columns[0][1]))
    return replace(pooled, bounds=estimate_interval(pooled.overall, count, len(pooled) - count))


def average_precision(output: Array, labels: Array, only: object = None, *, part: bool = False) -> Pooled | None:
    """Return the mean over classes (mAP) of the precision at each threshold, weighted by the recall that it adds.

    This is the area under the precision-recall curve without interpolation, as in scikit-learn's
    average_precision_score. Arguments and result are as for `auc`. A class of all examples has 1, whatever the scores.

    Raises:
        UsageError: if the shapes do not fit, a class has no example, or each class has all examples.
    """
    columns: list[Column] = []
    for scores, positive, name in _iter_classes("average_precision", output, labels, only):
        if positive.any() and not (part and positive.all()):
            columns.append((scores, positive, name))
        elif not part:
            raise UsageError(f"average_precision: no example is of class {name}")
    if columns and all(positive.all() for _, positive, _ in columns):
        raise UsageError(f"average_precision: every example is of class {columns[0][2]}")
    return _pool_columns(columns, _compute_precision, lambda count, _: count)


def _iter_classes(metric: str, output: Array, labels: Array, only: object) -> Iterator[Column]:
    """Yield each class's scores, which examples are of it, and its number; of two classes only the second."""
    scores = output.reshape(len(output), -1).astype(np.float64)
    if labels.shape == (len(output), 1):
        labels = labels[:, 0]
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
    elif not many and ((scores < 0) | (scores > 1)).any():  # logits of different examples have no common scale
        # Of two classes, the difference has the order of the softmax, and is not rounded to 1.
        scores = scores - scores[:, ::-1] if scores.shape[1] == 2 else log_softmax(scores)  # noqa: PLR2004
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

    def weigh_rows(rows: Rows) -> Weighted:
        gathers = [_rank(scores[rows, index], positive[rows, index]) for index in range(len(columns))]
        return lambda weights: average_classes(np.stack([curve(*gather(weights)) for gather in gathers], axis=1))

    return Pooled(
        np.concatenate([scores, positive], axis=1),
        weigh_rows,
        counts[least],
        columns[least][2],
        classes=len(columns),
        most=1.0,
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


def _compute_area(counted: Floats, right: Floats) -> Floats:
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
    return divide(pairs, both)


def _compute_precision(counted: Floats, right: Floats) -> Floats:
    """Return the mean precision at the scores of the class's examples; arguments as for `_compute_area`."""
    positive, reached = right.sum(axis=1), np.cumsum(counted, axis=1)
    total = np.einsum("ij,ij->i", right, np.cumsum(right, axis=1) / np.maximum(reached, 1))
    return divide(total, positive)
