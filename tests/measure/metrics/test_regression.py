"""Errors of predicted numbers: scikit-learn's figures, and intervals that hold the truth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from orun.errors import UsageError
from orun.measure.metrics.bootstrap import resample
from orun.measure.metrics.regression import mae, r2, rmse

Floats = NDArray[np.float64]


def predictions(*shape: int, error: float = 0.5) -> tuple[Floats, Floats]:
    random = np.random.default_rng(len(shape))
    labels = random.normal(3, 2, shape)
    return labels + random.normal(0, error, shape), labels


def test_figures_are_those_of_scikit_learn() -> None:
    output, labels = predictions(50)
    everything = np.arange(50)
    for answer, right in ((output, labels), (output[:, None], labels), (output, labels[:, None])):
        assert mae(answer, right).mean() == pytest.approx(mean_absolute_error(labels, output))
        assert rmse(answer, right)(everything).overall == pytest.approx(root_mean_squared_error(labels, output))
        explained = r2(answer, right)(everything)
        assert explained is not None
        assert explained.overall == pytest.approx(r2_score(labels, output))
    output, labels = predictions(50, 3)
    explained = r2(output, labels)(everything)
    assert explained is not None
    assert explained.overall == pytest.approx(r2_score(labels, output))
    flat = rmse(output, labels)(everything)
    assert flat.overall == pytest.approx(root_mean_squared_error(labels.ravel(), output.ravel()))


def test_a_part_of_the_examples_has_its_own_figures() -> None:
    output, labels = predictions(50)
    part = np.array([3, 7, 20, 41])
    assert rmse(output, labels)(part).overall == pytest.approx(root_mean_squared_error(labels[part], output[part]))
    explained = r2(output, labels)(part)
    assert explained is not None
    assert explained.overall == pytest.approx(r2_score(labels[part], output[part]))
    assert r2(output, labels)(part[:1]) is None


def test_labels_far_from_zero_lose_no_digits() -> None:
    output, labels = predictions(200)
    explained = r2(output + 1e9, labels + 1e9)(np.arange(200))
    assert explained is not None
    assert explained.overall == pytest.approx(r2_score(labels, output), abs=1e-6)


def test_a_position_at_which_all_labels_are_equal_does_not_count() -> None:
    output, labels = predictions(50)
    explained = r2(np.stack([output, output], axis=1), np.stack([labels, np.full(50, 4.0)], axis=1))(np.arange(50))
    assert explained is not None
    assert explained.overall == pytest.approx(r2_score(labels, output))


def test_a_worse_model_is_told_from_one_that_is_as_good() -> None:
    output, labels = predictions(400)
    everything = np.arange(400)
    noise = np.random.default_rng(9).normal(0, 1, 400)
    models = {"same": output + 1e-4 * noise, "worse": output + 0.3 * noise}
    resampled = resample(
        {name: rmse(answer, labels)(everything) for name, answer in (*models.items(), ("original", output))}, 1
    )
    same, worse = (resampled[name].compare_with(resampled["original"]) for name in models)
    assert same.difference.low < 0 < same.difference.high < 0.001
    assert 1.05 < worse.ratio.low < worse.ratio.value < worse.ratio.high < 1.3


@pytest.mark.parametrize(("name", "metric"), [("mae", mae), ("rmse", rmse), ("r2", r2)])
def test_labels_and_outputs_that_are_refused(name: str, metric: Callable[[Floats, Floats], object]) -> None:
    output, labels = predictions(8)
    texts = labels.astype(str)
    for answer, right, why in (
        (np.stack([output] * 3, axis=1), labels, "the output is float64 [8, 3], the labels float64 [8]"),
        (output, texts, f"the output is float64 [8], the labels {texts.dtype} [8]"),
    ):
        with pytest.raises(UsageError) as caught:
            metric(answer, right)
        assert str(caught.value) == (
            f"{name} needs a predicted number for each label\n  {why}\n"
            "  hint: name the output that holds the predictions in `outputs`, or pick them in a function: "
            "`postprocess: file.py:function`"
        )
    labels[[2, 5]] = np.nan
    with pytest.raises(UsageError) as caught:
        metric(output, labels)
    assert str(caught.value) == (
        f"{name} needs finite numbers as labels\n"
        "  2 of 8 labels are not; the first is that of example 2\n"
        "  hint: leave out examples without a label"
    )


def test_labels_without_variance() -> None:
    with pytest.raises(UsageError, match=r"^r2: every label is 2\n  there is no variance to explain$"):
        r2(np.arange(4.0), np.full(4, 2.0))
