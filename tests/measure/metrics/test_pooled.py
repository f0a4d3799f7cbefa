"""Metrics of classes and areas under curves: scikit-learn's figures, for all examples and for weighted ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    jaccard_score,
    precision_score,
    recall_score,
    roc_auc_score,
)

from orun.errors import UsageError
from orun.measure.metrics.curves import auc, average_precision
from orun.measure.metrics.pooled import Pooled, f1, iou, pool_part, precision, recall

Floats = NDArray[np.float64]
Metric = Callable[..., Pooled | None]


def scores(classes: int) -> tuple[Floats, NDArray[np.int64]]:
    """Probabilities with ties, and labels that they know something of."""
    random = np.random.default_rng(classes)
    labels = np.concatenate([np.arange(classes), random.integers(0, classes, 200)])
    table = random.integers(1, 9, (len(labels), classes)) + 3.0 * (np.arange(classes) == labels[:, None])
    return table / table.sum(axis=1, keepdims=True), labels


def overall(pooled: Pooled | None) -> float:
    assert pooled is not None
    return pooled.overall


def test_f1_is_that_of_scikit_learn() -> None:
    table, labels = scores(6)
    assert f1(table, labels).overall == pytest.approx(f1_score(labels, table.argmax(axis=1), average="macro"))
    names = np.array(["a", "b", "a"], dtype=object)
    assert f1(names, np.array(["a", "a", "c"], dtype=object)).overall == pytest.approx((2 / 4 + 0 + 0) / 3)


@pytest.mark.parametrize(("metric", "score"), [(precision, precision_score), (recall, recall_score)])
def test_precision_and_recall_are_those_of_scikit_learn(
    metric: Callable[..., Pooled], score: Callable[..., float]
) -> None:
    """Also of a class that is never predicted, and of one that is only predicted."""
    table, labels = scores(6)
    answers = table.argmax(axis=1)
    for predicted in (answers, np.where(answers == 3, 9, answers)):
        pooled = metric(predicted, labels)
        assert pooled.overall == pytest.approx(score(labels, predicted, average="macro", zero_division=0.0))
        for label in range(6):
            alone = score(labels, predicted, labels=[label], average="macro", zero_division=0.0)
            assert metric(predicted, labels, only=label).overall == pytest.approx(alone)
    assert metric(table, labels).overall == metric(answers, labels).overall


def test_precision_is_as_sure_as_its_predictions_are_many() -> None:
    labels = np.repeat([0, 1], [20, 12])
    answers = np.where(np.arange(32) < 28, 0, 1)
    pooled = precision(answers, labels)
    assert (pooled.fewest, pooled.rarest) == (4, 1)
    assert pooled.overall == pytest.approx((20 / 28 + 1) / 2)
    assert (recall(answers, labels).fewest, recall(answers, labels).rarest) == (12, 1)
    never = precision(np.zeros(32, int), labels, only=1)
    assert (never.fewest, never.rarest, never.overall) == (0, 1, 0.0)


def test_iou_of_pixels_is_the_jaccard_score_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, (6, 5, 5))
    scores = random.random((6, 5, 5, 4)) + 0.8 * (np.arange(4) == labels[..., None])
    right, predicted = labels.ravel(), scores.argmax(axis=-1).ravel()
    assert iou(scores, labels).overall == pytest.approx(jaccard_score(right, predicted, average="macro"))
    assert iou(scores, labels, only=2).overall == pytest.approx(
        jaccard_score(right, predicted, labels=[2], average="macro")
    )
    with pytest.raises(UsageError, match="iou: every example is of class 1"):
        iou(scores, np.ones_like(labels))


def test_f1_of_positions_counts_each() -> None:
    answered, labels = np.array([[0, 1, 1], [2, 1, 0]]), np.array([[0, 0, 1], [2, 1, 2]])
    pooled = f1(answered, labels)
    assert pooled.overall == pytest.approx(f1_score(labels.ravel(), answered.ravel(), average="macro"))
    assert (pooled.fewest, pooled.rarest, pooled.classes) == (
        1,
        0,
        3,
    )  # of class 0 there is one example, not one position


def test_auc_is_that_of_scikit_learn() -> None:
    table, labels = scores(5)
    assert overall(auc(table, labels)) == pytest.approx(roc_auc_score(labels, table, multi_class="ovr"))
    table, labels = scores(2)
    expected = roc_auc_score(labels, table[:, 1])
    for output in (table, table[:, 1], table[:, 1:]):
        assert overall(auc(output, labels)) == pytest.approx(expected)


def test_average_precision_is_that_of_scikit_learn() -> None:
    table, labels = scores(5)
    by_class = np.eye(5, dtype=np.int64)[labels]
    expected = average_precision_score(by_class, table, average="macro")
    assert overall(average_precision(table, labels)) == pytest.approx(expected)
    table = table.round(1)  # so that some score the same, and some rows have another sum than 1
    expected = average_precision_score(by_class, table, average="macro")
    for truth in (labels, by_class):
        assert overall(average_precision(table, truth)) == pytest.approx(expected)
    table, labels = scores(2)
    expected = average_precision_score(labels, table[:, 1])
    assert overall(average_precision(table, labels)) == pytest.approx(expected)
    assert overall(average_precision(table[:, 1], labels)) == pytest.approx(expected)


@pytest.mark.parametrize("classes", [2, 5])
def test_logits_are_ranked_by_their_softmax(classes: int) -> None:
    random = np.random.default_rng(classes)
    labels = np.arange(200) % classes
    logits = random.standard_normal((200, classes)) + (np.arange(classes) == labels[:, None])
    logits += 3 * random.standard_normal((200, 1))  # each example has an offset of its own
    table = softmax(logits, axis=1)
    ranked, truth = (table[:, 1], labels) if classes == 2 else (table, np.eye(classes)[labels])
    assert overall(auc(logits, labels)) == pytest.approx(roc_auc_score(labels, ranked, multi_class="ovr"))
    assert overall(average_precision(logits, labels)) == pytest.approx(average_precision_score(truth, ranked))
    several = np.eye(classes, dtype=np.int64)[labels]  # classes that do not exclude one another have no softmax
    assert overall(auc(logits, several)) == pytest.approx(roc_auc_score(several, logits))


def test_confident_logits_are_no_ties() -> None:
    """Their softmax is 1 in double precision."""
    logits = np.array([[0.0, 40.0], [0.0, 45.0], [0.0, 50.0], [0.0, 60.0]])
    assert overall(auc(logits, np.array([0, 0, 1, 1]))) == 1.0


def test_examples_of_several_classes() -> None:
    random = np.random.default_rng(2)
    table, labels = random.standard_normal((60, 4)), random.integers(0, 2, (60, 4))
    assert overall(average_precision(table, labels)) == pytest.approx(average_precision_score(labels, table))
    assert overall(auc(table, labels)) == pytest.approx(roc_auc_score(labels, table))


def repeated(metric: Metric, output: Floats, labels: NDArray[np.int64], weights: Floats) -> float:
    chosen = np.repeat(np.arange(len(labels)), weights.astype(int))
    return overall(metric(output[chosen], labels[chosen]))


@pytest.mark.parametrize("metric", [precision, recall, f1, iou, auc, average_precision])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("digits", [1, 15])
def test_a_weight_is_so_many_examples(metric: Metric, classes: int, digits: int) -> None:
    table, labels = scores(classes)
    table = table.round(digits)
    weights = np.random.default_rng(1).integers(0, 4, (5, len(labels))).astype(np.float64)
    pooled = metric(table, labels)
    assert pooled is not None
    expected = [repeated(metric, table, labels, row) for row in weights]
    assert pooled.of(np.arange(len(labels)))(weights).tolist() == pytest.approx(expected, abs=1e-12)


def test_a_class_that_no_weighted_example_has_is_left_out() -> None:
    labels = np.array([0, 0, 1, 2])
    table = np.array([[0.9, 0.1, 0.5], [0.2, 0.8, 0.1], [0.3, 0.7, 0.2], [0.1, 0.0, 0.9]])
    without = np.array([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    areas, precisions = (metric(table, labels) for metric in (auc, average_precision))
    assert areas is not None
    assert precisions is not None
    rows = np.arange(4)
    assert areas.of(rows)(without).tolist() == pytest.approx([(0.5 + 0.5) / 2, np.nan, np.nan], nan_ok=True)
    assert precisions.of(rows)(without).tolist() == pytest.approx([(5 / 6 + 0.5) / 2, 1.0, np.nan], nan_ok=True)
    assert f1(table, labels).of(rows)(without).tolist() == pytest.approx([2 / 3, (2 / 3 + 0) / 2, np.nan], nan_ok=True)


def test_one_class_against_the_rest() -> None:
    table, labels = scores(4)
    answers = table.argmax(axis=1)
    by_class = f1_score(labels, answers, average=None)
    for label in range(4):
        pooled = f1(table, labels, only=label)
        assert pooled.overall == pytest.approx(by_class[label])
        assert (pooled.fewest, pooled.rarest, pooled.classes) == (int(np.count_nonzero(labels == label)), label, 1)
        assert overall(auc(table, labels, only=label)) == pytest.approx(roc_auc_score(labels == label, table[:, label]))
        expected = average_precision_score(labels == label, table[:, label])
        assert overall(average_precision(table, labels, only=label)) == pytest.approx(expected)
    assert np.mean(by_class) == pytest.approx(f1(table, labels).overall)
    assert auc(table, labels, only=9) is None


def test_either_of_two_classes() -> None:
    table, labels = scores(2)
    expected = average_precision_score(labels == 0, -table[:, 1])
    assert overall(average_precision(table[:, 1], labels, only=0)) == pytest.approx(expected)
    assert overall(auc(table[:, 1], labels, only=0)) == overall(auc(table[:, 1], labels))


def test_part_of_the_examples_may_lack_classes() -> None:
    table, labels = scores(3)
    some = labels != 2
    pooled = auc(table[some], labels[some], part=True)
    expected = np.mean([roc_auc_score(labels[some] == label, table[some, label]) for label in (0, 1)])
    assert overall(pooled) == pytest.approx(expected)
    alone = labels == 1
    for metric in (auc, average_precision):
        assert metric(table[alone], labels[alone], part=True) is None  # of the latter any answers would have 1
    assert pool_part(f1, table[alone], labels[alone]) is None
    assert overall(pool_part(f1, table[some], labels[some])) == f1(table[some], labels[some]).overall


def test_the_rarest_class() -> None:
    labels = np.repeat([0, 1, 2], [20, 3, 9])
    table = np.random.default_rng(0).random((32, 3))
    for metric in (f1, auc, average_precision):
        pooled = metric(table, labels)
        assert pooled is not None
        assert (pooled.fewest, pooled.rarest, pooled.classes) == (3, 1, 3)
    two = auc(table[:, 0], np.repeat([0, 1], [4, 28]))
    precision = average_precision(table[:, 0], np.repeat([0, 1], [4, 28]))
    assert two is not None
    assert precision is not None
    assert (two.fewest, two.rarest) == (4, 1)  # what is not of class 1 is as rare for its area
    assert (precision.fewest, precision.rarest) == (28, 1)


def test_a_class_that_is_only_predicted_is_not_the_rarest() -> None:
    labels = np.repeat([0, 1], [20, 7])
    answers = labels.copy()
    answers[:2] = 5
    pooled = f1(answers, labels)
    assert (pooled.fewest, pooled.rarest, pooled.classes) == (7, 1, 3)
    assert pooled.overall == pytest.approx((2 * 18 / 38 + 1 + 0) / 3)


def test_what_scores_need() -> None:
    with pytest.raises(UsageError) as error:
        auc(np.array([1, 0]), np.array([1, 0]))
    assert str(error.value) == (
        "auc needs scores for each example, and the label of its class as a number\n"
        "  the output is int64 [2], the labels int64 [2]\n"
        "  hint: name the output that holds scores in `outputs`"
    )
    with pytest.raises(UsageError) as error:
        auc(np.array([0.5, 0.1]), np.array([1.0, 0.0]))
    assert str(error.value) == (
        "auc needs scores for each example, and the label of its class as a number\n"
        "  the output is float64 [2], the labels float64 [2]\n"
        "  hint: give labels as integers: labels.astype(np.int64)"
    )
    with pytest.raises(UsageError) as error:
        auc(np.array([0.1, 0.2]), np.array([1, 1]))
    assert str(error.value) == "auc: every example is of class 1"
    with pytest.raises(UsageError) as error:
        f1(np.eye(2), np.array([1, 1]))
    assert str(error.value) == "f1: every example is of class 1"
    with pytest.raises(UsageError) as error:
        average_precision(np.array([0.1, 0.2]), np.array([1, 1]))
    assert str(error.value) == "average_precision: every example is of class 1"
    with pytest.raises(UsageError) as error:
        average_precision(np.array([0.1, 0.2]), np.array([0, 0]))
    assert str(error.value) == "average_precision: no example is of class 1"
    with pytest.raises(UsageError) as error:
        f1(np.zeros((2, 5, 3)), np.zeros(2, int))
    assert error.value.problem == "f1 needs one label for each prediction"
