"""`measure/accuracy` by slices of its dataset and against several references: figures worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orun.errors import UsageError
from orun.measure.dataset import Dataset
from orun.measure.metrics.paired import estimate_tango_interval
from tests.stages.measure.test_accuracy import EYE, linear, measure

DATA = """
import numpy as np
import orun

X = np.array([[3, 1, 0], [0, 2, 1], [1, 0, 4], [5, 4, 0]], np.float32)

def labelled():
    return orun.Dataset({"x": X}, labels=[0, 1, 2, 1], fields={"camera": ["left", "left", "right", "left"]})

def column():
    return orun.Dataset({"x": X}, labels=[[0], [1], [2], [1]])

def masks():
    return orun.Dataset({"x": X}, labels=[[0, 1], [1, 1], [2, 0], [1, 0]])

def unlabelled():
    return orun.Dataset({"x": X})

def many():
    return orun.Dataset({"x": np.repeat(X, 26, axis=0)}, labels=np.arange(104))

def odd():
    mixed = np.array([None, "a\\tb", 1, "a\\tb"], dtype=object)
    fields = {"score": np.array([1.5, np.nan, np.nan, 1.5]), "mixed": mixed}
    return orun.Dataset({"x": X}, labels=[0, 1, 2, 1], fields=fields)

def pictures():
    random = np.random.default_rng(0)
    labels = np.arange(90) % 3
    x = random.standard_normal((90, 3)).astype(np.float32)
    x[np.arange(90), labels] += 1
    camera = np.where(np.arange(90) < 60, "left", np.where(labels == 1, "right", "rear"))
    return orun.Dataset({"x": x}, labels=labels, fields={"camera": camera})

def error(outputs, dataset):
    ours = outputs["y"].argmax(axis=1) != dataset.labels
    return ours.sum() / np.exp(dataset.inputs["x"]).sum()

def listed(outputs, dataset):
    return 1.0 if len(dataset) == 90 and len(set(dataset.inputs["x"][:, 0])) == 90 else [1.0, 2.0]

def first_score(outputs, dataset):
    return outputs["y"][:, 0]

def whole(outputs, dataset):
    return 7.0
"""
SWAPPED = EYE[:, [1, 0, 2]]  # answers 1 for 0 and 0 for 1: right on examples 2 and 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.py").write_text(DATA, "utf-8")
    return tmp_path


def test_values_that_are_no_number_or_do_not_compare(folder: Path) -> None:
    run = measure(
        folder,
        {"dataset": "data.py:odd", "metrics": ["accuracy", "cosine"], "slices": ["score", "mixed"]},
        model=linear(SWAPPED),
        reference=linear(EYE),
    )
    examples = {name: metric.examples for name, metric in run.metrics.items() if name.startswith("accuracy[")}
    assert examples == {
        "accuracy[score=1.5]": 2,
        "accuracy[score=nan]": 2,
        "accuracy[mixed=1]": 1,
        "accuracy[mixed=None]": 1,
        r"accuracy[mixed=a\tb]": 2,  # what does not print is written out
    }


def test_every_slice_has_metrics_of_its_own(folder: Path) -> None:
    run = measure(
        folder,
        {
            "dataset": "data.py:labelled",
            "metrics": ["accuracy", "max_abs", "data.py:first_score", "data.py:whole"],
            "slices": ["label", "camera"],
        },
        model=linear(SWAPPED),
        reference=linear(EYE),
    )
    measured = {name: (metric.value, metric.examples) for name, metric in run.metrics.items()}
    assert measured == {
        "max_abs": (2.0, 0),
        "max_abs[label=0]": (2.0, 1),
        "max_abs[label=1]": (2.0, 2),
        "max_abs[label=2]": (1.0, 1),
        "max_abs[camera=left]": (2.0, 3),
        "max_abs[camera=right]": (1.0, 1),
        "accuracy": (0.5, 0),
        "accuracy[label=0]": (0.0, 1),
        "accuracy[label=1]": (0.5, 2),
        "accuracy[label=2]": (1.0, 1),
        "accuracy[camera=left]": (pytest.approx(1 / 3), 3),
        "accuracy[camera=right]": (1.0, 1),
        "first_score": (1.75, 0),
        "first_score[label=0]": (1.0, 1),
        "first_score[label=1]": (3.0, 2),
        "first_score[label=2]": (0.0, 1),
        "first_score[camera=left]": (pytest.approx(7 / 3), 3),
        "first_score[camera=right]": (0.0, 1),
        "whole": (7.0, 0),
    }
    drop = run.metrics["accuracy[camera=left]"].reference
    assert drop is not None
    low, high = estimate_tango_interval(1, 2, 3)
    assert (drop.difference.value, drop.difference.low, drop.difference.high) == pytest.approx((-1 / 3, low, high))


def test_labels_in_a_column_have_slices(folder: Path) -> None:
    params = {"metrics": ["accuracy"], "slices": ["label"]}
    runs = [
        measure(folder, {**params, "dataset": f"data.py:{name}"}, model=linear(EYE)) for name in ("labelled", "column")
    ]
    assert runs[0].metrics.keys() == runs[1].metrics.keys()
    assert "accuracy[label=1]" in runs[1].metrics


def test_task_metrics_are_compared_with_every_reference(folder: Path) -> None:
    models = {"model": linear(SWAPPED), "reference": linear(EYE), "reference.same": linear(SWAPPED)}
    run = measure(folder, {"dataset": "data.py:labelled", "metrics": ["accuracy"]}, **models)
    metric = run.metrics["accuracy"]
    assert metric.reference is not None
    assert (metric.reference.value, list(metric.references)) == (0.75, ["same"])
    assert metric.references["same"].difference.value == 0.0


@pytest.mark.parametrize(
    ("dataset", "slices", "message"),
    [
        (
            "labelled",
            ["lens"],
            (
                "slices: the dataset has no field lens\n  it has label, camera\n"
                "  hint: add it: orun.Dataset(..., fields={'lens': [...]}); of a table, `fields: [lens]`"
            ),
        ),
        (
            "many",
            ["label"],
            (
                "slices: label has 104 values among 104 examples\n"
                "  at most 100 slices of a field are measured\n"
                "  hint: add a field of coarser values to the dataset: orun.Dataset(..., fields={...})"
            ),
        ),
    ],
)
def test_slices_that_cannot_be(folder: Path, dataset: str, slices: list[str], message: str) -> None:
    params = {"dataset": f"data.py:{dataset}", "metrics": ["accuracy"], "slices": slices}
    with pytest.raises(UsageError) as caught:
        measure(folder, params, model=linear(EYE))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("dataset", "labels"),
    [("masks", "these have several values for each example"), ("unlabelled", "the dataset has none")],
)
def test_labels_that_cannot_slice(folder: Path, dataset: str, labels: str) -> None:
    params = {"dataset": f"data.py:{dataset}", "metrics": ["data.py:first_score"], "slices": ["label"]}
    with pytest.raises(UsageError) as caught:
        measure(folder, params, model=linear(EYE))
    assert str(caught.value) == (
        f"slices: `label` stands for the labels, and {labels}\n"
        "  hint: slice by a field: orun.Dataset(..., fields={'scene': [...]}), `slices: [scene]`"
    )


def test_a_part_of_a_dataset_keeps_its_fields() -> None:
    data = Dataset({"x": np.ones((3, 2))}, fields={"camera": np.array(["a", "b", "a"])})
    assert data.choose(np.array([0, 1])).fields["camera"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"camera": ["a"]}, "a dataset of 3 examples has a field camera of shape [1]"),
        ({"label": [1, 2, 3]}, "a dataset cannot have a field label\n  that name stands for its labels"),
    ],
)
def test_fields_that_do_not_fit(fields: dict[str, list[object]], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Dataset({"x": np.ones((3, 2))}, fields={name: np.array(values) for name, values in fields.items()})
    assert str(caught.value) == message


def test_one_class_against_the_rest_by_label(folder: Path) -> None:
    metrics = ["f1", "auc", "average_precision"]
    run = measure(
        folder,
        {"dataset": "data.py:pictures", "metrics": metrics, "slices": ["label"]},
        model=linear(SWAPPED),
        reference=linear(EYE),
    )
    for name in metrics:
        by_label = [run.metrics[f"{name}[label={number}]"] for number in range(3)]
        assert [metric.examples for metric in by_label] == [30, 30, 30]
        assert np.mean([metric.value for metric in by_label]) == pytest.approx(run.value(name))
        for metric in (run.metrics[name], *by_label):
            assert metric.noise == "sample"
            assert metric.interval is not None
            assert metric.interval.low < metric.value < metric.interval.high
            assert metric.reference is not None
            assert metric.reference.method == "paired bootstrap over 90 examples"
    drop = run.metrics["f1[label=0]"].reference
    kept = run.metrics["f1[label=2]"].reference
    assert drop is not None
    assert kept is not None
    assert drop.difference.high < -0.1  # classes 0 and 1 are taken for one another
    assert kept.difference.value == 0
    assert kept.difference.low < 0 < kept.difference.high


def test_metrics_of_all_examples_by_another_field(folder: Path) -> None:
    params = {
        "dataset": "data.py:pictures",
        "metrics": ["auc", "average_precision", "f1", "data.py:error"],
        "slices": ["camera"],
        "resamples": 200,
    }
    run = measure(folder, params, model=linear(SWAPPED), reference=linear(EYE))
    examples = {name: metric.examples for name, metric in run.metrics.items() if "[" in name}
    assert examples == {
        "auc[camera=left]": 60,
        "average_precision[camera=left]": 60,
        "f1[camera=left]": 60,
        "error[camera=left]": 60,
        "auc[camera=rear]": 20,
        "average_precision[camera=rear]": 20,
        "f1[camera=rear]": 20,
        "error[camera=rear]": 20,
        "error[camera=right]": 10,
    }  # examples that are all of class 1 have no area under a curve, and any answers would have an F1 of half or all
    random = np.random.default_rng(0)  # the examples as the dataset makes them
    x = random.standard_normal((90, 3)).astype(np.float32)
    x[np.arange(90), np.arange(90) % 3] += 1
    chosen = x[[place for place in range(60, 90) if place % 3 == 1]]
    wrong = np.count_nonzero((chosen @ SWAPPED).argmax(axis=1) != 1)
    assert wrong > 0
    assert run.value("error[camera=right]") == pytest.approx(wrong / np.exp(chosen).sum())
    without = run.metrics["auc[camera=left]"].reference
    assert without is not None
    assert without.method == "paired bootstrap over 60 examples"


def test_one_number_of_the_users_own_is_resampled_where_that_is_asked(folder: Path) -> None:
    models = {"model": linear(SWAPPED), "reference": linear(EYE)}
    params: dict[str, object] = {
        "dataset": "data.py:pictures",
        "metrics": ["data.py:error"],
        "better": {"error": "lower"},
    }
    plain = measure(folder, params, **models).metrics["error"]
    drawn = measure(folder, params | {"resamples": 400}, **models).metrics["error"]
    assert plain.noise == "none"
    assert plain.interval is None
    assert plain.reference is not None
    assert plain.reference.method == "exact"
    assert (drawn.noise, drawn.value, drawn.better) == ("sample", plain.value, "lower")
    assert drawn.interval is not None
    assert 0.6 * drawn.value < drawn.interval.low < drawn.value < drawn.interval.high < 1.5 * drawn.value
    assert drawn.reference is not None
    assert drawn.reference.method == "paired bootstrap over 90 examples"
    assert drawn.reference.difference.value == plain.reference.difference.value
    assert 0 < drawn.reference.difference.low < drawn.reference.difference.high


def test_values_of_each_example_are_not_called_for_anew(folder: Path) -> None:
    models = {"model": linear(SWAPPED), "reference": linear(EYE)}
    params: dict[str, object] = {
        "dataset": "data.py:pictures",
        "metrics": ["data.py:first_score"],
        "slices": ["camera"],
    }
    plain, run = (measure(folder, {**params, **more}, **models) for more in ({}, {"resamples": 200}))
    assert run.metrics == plain.metrics
    assert plain.metrics["first_score"].reference is not None
    assert plain.metrics["first_score"].reference.method == "paired bootstrap over 90 examples"


def test_one_number_of_all_examples_must_be_one_of_any(folder: Path) -> None:
    params = {"dataset": "data.py:pictures", "metrics": ["data.py:listed"], "resamples": 200}
    with pytest.raises(UsageError) as caught:
        measure(folder, params, model=linear(EYE))
    assert str(caught.value) == (
        "the metric listed returns one number of all examples, and must do so of any examples\n"
        "  it returned an array of shape [2] of 90 resampled examples"
    )
