"""`measure/accuracy` of detections: outputs of several forms, post-processing, slices by class, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from orun.stages.measure.accuracy import Params, packages
from orun.stages.params import build
from tests.measure.metrics.test_detection import of_library, read, scene
from tests.stages.measure.test_accuracy import measure, model, refusal

pytest.importorskip("pycocotools")

IMAGES = 80
DATA = """
import numpy as np
import orun
from tests.measure.metrics.test_detection import scene

LABELS, OUTPUTS = scene(80, 11)

def padded(rows, width):
    return np.stack([np.concatenate([r, np.zeros((9 - len(r), *r.shape[1:]))]) for r in rows]).astype(np.float32)

def separate():
    # as exports of DETR and SSD: the rest of the rows has a score of 0
    inputs = {name: padded(rows, 9) for name, rows in OUTPUTS.items()}
    inputs["classes"] = inputs["classes"].astype(np.int64)
    day = ["day" if number % 3 else "night" for number in range(80)]
    return orun.Dataset({f"in_{k}": v for k, v in inputs.items()}, LABELS, fields={"light": day})

def joined():
    # as end-to-end exports of YOLO, each image with as many rows as it has detections
    rows = [np.column_stack([b[:, :2], b[:, :2] + b[:, 2:], s, c]) for b, s, c in zip(*OUTPUTS.values())]
    return orun.Dataset({"in_output0": [row.astype(np.float32) for row in rows]}, LABELS)

def pixels():
    return orun.Dataset({"in_output0": np.float32([[[0.1, 0.1, 1.2, 1, 0.9, 1]]] * 80)}, LABELS)

def classes():
    return orun.Dataset({"in_output0": np.ones((80, 2, 6), np.float32)}, np.zeros(80, int))

def keep_sure(outputs, dataset):
    rows = [row[row[:, 4] > 0.5] for row in outputs["output0"]]
    parts = {"boxes": slice(0, 4), "scores": 4, "classes": 5}
    return {name: [row[:, columns] for row in rows] for name, columns in parts.items()}

def short(outputs, dataset):
    return outputs["output0"][:3]

def gaps(outputs, dataset):
    return [row * np.nan for row in outputs["output0"]]

def one(outputs, dataset):
    return 1.0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.py").write_text(DATA, "utf-8")
    return tmp_path


def copier(**outputs: int) -> onnx.ModelProto:
    """A model that returns each input `in_NAME` of a type as the output NAME, without a change."""
    shapes: dict[str, list[str | int | None]] = {"boxes": ["n", "k", 4], "output0": ["n", "k", 6]}
    values = {
        prefix: [
            helper.make_tensor_value_info(f"{prefix}{name}", kind, shapes.get(name, ["n", "k"]))
            for name, kind in outputs.items()
        ]
        for prefix in ("in_", "")
    }
    nodes = [helper.make_node("Identity", [f"in_{name}"], [name]) for name in outputs]
    return model(helper.make_graph(nodes, "copier", values["in_"], values[""]))


SEPARATE = copier(boxes=TensorProto.FLOAT, scores=TensorProto.FLOAT, classes=TensorProto.INT64)
JOINED = copier(output0=TensorProto.FLOAT)


def test_separate_outputs_compared_with_a_baseline_by_class_and_by_field(folder: Path) -> None:
    params = {
        "dataset": "data.py:separate",
        "metrics": ["map", "map_50", "map_75"],
        "detections": {"format": "xywh"},
        "slices": ["label", "light"],
        "batch": 16,
    }
    run = measure(folder, params, model=SEPARATE, baseline=SEPARATE)
    labels, detections = read(*scene(IMAGES, 11))
    expected = of_library(labels, detections, np.arange(IMAGES))
    for metric in ("map", "map_50", "map_75"):
        found = run.metrics[metric]
        assert found.value == pytest.approx(expected[metric], abs=1e-6)  # boxes are of single precision
        assert (found.unit, found.better, found.noise) == ("ratio", "higher", "sample")
        assert found.interval is not None
        assert found.interval.low < found.value < found.interval.high
        assert found.baseline is not None
        assert (found.baseline.changed, found.baseline.difference.value) == (0, 0)
        assert found.baseline.difference.low < 0 < found.baseline.difference.high
    by_class = [run.value(f"map[label={number}]") for number in range(4)]
    assert np.mean(by_class) == pytest.approx(run.value("map"))
    night = np.arange(0, IMAGES, 3)
    assert run.value("map[light=night]") == pytest.approx(of_library(labels, detections, night)["map"], abs=1e-6)
    assert run.metrics["map[light=night]"].examples == len(night)


def test_one_output_of_six_columns_with_as_many_rows_as_an_image_has(folder: Path) -> None:
    params = {
        "dataset": "data.py:joined",
        "metrics": ["map"],
        "detections": {"format": "xyxy", "boxes": "output0"},
    }
    expected = of_library(*read(*scene(IMAGES, 11)), np.arange(IMAGES))["map"]
    assert measure(folder, params, model=JOINED).value("map") == pytest.approx(expected, abs=1e-6)


def test_a_function_makes_boxes_of_the_outputs(folder: Path) -> None:
    params = {
        "dataset": "data.py:joined",
        "metrics": ["map_50"],
        "detections": {"format": "xyxy"},
        "postprocess": "data.py:keep_sure",
    }
    run = measure(folder, params, model=JOINED)
    labels, outputs = scene(IMAGES, 11)
    sure = [scores > 0.5 for scores in outputs["scores"]]
    kept = {name: [row[keep] for row, keep in zip(rows, sure, strict=True)] for name, rows in outputs.items()}
    expected = of_library(*read(labels, kept), np.arange(IMAGES))["map_50"]
    assert run.value("map_50") == pytest.approx(expected, abs=1e-6)


def test_a_reference_may_detect_another_number_of_boxes(folder: Path) -> None:
    rows = [*JOINED.graph.node[0].input, "first", "last", "axis"]
    node = helper.make_node("Slice", rows, ["output0"])
    limits = [numpy_helper.from_array(np.array([value]), name) for name, value in zip(rows[1:], (0, 3, 1), strict=True)]
    three = model(helper.make_graph([node], "three", JOINED.graph.input, JOINED.graph.output, limits))
    params = {"dataset": "data.py:joined", "metrics": ["map"], "detections": {"format": "xyxy", "boxes": "output0"}}
    run = measure(folder, params, model=three, reference=JOINED)
    labels, outputs = scene(IMAGES, 11)
    kept = {name: [row[:3] for row in rows] for name, rows in outputs.items()}
    expected = of_library(*read(labels, kept), np.arange(IMAGES))["map"]
    comparison = run.metrics["map"].reference
    assert run.value("map") == pytest.approx(expected, abs=1e-6)
    assert comparison is not None
    assert comparison.value == pytest.approx(of_library(*read(labels, outputs), np.arange(IMAGES))["map"], abs=1e-6)
    assert comparison.difference.low < comparison.difference.value == run.value("map") - comparison.value
    differs = refusal(folder, {**params, "metrics": ["map", "cosine"]}, model=three, reference=JOINED)
    assert differs.startswith("output 'output0' of the model differs in form from the reference's")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"dataset": "data.py:joined"},
            "map needs to know how the outputs hold boxes\n  hint: say it: `detections: {format: xyxy, boxes: NAME, ",
        ),
        (
            {"dataset": "data.py:joined", "detections": {"format": "xyxy"}},
            "map needs the boxes that the model detects, and there is no output boxes\n  there are output0",
        ),
        (
            {"dataset": "data.py:classes", "detections": {"format": "xyxy", "boxes": "output0"}},
            "map needs the boxes of each image as its label\n  the label of example 0 is a int64",
        ),
        (
            {"dataset": "data.py:pixels", "detections": {"format": "xyxy", "boxes": "output0"}},
            "map: the model's boxes are shares of the image, and the labels' are pixels",
        ),
        (
            {"dataset": "data.py:joined", "detections": {"format": "xyxy"}, "postprocess": "data.py:short"},
            "postprocess must return a value for each of the 80 examples, as short\n  it returned 3 values",
        ),
        (
            {"dataset": "data.py:joined", "detections": {"format": "xyxy"}, "postprocess": "data.py:one"},
            "postprocess must return a value for each of the 80 examples, as one\n  it returned one float",
        ),
        (
            {"dataset": "data.py:joined", "detections": {"format": "xyxy"}, "postprocess": "data.py:gaps"},
            "postprocess returned numbers that are not finite for example ",
        ),
        (
            {"dataset": "data.py:joined", "metrics": ["accuracy"], "detections": {"format": "xyxy"}},
            "`detections` is set, and no metric reads it",
        ),
    ],
)
def test_refusals(folder: Path, params: dict[str, object], message: str) -> None:
    assert message in refusal(folder, {"metrics": ["map"], **params}, model=JOINED)


def test_libraries_that_are_needed() -> None:
    params = build(Params, {"metrics": ["map", "wer", "accuracy"], "text": {"tokenizer": "speech"}})
    assert packages(params, Path()) == {
        "pycocotools": "the metric `map`",
        "rapidfuzz": "the metric `wer`",
        "transformers": "the tokenizer speech",
    }
