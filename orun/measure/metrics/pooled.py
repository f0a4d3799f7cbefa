"""Metrics that are one number of all examples and no mean over them: macro F1, areas under ROC and precision-recall.

Each is a function of how often every example counts, so that resamples of the examples are rows of weights and nothing
is indexed anew.
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
from orun.measure.metrics.newcombe import newcombe
from orun.measure.metrics.task import predicted_classes

Array = NDArray[Any]
Rows = NDArray[np.intp]
Weighted = Callable[[Floats], Floats]
Column = tuple[Floats, NDArray[np.bool_], int]  # scores of one class, which examples are of it, its number


@dataclass(frozen=True, eq=False)
class Pooled:
    """A metric of one model over its examples.

    Attributes:
        columns: numbers by which its examples are told apart, `[n, columns]`; those with equal rows count alike.
        of: takes the indices of examples, `[k]`, and gives what turns rows of their weights, whole numbers `[b, k]`,
            into the metric of each row, `[b]`: not a number where it is not defined.
        fewest: examples of the rarest class; all of them where it knows no classes.
        rarest: that class; None where it knows none.
        classes: how many are averaged.
        answers: the class that was answered at each position, `[n, positions]`; None for a metric of scores.
        resamples: how often it is to be resampled; None leaves that to the work it makes.
        bounds: of the metric by itself, by theory: what its resamples are not trusted to be narrower than.
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
        """The metric of all examples."""
        return float(self.of(np.arange(len(self)))(np.ones((1, len(self))))[0])


def of_function(score: Callable[[Rows], float], examples: Rows, resamples: int) -> Pooled:
    """What a function yields of examples, given their indices, in which one may stand several times.

    Args:
        score: the function.
        examples: those that there are, `[n]`.
        resamples: how often it is to be resampled.
    """

    def of(rows: Rows) -> Weighted:
        chosen = examples[rows]
        return lambda weights: np.array([score(np.repeat(chosen, row.astype(np.intp))) for row in weights])

    places = np.arange(len(examples), dtype=np.float64)[:, None]
    return Pooled(places, of, len(examples), resamples=resamples)


def f1_of_part(output: Array, labels: Array) -> Pooled | None:
    """F1 of some of the examples; None where these are of one class."""
    return f1(output, labels) if len(np.unique(labels)) > 1 else None


def f1(output: Array, labels: Array, only: object = None) -> Pooled:
    """F1 of each class that is a label or was predicted, averaged with equal weights (macro).

    Of labels of one class, every other that was answered once would count as 0, as much as that one: 99 right of 100
    would be 0.497.

    Args:
        output: scores `[n, ..., classes]`, or classes `[n, ...]` as integers or texts.
        labels: classes `[n, ...]`.
        only: a class, to have its F1 alone.

    Raises:
        UsageError: when the shapes do not fit, or all labels are of one class.
    """
    predicted = predicted_classes("f1", output, labels)
    if only is None and len(np.unique(labels)) == 1:
        raise UsageError(f"f1: every example is of class {labels.ravel()[0]}")
    names, codes = np.unique(np.concatenate([labels.ravel(), predicted.ravel()]), return_inverse=True)
    truth, answers = codes[: labels.size].reshape(len(labels), -1), codes[labels.size :].reshape(len(labels), -1)
    held = np.array([np.count_nonzero((truth == code).any(axis=1)) for code in range(len(names))])
    asked = np.arange(len(names)) if only is None else np.flatnonzero(names == only)
    labelled = asked[held[asked] > 0]
    rare = labelled[np.argmin(held[labelled])]
    return Pooled(
        columns=np.concatenate([truth, answers], axis=1).astype(np.float64),
        of=partial(_macro_f1, truth, answers, asked),
        fewest=int(held[rare]),
        rarest=names[rare],
        classes=len(asked),
        answers=predicted.reshape(len(labels), -1),
    )


def _macro_f1(truth: Array, answers: Array, asked: Rows, rows: Rows) -> Weighted:
    truth, answers = truth[rows], answers[rows]
    classes = int(max(truth.max(), answers.max(), asked.max())) + 1
    right = 2 * _tally(truth, classes, (truth == answers).astype(np.float64))[:, asked]
    counted = (_tally(truth, classes) + _tally(answers, classes))[:, asked]

    def weigh(weights: Floats) -> Floats:
        return _mean(_divide(weights @ right, weights @ counted))

    return weigh


def _tally(codes: Array, classes: int, weights: Floats | None = None) -> Floats:
    """How often each class stands in each row: `[k, positions] -> [k, classes]`."""
    places = (np.arange(len(codes))[:, None] * classes + codes).ravel()
    found = np.bincount(places, None if weights is None else weights.ravel(), minlength=len(codes) * classes)
    return found.reshape(len(codes), classes).astype(np.float64)


def auc(output: Array, labels: Array, only: object = None, *, part: bool = False) -> Pooled | None:
    """Area under the ROC curve, ties counted half; of several classes the mean of one against the rest.

    Args:
        output: the score of class 1, `[n]` or `[n, 1]`; of both classes, `[n, 2]`; or of each class, `[n, classes]`.
        labels: classes `[n]`, from 0; or whether an example is of each class, `[n, classes]` of 0 and 1.
        only: a class, to have its area alone.
        part: whether these are some of the examples: classes of which they hold none, or nothing else, are left out.

    Returns:
        None where no class is left.

    Raises:
        UsageError: when the shapes do not fit, or a class has no example or all of them.
    """
    columns: list[Column] = []
    for scores, positive, name in _against_the_rest("auc", output, labels, only):
        count = int(np.count_nonzero(positive))
        if 0 < count < len(positive):
            columns.append((scores, positive, name))
        elif not part:
            raise UsageError(f"auc: {'no' if count == 0 else 'every'} example is of class {name}")
    found = _of_columns(columns, _area, min)
    if found is None or len(columns) > 1:
        return found
    count = int(np.count_nonzero(columns[0][1]))
    return replace(found, bounds=newcombe(found.overall, count, len(found) - count))


def average_precision(output: Array, labels: Array, only: object = None, *, part: bool = False) -> Pooled | None:
    """Mean over classes (mAP) of the precision at each threshold, weighed by the recall that it adds.

    That is the area under the precision-recall curve without interpolation, as scikit-learn's average_precision_score
    has it. Arguments and result are as for `auc`. Of a class that all examples are of it is 1, whatever is answered.

    Raises:
        UsageError: when the shapes do not fit, a class has no example, or there is no class but such.
    """
    columns: list[Column] = []
    for scores, positive, name in _against_the_rest("average_precision", output, labels, only):
        if positive.any() and not (part and positive.all()):
            columns.append((scores, positive, name))
        elif not part:
            raise UsageError(f"average_precision: no example is of class {name}")
    if columns and all(positive.all() for _, positive, _ in columns):
        raise UsageError(f"average_precision: every example is of class {columns[0][2]}")
    return _of_columns(columns, _precision, lambda count, _: count)


def _against_the_rest(metric: str, output: Array, labels: Array, only: object) -> Iterator[Column]:
    """For each class the scores of the examples, which of them are of it, and its number; of two classes the second."""
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
    for one in classes:
        yield scores[:, one], labels[:, one] > 0 if many else labels == one, one


def _of_columns(
    columns: Sequence[Column], curve: Callable[[Floats, Floats], Floats], few: Callable[[int, int], int]
) -> Pooled | None:
    if not columns:
        return None
    scores = np.stack([scores for scores, _, _ in columns], axis=1)
    positive = np.stack([positive for _, positive, _ in columns], axis=1)
    counts = [few(int(held), len(positive) - int(held)) for held in positive.sum(axis=0)]
    least = int(np.argmin(counts))

    def of(rows: Rows) -> Weighted:
        ranked = [_ranked(scores[rows, place], positive[rows, place]) for place in range(len(columns))]
        return lambda weights: _mean(np.stack([curve(*one(weights)) for one in ranked], axis=1))

    columned = np.concatenate([scores, positive], axis=1)
    return Pooled(columned, of, counts[least], columns[least][2], len(columns))


def _ranked(scores: Floats, positive: NDArray[np.bool_]) -> Callable[[Floats], tuple[Floats, Floats]]:
    """What turns weights into those at each score, from the highest, and those of the class among them."""
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
    """Mann-Whitney's statistic: how often an example of the class scores above one that is not.

    Args:
        counted: weight of the examples at each score, from the highest, `[b, scores]`.
        right: of those of the class among them.
    """
    positive = right.sum(axis=1)
    negative = counted.sum(axis=1) - positive
    above = np.cumsum(right, axis=1) - right / 2
    pairs = np.einsum("ij,ij->i", counted - right, above)
    both = positive * negative
    return _divide(pairs, both)


def _precision(counted: Floats, right: Floats) -> Floats:
    """The mean over examples of the class of the precision among those that score at least as high; see `_area`."""
    positive, reached = right.sum(axis=1), np.cumsum(counted, axis=1)
    total = np.einsum("ij,ij->i", right, np.cumsum(right, axis=1) / np.maximum(reached, 1))
    return _divide(total, positive)


def _mean(by_class: Floats) -> Floats:
    """Over the classes that have a figure, `[b, classes] -> [b]`."""
    known = ~np.isnan(by_class)
    return _divide(np.where(known, by_class, 0.0).sum(axis=1), known.sum(axis=1))


def _divide(total: Floats, count: Array) -> Floats:
    """Not a number where nothing counts."""
    found: Floats = np.full(np.shape(total), np.nan)
    np.divide(total, count, out=found, where=count > 0)
    return found
