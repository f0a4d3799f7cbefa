"""Metrics of the user's own on a dataset without labels: what asks for them is an error, and not 0 %."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orun.errors import UsageError
from tests.stages.measure.test_accuracy import EYE, linear, measure

DATA = """
import numpy as np
import orun

X = np.array([[3, 1, 0], [0, 2, 1], [1, 0, 4], [5, 4, 0]], np.float32)

def plain():
    return orun.Dataset({"x": X}, fields={"camera": ["left", "left", "right", "left"]})

def right(outputs, dataset):
    return outputs["y"].argmax(1) == dataset.labels

def mean_right(outputs, dataset):
    return np.mean(outputs["y"].argmax(1) == dataset.spread(2).labels)

def largest(outputs, dataset):
    few = dataset.choose(np.array([0, 2]))
    assert isinstance(few, orun.Dataset) and len(few) == 2 and str(dataset) == repr(dataset)
    assert list(dataset.fields["camera"]) == ["left", "left", "right", "left"]
    return (outputs["y"] * (dataset.inputs["x"] >= 0)).max(1)

def total(outputs, dataset):
    return float(dataset.inputs["x"].sum())
"""
NEEDS = "needs labels, and"
OF_FUNCTION = "has none\n  it has x, camera\n  hint: return them: orun.Dataset(inputs, labels)"
OF_FILE = (
    "has none\n  it has target, x\n  hint: say which of these they are: dataset: {path: data.npz, labels: target, ...}"
)
MADE_UP = (
    "made-up inputs have none\n  hint: name examples with labels: dataset: data.py:function, or a file with `labels`"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.py").write_text(DATA, "utf-8")
    np.savez(tmp_path / "data.npz", target=np.arange(3), x=np.eye(3, dtype=np.float32))
    return tmp_path


@pytest.mark.parametrize(
    ("dataset", "metric", "message"),
    [
        ("data.py:plain", "data.py:right", f"the metric right {NEEDS} the dataset data.py:plain {OF_FUNCTION}"),
        (
            "data.py:plain",
            "data.py:mean_right",
            f"the metric mean_right {NEEDS} the dataset data.py:plain {OF_FUNCTION}",
        ),
        ("data.npz", "data.py:right", f"the metric right {NEEDS} the dataset data.npz {OF_FILE}"),
        ({"path": "data.npz"}, "accuracy", f"accuracy {NEEDS} the dataset data.npz {OF_FILE}"),
        (None, "data.py:right", f"the metric right {NEEDS} {MADE_UP}"),
        (None, "f1", f"f1 {NEEDS} {MADE_UP}"),
    ],
)
def test_what_asks_for_labels_is_told_that_there_are_none(
    folder: Path, dataset: object, metric: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        measure(folder, {"dataset": dataset, "metrics": [metric]}, model=linear(EYE))
    assert str(caught.value) == message


def test_what_does_not_ask_for_labels_goes_on_without(folder: Path) -> None:
    params = {"dataset": "data.py:plain", "metrics": ["data.py:largest", "data.py:total"], "resamples": 200}
    run = measure(folder, params, model=linear(EYE))
    assert {name: metric.value for name, metric in run.metrics.items()} == {"largest": 3.5, "total": 21.0}
