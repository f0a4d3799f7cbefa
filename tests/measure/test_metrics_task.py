"""Scores by label, by hand-worked examples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score, top_k_accuracy_score

from orun.errors import UsageError
from orun.measure.metrics_task import (
    accuracy,
    accuracy_at,
    auc,
    average_precision,
    f1,
    ranks,
    recall,
    reciprocal_rank,
)


def test_accuracy_of_scores() -> None:
    output = np.array([[0.1, 0.9], [0.8, 0.2], [0.4, 0.6]])
    assert accuracy(output, np.array([1, 1, 1])).tolist() == [1.0, 0.0, 1.0]


def test_accuracy_of_classes() -> None:
    assert accuracy(np.array([3, 1]), np.array([3, 2])).tolist() == [1.0, 0.0]


def test_accuracy_at_every_position() -> None:
    output = np.array([[[0.9, 0.1], [0.2, 0.8]]])
    assert accuracy(output, np.array([[0, 0]])).tolist() == [0.5]


def test_accuracy_needs_fitting_labels() -> None:
    with pytest.raises(UsageError) as error:
        accuracy(np.zeros((2, 5, 3)), np.zeros(2, int))
    assert str(error.value) == (
        "accuracy needs one label for each class that the model predicts\n"
        "  the output is [2, 5, 3], and the labels are [2]"
    )


@pytest.mark.parametrize(("name", "metric"), [("accuracy", accuracy), ("f1", f1)])
def test_texts_are_not_compared_with_numbers(name: str, metric: Callable[..., object]) -> None:
    scores, labels = np.eye(2), np.array(["0", "1"])
    with pytest.raises(UsageError) as caught:
        metric(scores, labels)
    assert str(caught.value) == (
        f"{name} compares what the model predicts, numbers, with labels that are texts\n"
        "  hint: give labels of the same kind: where the model yields scores, the number of the class from 0 on"
    )


def test_ranks_go_by_angle() -> None:
    queries = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    candidates = np.array([[10.0, 1.0], [1.0, 5.0], [3.0, 3.0]])
    found = ranks(queries, candidates, np.array([0, 2, 1]))
    assert found.tolist() == [1, 2, 2]
    assert recall(found, 1).tolist() == [1.0, 0.0, 0.0]
    assert recall(found, 5).tolist() == [1.0, 1.0, 1.0]
    assert reciprocal_rank(found).tolist() == [1.0, 0.5, 0.5]


def test_a_model_that_answers_everything_alike_ranks_last() -> None:
    found = ranks(np.ones((3, 4)), np.ones((5, 4)), np.array([0, 2, 4]))
    assert found.tolist() == [5, 5, 5]


def test_a_model_that_answers_nothing_ranks_last() -> None:
    assert ranks(np.zeros((2, 4)), np.zeros((3, 4)), np.array([0, 1])).tolist() == [3, 3]


def test_many_queries_are_ranked_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    queries, candidates = generator.standard_normal((50, 8)), generator.standard_normal((30, 8))
    labels = generator.integers(0, 30, 50)
    whole = ranks(queries, candidates, labels)
    monkeypatch.setattr("orun.measure.metrics_task.ROWS", 7)
    assert ranks(queries, candidates, labels).tolist() == whole.tolist()


def test_retrieval_needs_vectors() -> None:
    with pytest.raises(UsageError) as error:
        ranks(np.zeros((2, 5, 3)), np.zeros((2, 5, 3)), np.array([0, 1]))
    assert str(error.value) == (
        "retrieval metrics need one vector for each example\n"
        "  the model's output is [2, 5, 3]\n"
        "  hint: export the model with its pooling, or name the output that holds the vector in `outputs`"
    )


def scores(classes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Probabilities with ties, and labels that they know something of."""
    random = np.random.default_rng(classes)
    labels = np.concatenate([np.arange(classes), random.integers(0, classes, 200)])
    table = random.integers(1, 9, (len(labels), classes)) + 3.0 * (np.arange(classes) == labels[:, None])
    return table / table.sum(axis=1, keepdims=True), labels


def test_f1_is_that_of_scikit_learn() -> None:
    table, labels = scores(6)
    assert f1(table, labels).item() == pytest.approx(f1_score(labels, table.argmax(axis=1), average="macro"))
    words = np.array(["a", "b", "a"], dtype=object)
    assert f1(words, np.array(["a", "a", "c"], dtype=object)).item() == pytest.approx((2 / 4 + 0 + 0) / 3)


def test_auc_is_that_of_scikit_learn() -> None:
    table, labels = scores(5)
    assert auc(table, labels).item() == pytest.approx(roc_auc_score(labels, table, multi_class="ovr"))
    table, labels = scores(2)
    expected = roc_auc_score(labels, table[:, 1])
    assert auc(table, labels).item() == pytest.approx(expected)
    assert auc(table[:, 1], labels).item() == pytest.approx(expected)


def test_average_precision_is_that_of_scikit_learn() -> None:
    table, labels = scores(5)
    table = table.round(1)  # so that some score the same
    expected = average_precision_score(np.eye(5)[labels], table, average="macro")
    assert average_precision(table, labels).item() == pytest.approx(expected)
    assert average_precision(table, np.eye(5, dtype=np.int64)[labels]).item() == pytest.approx(expected)
    table, labels = scores(2)
    expected = average_precision_score(labels, table[:, 1])
    assert average_precision(table, labels).item() == pytest.approx(expected)
    assert average_precision(table[:, 1], labels).item() == pytest.approx(expected)


def test_examples_of_several_classes() -> None:
    random = np.random.default_rng(2)
    table, labels = random.standard_normal((60, 4)), random.integers(0, 2, (60, 4))
    assert average_precision(table, labels).item() == pytest.approx(average_precision_score(labels, table))
    assert auc(table, labels).item() == pytest.approx(roc_auc_score(labels, table))


def test_accuracy_among_the_best_is_that_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    table, labels = random.standard_normal((100, 12)), random.integers(0, 12, 100)
    expected = top_k_accuracy_score(labels, table, k=5, labels=range(12))
    assert accuracy_at(5, table, labels).mean() == pytest.approx(expected)


def test_what_scores_need() -> None:
    with pytest.raises(UsageError) as error:
        auc(np.array([1, 0]), np.array([1, 0]))
    assert str(error.value) == (
        "auc needs scores for each example, and the label of its class as a number\n"
        "  the output is int64 [2], the labels int64 [2]\n"
        "  hint: name the output that holds scores in `outputs`"
    )
    with pytest.raises(UsageError) as error:
        auc(np.array([0.1, 0.2]), np.array([1, 1]))
    assert str(error.value) == "auc: every example is of class 1"
    assert average_precision(np.array([0.1, 0.2]), np.array([1, 1])) == 1
    with pytest.raises(UsageError) as error:
        average_precision(np.array([0.1, 0.2]), np.array([0, 0]))
    assert str(error.value) == "average_precision: no example is of class 1"
    with pytest.raises(UsageError) as error:
        accuracy_at(5, np.array([1, 0]), np.array([1, 0]))
    assert str(error.value) == (
        "accuracy_at_5 needs a score for each class\n"
        "  the output is int64 [2]\n"
        "  hint: name the output that holds scores in `outputs`"
    )
    with pytest.raises(UsageError) as error:
        f1(np.zeros((2, 5, 3)), np.zeros(2, int))
    assert error.value.what == "f1 needs one label for each class that the model predicts"
