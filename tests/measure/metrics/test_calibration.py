"""Brier score, log loss and calibration error: the figures of scikit-learn, and of its calibration curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as log_loss_of_library

from orun.errors import UsageError
from orun.measure.metrics.calibration import BINS, brier, calibration_error, log_loss
from orun.measure.metrics.pooled import Pooled

Floats = NDArray[np.float64]


def predictions(classes: int, examples: int = 300) -> tuple[Floats, NDArray[np.int64]]:
    """Logits that know something of the labels, and are too sure of it."""
    random = np.random.default_rng(classes)
    labels = np.concatenate([np.arange(classes), random.integers(0, classes, examples - classes)])
    return random.normal(0, 2, (examples, classes)) + 3.0 * (np.arange(classes) == labels[:, None]), labels


def softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float64)


def error_of(output: Any, labels: Any) -> Pooled:
    return calibration_error(output, labels)(np.arange(len(labels)))


def error_by_curve(confidence: Floats, right: NDArray[np.bool_]) -> float:
    accuracy, mean = calibration_curve(right, confidence, n_bins=BINS)
    counts = np.bincount(np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], confidence), minlength=BINS)
    return float(np.abs(accuracy - mean) @ counts[counts > 0] / len(confidence))


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_scores_of_probabilities_and_of_logits_are_those_of_scikit_learn(classes: int) -> None:
    logits, labels = predictions(classes)
    table = softmax(logits)
    expected = brier_score_loss(labels, table if classes > 2 else table[:, 1], labels=np.arange(classes))
    for output in (table, logits):
        assert brier(output, labels).mean() == pytest.approx(expected, rel=1e-12)
        assert log_loss(output, labels).mean() == pytest.approx(log_loss_of_library(labels, table), rel=1e-12)
        right = table.argmax(axis=1) == labels
        assert error_of(output, labels).overall == pytest.approx(error_by_curve(table.max(axis=1), right))


def test_one_score_is_that_of_class_1() -> None:
    logits, labels = predictions(2)
    table = softmax(logits)
    difference = logits[:, 1] - logits[:, 0]
    for metric in (brier, log_loss):
        expected = metric(table, labels)
        for output in (table[:, 1], table[:, 1:], difference, difference[:, None]):
            assert metric(output, labels) == pytest.approx(expected, rel=1e-9)
    assert error_of(difference, labels).overall == pytest.approx(error_of(table, labels).overall)


def test_labels_may_have_a_last_axis_of_1() -> None:
    """As the labels of a network whose last layer is `Dense(1)`."""
    logits, labels = predictions(2)
    for output in (logits, softmax(logits)[:, 1:], logits[:, 1]):
        for metric in (brier, log_loss):
            assert metric(output, labels[:, None]).tolist() == metric(output, labels).tolist()
        assert error_of(output, labels[:, None]).overall == error_of(output, labels).overall
    with pytest.raises(UsageError) as error:
        brier(softmax(logits)[:, 1:], np.stack([labels, labels], axis=1))
    assert str(error.value) == (
        "brier needs one label for each prediction\n  the output is [300, 1], and the labels are [300, 2]"
    )


def test_a_probability_of_0_counts_as_the_least_of_its_type() -> None:
    table = np.array([[1.0, 0.0, 0.0]])
    for kind in (np.float16, np.float32, np.float64):
        output, labels = table.astype(kind), np.array([2])
        assert log_loss(output, labels)[0] == pytest.approx(-np.log(float(np.finfo(kind).eps)))
        assert brier(output, labels)[0] == 2.0
    assert log_loss(np.array([[1000.0, 0.0]]), np.array([1]))[0] == 1000.0  # logits lose nothing


def test_positions_of_an_example_count_alike() -> None:
    logits, labels = predictions(3, 120)
    table = logits.reshape(20, 3, 2, 3)
    assert brier(table, labels.reshape(20, 3, 2)) == pytest.approx(brier(logits, labels).reshape(20, 6).mean(axis=1))
    assert error_of(table, labels.reshape(20, 3, 2)).overall == pytest.approx(error_of(logits, labels).overall)


def test_the_error_of_copies_and_of_some_examples() -> None:
    logits, labels = predictions(4)
    counts = np.random.default_rng(0).multinomial(300, np.full(300, 1 / 300), 4)
    expected = [error_of(np.repeat(logits, row, axis=0), np.repeat(labels, row)).overall for row in counts]
    assert error_of(logits, labels).of(np.arange(300))(counts.astype(np.float64)) == pytest.approx(expected)
    some = np.arange(0, 300, 7)
    assert calibration_error(logits, labels)(some).overall == pytest.approx(
        error_of(logits[some], labels[some]).overall
    )


def test_a_confidence_on_an_edge_belongs_to_the_lower_bin() -> None:
    table = np.array([[0.6, 0.4], [0.6, 0.4], [0.64, 0.36], [0.64, 0.36]])
    assert 0.6 in np.linspace(0, 1, BINS + 1)
    assert error_of(table, np.array([0, 1, 0, 0])).overall == pytest.approx((0.1 * 2 + 0.36 * 2) / 4)


@pytest.mark.parametrize(
    ("output", "labels", "message"),
    [
        (np.array([[1, 2]]), np.array([0]), "brier needs a score for each class"),
        (np.ones((2, 3)), np.array([0, 3]), "brier needs labels from 0 to 2, as the output has 3 scores"),
        (
            np.ones((2, 3)),
            np.array(["a", "b"]),
            "brier compares what the model predicts, numbers, with labels that are texts",
        ),
        (np.ones((2, 3)), np.ones((2, 3), int), "brier needs one label for each prediction"),
        (np.ones(3), np.ones((3, 2), int), "brier needs one label for each prediction"),
        (np.ones(3), np.array([0, 1, 2]), "brier needs labels from 0 to 1, as the output has 2 scores"),
    ],
)
def test_outputs_and_labels_that_do_not_fit(output: Any, labels: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        brier(output, labels)
    assert error.value.problem == message
