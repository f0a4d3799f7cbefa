"""Scores by label, by hand-worked examples."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from sklearn.metrics import ndcg_score, top_k_accuracy_score

from orun.errors import UsageError
from orun.measure.metrics.curves import auc
from orun.measure.metrics.pooled import f1, iou
from orun.measure.metrics.task import accuracy, accuracy_at, ndcg, rank_candidates, recall_at, reciprocal_rank


def test_accuracy_of_scores() -> None:
    output = np.array([[0.1, 0.9], [0.8, 0.2], [0.4, 0.6]])
    assert accuracy(output, np.array([1, 1, 1])).tolist() == [1.0, 0.0, 1.0]


def test_accuracy_of_classes() -> None:
    assert accuracy(np.array([3, 1]), np.array([3, 2])).tolist() == [1.0, 0.0]


def test_accuracy_at_every_position() -> None:
    output = np.array([[[0.9, 0.1], [0.2, 0.8]]])
    assert accuracy(output, np.array([[0, 0]])).tolist() == [0.5]


def test_labels_with_a_last_axis_of_1() -> None:
    """As Keras has those of a sparse loss."""
    output, labels = np.array([[0.1, 0.9], [0.8, 0.2], [0.4, 0.6]]), np.array([1, 1, 0])
    column = labels[:, None]
    assert accuracy(output, column).tolist() == [1.0, 0.0, 0.0]
    assert accuracy(output.argmax(axis=1), column).tolist() == [1.0, 0.0, 0.0]
    assert accuracy_at(1, output, column).tolist() == [1.0, 0.0, 0.0]
    assert f1(output, column).overall == f1(output, labels).overall
    area = auc(output, column)
    assert area is not None
    assert area.overall == 0.5


@pytest.mark.parametrize("k", [None, 3, 10])
def test_ndcg_is_that_of_scikit_learn_with_ties_too(k: int | None) -> None:
    random = np.random.default_rng(0)
    relevance, output = random.integers(0, 4, (20, 8)), random.integers(0, 5, (20, 8)).astype(np.float32)
    relevance[0] = 0
    expected = ndcg_score(relevance, output, k=k)
    assert ndcg(k, output, relevance).mean() == pytest.approx(expected, abs=1e-12)
    with pytest.raises(UsageError) as error:
        ndcg(k, output, relevance[:, 0])
    assert str(error.value) == (
        "ndcg needs a score for each item of an example, and the relevance of each as a label, from 0\n"
        "  the output is float32 [20, 8], the labels int64 [20]\n"
        "  hint: name the output that holds the scores in `outputs`"
    )


@pytest.mark.parametrize("relevance", [-1.0, np.nan, np.inf])
def test_a_relevance_that_is_no_gain_is_refused(relevance: float) -> None:
    with pytest.raises(UsageError) as error:
        ndcg(None, np.zeros((2, 3)), np.array([[0, 1, 2], [0, relevance, 1]]))
    assert str(error.value) == (
        "ndcg needs the relevance of each item as a label, a finite number from 0\n"
        f"  one of them is {relevance:g}\n"
        "  hint: give items that are not judged the relevance 0"
    )


def test_accuracy_needs_fitting_labels() -> None:
    with pytest.raises(UsageError) as error:
        accuracy(np.zeros((2, 5, 3)), np.zeros(2, int))
    assert str(error.value) == (
        "accuracy needs one label for each prediction\n  the output is [2, 5, 3], and the labels are [2]"
    )


def test_one_hot_labels_are_told_as_such() -> None:
    with pytest.raises(UsageError) as error:
        accuracy(np.zeros((2, 3)), np.eye(3)[:2])
    assert str(error.value) == (
        "accuracy needs one label for each prediction\n"
        "  the output is [2, 3], and the labels are [2, 3]\n"
        "  hint: for one-hot labels: labels.argmax(-1)"
    )


@pytest.mark.parametrize("labels", [[[0, 1, 1], [1, 0, 0]], [[0, 0, 0], [0, 1, 0]], [[0.2, 0.8, 0.0], [1, 0, 0]]])
def test_labels_of_several_classes_are_not_taken_for_one_hot(labels: list[list[float]]) -> None:
    with pytest.raises(UsageError) as error:
        accuracy(np.zeros((2, 3)), np.array(labels))
    assert str(error.value) == (
        "accuracy needs one label for each prediction\n"
        "  the output is [2, 3], and the labels are [2, 3]\n"
        "  hint: if an example may have several classes: `auc`, `average_precision`, or a metric of your own"
    )


@pytest.mark.parametrize(("labels", "span"), [([1, 2, 3], "1 to 3"), ([0, -100, 2], "-100 to 2")])
def test_a_label_that_is_no_class_is_refused(labels: list[int], span: str) -> None:
    with pytest.raises(UsageError) as error:
        accuracy(np.eye(3), np.array(labels))
    assert str(error.value) == (
        "accuracy needs labels from 0 to 2, as the output has 3 scores\n"
        f"  they go from {span}\n"
        "  hint: if labels begin at 1: orun.Dataset(inputs, labels - 1); leave out examples without a class"
    )


def test_a_pixel_without_a_class_is_refused() -> None:
    labels = np.array([[[0, 1], [2, 255]]])
    metrics: dict[str, Callable[..., object]] = {
        "accuracy": accuracy,
        "iou": iou,
        "accuracy_at_5": partial(accuracy_at, 5),
    }
    for metric, measure in metrics.items():
        with pytest.raises(UsageError) as error:
            measure(np.zeros((1, 2, 2, 3)), labels)
        assert str(error.value) == (
            f"{metric} needs labels from 0 to 2, as the output has 3 scores\n"
            "  they go from 0 to 255\n"
            "  hint: if pixels or tokens have no class, as 255 often says, leave them out in a metric of your own: "
            "`metrics: [file.py:function]`"
        )


def test_a_label_between_two_classes_is_refused() -> None:
    with pytest.raises(UsageError) as error:
        accuracy(np.eye(3), np.array([0.0, 0.5, 2.0]))
    assert str(error.value) == (
        "accuracy needs whole numbers as labels, from 0 to 2\n"
        "  one of them is 0.5\n"
        "  hint: for probabilities of class 1: orun.Dataset(inputs, labels.round())"
    )
    assert accuracy(np.eye(3), np.array([0.0, 1.0, 1.0])).tolist() == [1, 1, 0]


def test_texts_are_not_compared_with_numbers() -> None:
    with pytest.raises(UsageError) as caught:
        accuracy(np.eye(2), np.array(["0", "1"]))
    assert str(caught.value) == (
        "accuracy compares what the model predicts, numbers, with labels that are texts\n"
        "  hint: use labels of the same kind: for a model that returns scores, the number of the class, from 0; for a "
        "table, name the classes in the order of the scores: `classes: [...]`"
    )


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_a_single_score_is_refused(shape: tuple[int, ...]) -> None:
    output = np.array([0.9, 0.1, 0.8, 0.2], np.float32).reshape(shape)
    metrics: dict[str, Callable[..., object]] = {"accuracy": accuracy, "f1": f1, "iou": iou}
    for metric, measure in metrics.items():
        for labels in (np.array([1, 0, 1, 0]), np.array([[1], [0], [1], [0]])):
            with pytest.raises(UsageError) as caught:
                measure(output, labels)
            assert str(caught.value) == (
                f"{metric} needs a class, or a score for each class, and the output has one score\n"
                f"  it is float32 {list(shape)}\n"
                "  hint: `auc`, `brier` and `log_loss` take one score, `mae` and `rmse` a predicted number; or return "
                "classes from a function, "
                "`(outputs[NAME] > 0.5).ravel().astype(int)`, or `> 0` of a logit, and name it: "
                "`postprocess: file.py:function`"
            )
    with pytest.raises(UsageError) as caught:
        accuracy_at(5, output, np.array([1, 0, 1, 0]))
    assert str(caught.value) == (
        "accuracy_at_5 needs a score for each class\n"
        f"  the output is float32 {list(shape)}\n"
        "  hint: name the output that holds scores in `outputs`"
    )


def test_classes_may_be_floats() -> None:
    assert accuracy(np.array([3.0, 1.0]), np.array([3, 2])).tolist() == [1.0, 0.0]
    assert accuracy(np.array([[1.0], [1.0]]), np.array([[1], [0]])).tolist() == [1.0, 0.0]


def test_scores_in_8_bits_are_made_floats() -> None:
    """`class_axis` would not help: integers are classes."""
    scores, labels = np.array([[0, 255, 3], [9, 8, 7]], np.uint8), np.array([1, 0])
    hint = (
        "integers are taken as classes; if they are scores in 8 bits, return them from a function, "
        "`outputs[NAME].astype('float32')`, and name it: `postprocess: file.py:function`"
    )
    with pytest.raises(UsageError) as caught:
        accuracy(scores, labels)
    assert str(caught.value) == (
        f"accuracy needs one label for each prediction\n  the output is [2, 3], and the labels are [2]\n  hint: {hint}"
    )
    with pytest.raises(UsageError) as caught:
        accuracy_at(2, scores, labels)
    assert str(caught.value) == (
        f"accuracy_at_2 needs a score for each class\n  the output is uint8 [2, 3]\n  hint: {hint}"
    )
    assert accuracy(scores.astype("float32"), labels).tolist() == [1.0, 1.0]


def test_ranks_go_by_angle() -> None:
    queries = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    candidates = np.array([[10.0, 1.0], [1.0, 5.0], [3.0, 3.0]])
    rank = rank_candidates(queries, candidates, np.array([0, 2, 1]))
    assert rank.tolist() == [1, 2, 2]
    assert recall_at(rank, 1).tolist() == [1.0, 0.0, 0.0]
    assert recall_at(rank, 5).tolist() == [1.0, 1.0, 1.0]
    assert reciprocal_rank(rank).tolist() == [1.0, 0.5, 0.5]


def test_a_model_that_answers_everything_alike_ranks_last() -> None:
    rank = rank_candidates(np.ones((3, 4)), np.ones((5, 4)), np.array([0, 2, 4]))
    assert rank.tolist() == [5, 5, 5]


def test_a_model_that_answers_nothing_ranks_last() -> None:
    assert rank_candidates(np.zeros((2, 4)), np.zeros((3, 4)), np.array([0, 1])).tolist() == [3, 3]


def test_many_queries_are_ranked_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    queries, candidates = generator.standard_normal((50, 8)), generator.standard_normal((30, 8))
    labels = generator.integers(0, 30, 50)
    at_once = rank_candidates(queries, candidates, labels)
    monkeypatch.setattr("orun.measure.metrics.task.ROWS", 7)
    assert rank_candidates(queries, candidates, labels).tolist() == at_once.tolist()


def test_retrieval_needs_vectors() -> None:
    with pytest.raises(UsageError) as error:
        rank_candidates(np.zeros((2, 5, 3)), np.zeros((2, 5, 3)), np.array([0, 1]))
    assert str(error.value) == (
        "retrieval metrics need one vector for each example\n"
        "  the model's output is [2, 5, 3]\n"
        "  hint: export the model with its pooling, or name the output that holds the vector in `outputs`"
    )


def test_accuracy_among_the_best_is_that_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    table, labels = random.standard_normal((100, 12)), random.integers(0, 12, 100)
    expected = top_k_accuracy_score(labels, table, k=5, labels=range(12))
    assert accuracy_at(5, table, labels).mean() == pytest.approx(expected)


def test_what_the_best_classes_need() -> None:
    with pytest.raises(UsageError) as error:
        accuracy_at(5, np.array([1, 0]), np.array([1, 0]))
    assert str(error.value) == (
        "accuracy_at_5 needs a score for each class\n"
        "  the output is int64 [2]\n"
        "  hint: name the output that holds scores in `outputs`"
    )
