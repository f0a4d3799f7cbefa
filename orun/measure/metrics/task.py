"""Task metrics with a score for each example, by the labels of a dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.errors import UsageError
from orun.measure.metrics.fidelity import Floats, find_top_class, find_top_classes, is_classes, is_single_score

INTEGERS = (
    "integers are taken as classes; if they are scores in 8 bits, return them from a function, "
    "`outputs[NAME].astype('float32')`, and name it: `postprocess: file.py:function`"
)
ROWS = 1024  # queries scored at once, to limit the matrix of similarities


def accuracy(output: NDArray[Any], labels: NDArray[Any]) -> Floats:
    """Return the share of positions of each example whose top class is the label.

    Args:
        output: scores `[n, ..., classes]`, or classes `[n, ...]` as integers.
        labels: classes `[n, ...]`, or `[n, ..., 1]`.

    Raises:
        UsageError: if the shapes do not fit.
    """
    right = (choose_classes("accuracy", output, labels) == labels).reshape(len(labels), -1)
    return np.asarray(right.mean(axis=1), dtype=np.float64)


def accuracy_at(k: int, output: NDArray[Any], labels: NDArray[Any]) -> Floats:
    """Return the share of positions of each example whose label is among the `k` classes with the highest scores.

    Raises:
        UsageError: if the output holds no scores of classes, or as `accuracy` does.
    """
    need_scores(f"accuracy_at_{k}", output)
    choose_classes(f"accuracy_at_{k}", output, labels)  # refuses labels that do not fit
    best = find_top_classes(k, output.reshape(-1, output.shape[-1]))
    right = (best == labels.reshape(-1, 1)).any(axis=1).reshape(len(labels), -1)
    return np.asarray(right.mean(axis=1), dtype=np.float64)


def choose_classes(metric: str, output: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Return the class that a model predicts for each label, in the shape of the labels.

    Raises:
        UsageError: if the output is a single score, the shapes do not fit, a label is no class, or texts would be
            compared with numbers.
    """
    predicted = output if is_single_score(output) else find_top_class(output)
    if predicted.dtype.kind == "f" and (predicted != np.round(predicted)).any():
        raise UsageError(
            f"{metric} needs a class, or a score for each class, and the output has one score",
            why=f"it is {output.dtype} {list(output.shape)}",
            hint="`auc`, `brier` and `log_loss` take one score, `mae` and `rmse` a predicted number; or return classes "
            "from a function, "
            "`(outputs[NAME] > 0.5).ravel().astype(int)`, or `> 0` of a logit, and name it: "
            "`postprocess: file.py:function`",
        )
    need_fitting(metric, predicted.shape, output, labels)
    texts = [values.dtype.kind in "OUS" for values in (predicted, labels)]
    if texts[0] != texts[1]:
        kinds = ["texts" if text else "numbers" for text in texts]
        raise UsageError(
            f"{metric} compares what the model predicts, {kinds[0]}, with labels that are {kinds[1]}",
            hint="use labels of the same kind: for a model that returns scores, the number of the class, from 0; for a "
            "table, name the classes in the order of the scores: `classes: [...]`",
        )
    if predicted is not output:
        _need_classes(metric, output.shape[-1], labels)
    return predicted.reshape(labels.shape)


def _need_classes(metric: str, classes: int, labels: NDArray[Any]) -> None:
    """Refuse labels that are no class's number: they could never be right."""
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise UsageError(
            f"{metric} needs labels from 0 to {classes - 1}, as the output has {classes} scores",
            why=f"they go from {labels.min():g} to {labels.max():g}",
            hint="if labels begin at 1: orun.Dataset(inputs, labels - 1); leave out examples without a class"
            if labels.ndim == 1
            else "if pixels or tokens have no class, as 255 often says, leave them out in a metric of your own: "
            "`metrics: [file.py:function]`",
        )
    broken = labels[labels != np.round(labels)]
    if broken.size:
        raise UsageError(
            f"{metric} needs whole numbers as labels, from 0 to {classes - 1}",
            why=f"one of them is {broken[0]:g}",
            hint="for probabilities of class 1: orun.Dataset(inputs, labels.round())",
        )


def need_fitting(metric: str, shape: tuple[int, ...], output: NDArray[Any], labels: NDArray[Any]) -> None:
    """Raise UsageError unless the labels have the shape of the predicted classes, with or without a last axis of 1."""
    if labels.shape not in (shape, (*shape, 1)):
        raise UsageError(
            f"{metric} needs one label for each prediction",
            why=f"the output is {list(output.shape)}, and the labels are {list(labels.shape)}",
            hint=_suggest_shape(output, labels),
        )


def _suggest_shape(output: NDArray[Any], labels: NDArray[Any]) -> str:
    """Say how to make outputs and labels of different shapes fit; empty if unknown."""
    shape = output.shape
    if shape == labels.shape:
        if ((labels == 1).sum(-1) == 1).all() and ((labels == 0) | (labels == 1)).all():
            return "for one-hot labels: labels.argmax(-1)"
        return "if an example may have several classes: `auc`, `average_precision`, or a metric of your own"
    fitting = [axis for axis in range(1, len(shape)) if shape[:axis] + shape[axis + 1 :] == labels.shape]
    if len(fitting) != 1:
        return ""
    return INTEGERS if is_classes(output) else f"name the axis of the classes: `class_axis: {fitting[0]}`"


def need_scores(metric: str, output: NDArray[Any]) -> None:
    """Raise UsageError if the output holds no scores of classes."""
    if is_classes(output) or is_single_score(output):
        raise UsageError(
            f"{metric} needs a score for each class",
            why=f"the output is {output.dtype} {list(output.shape)}",
            hint=INTEGERS
            if output.dtype.kind in "iu" and output.ndim > 1
            else "name the output that holds scores in `outputs`",
        )


def rank_candidates(queries: NDArray[Any], candidates: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return the rank of each query's right candidate by cosine similarity, counted from 1.

    Candidates with the same score as the right one rank before it, so that a constant model ranks last, not first.

    Args:
        queries: one vector for each example, `[n, d]`.
        candidates: one vector for each candidate, `[m, d]`.
        labels: index of the right candidate, `[n]`.

    Raises:
        UsageError: if outputs are not vectors.
    """
    if queries.ndim != 2 or candidates.ndim != 2:  # noqa: PLR2004 - [n, d]
        raise UsageError(
            "retrieval metrics need one vector for each example",
            why=f"the model's output is {list(queries.shape)}",
            hint="export the model with its pooling, or name the output that holds the vector in `outputs`",
        )
    queries, candidates = _normalize(queries), _normalize(candidates)
    result = np.empty(len(queries), dtype=np.intp)
    for start in range(0, len(queries), ROWS):
        rows = slice(start, start + ROWS)
        scores = queries[rows] @ candidates.T
        right = np.take_along_axis(scores, labels[rows, None], axis=1)
        result[rows] = (scores >= right).sum(axis=1)
    return result


def ndcg(k: int | None, output: NDArray[Any], labels: NDArray[Any]) -> Floats:
    """Return the normalized discounted cumulative gain of each example's items, as scikit-learn's `ndcg_score`.

    The gain is the relevance itself, its discount the logarithm to the base 2. Items with equal scores share the mean
    of their discounts. An example without a relevant item has 0.

    Args:
        k: items that count, the best first; all when None.
        output: score of each item, `[n, items]`.
        labels: relevance of each item, from 0, `[n, items]`.

    Raises:
        UsageError: if the shapes do not fit, or a relevance is negative or not finite.
    """
    if output.shape != labels.shape or output.ndim != 2 or labels.dtype.kind not in "iubf":  # noqa: PLR2004 - [n, items]
        raise UsageError(
            "ndcg needs a score for each item of an example, and the relevance of each as a label, from 0",
            why=f"the output is {output.dtype} {list(output.shape)}, the labels {labels.dtype} {list(labels.shape)}",
            hint="name the output that holds the scores in `outputs`",
        )
    broken = labels[~np.isfinite(labels) | (labels < 0)]
    if broken.size:
        raise UsageError(
            "ndcg needs the relevance of each item as a label, a finite number from 0",
            why=f"one of them is {broken[0]:g}",
            hint="give items that are not judged the relevance 0",
        )
    discounts = 1 / np.log2(np.arange(output.shape[1]) + 2)
    if k is not None:
        discounts[k:] = 0
    ideal = -np.sort(-labels.astype(np.float64), axis=1) @ discounts
    gains = np.array([_compute_gain(*row, discounts) for row in zip(output, labels, strict=True)])
    return np.asarray(np.divide(gains, ideal, out=np.zeros(len(ideal)), where=ideal > 0), dtype=np.float64)


def _compute_gain(scores: NDArray[Any], relevance: NDArray[Any], discounts: Floats) -> float:
    """Return the discounted gain of one ranking, tied items by the mean of their relevance (McSherry & Najork 2008)."""
    _, group, counts = np.unique(-scores.astype(np.float64), return_inverse=True, return_counts=True)
    mean = np.bincount(group, relevance.astype(np.float64)) / counts
    return float(mean @ np.add.reduceat(discounts, np.cumsum(counts) - counts))


def _normalize(vectors: NDArray[Any]) -> Floats:
    wide = vectors.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    length[length == 0] = 1.0  # a zero vector stays zero: similar to nothing
    return np.asarray(wide / length, dtype=np.float64)


def recall_at(rank: NDArray[np.intp], k: int) -> Floats:
    """Return 1 where the right candidate is among the first k, else 0."""
    return (rank <= k).astype(np.float64)


def reciprocal_rank(rank: NDArray[np.intp]) -> Floats:
    """Return 1 / rank; its mean is the mean reciprocal rank."""
    return 1.0 / rank
