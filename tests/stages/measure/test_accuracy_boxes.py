"""`measure/accuracy` of detections: outputs of several forms, post-processing, slices by class, and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from orun.stages.measure.accuracy import Params, packages
from orun.stages.params import build
from tests.measure.metrics.test_detection import of_library, read, scene
from tests.stages.measure.test_accuracy import measure, model, refusal

pytest.importorskip("pycocotools")

IMAGES = 40
LABELS, OUTPUTS = scene(IMAGES, 11)
DATA = """
import numpy as np
import orun
from tests.stages.measure.test_accuracy_boxes import IMAGES, LABELS, OUTPUTS

def padded(rows, width):
    return np.stack([np.concatenate([r, np.zeros((9 - len(r), *r.shape[1:]))]) for r in rows]).astype(np.float32)

def separate():
    # as exports of DETR and SSD: the rest of the rows has a score of 0
    inputs = {name: padded(rows, 9) for name, rows in OUTPUTS.items()}
    inputs["classes"] = inputs["classes"].astype(np.int64)
    day = ["day" if number % 3 else "night" for number in range(IMAGES)]
    return orun.Dataset({f"in_{k}": v for k, v in inputs.items()}, LABELS, fields={"light": day})

def joined():
    # as end-to-end exports of YOLO, each image with as many rows as it has detections
    rows = [np.column_stack([b[:, :2], b[:, :2] + b[:, 2:], s, c]) for b, s, c in zip(*OUTPUTS.values())]
    return orun.Dataset({"in_output0": [row.astype(np.float32) for row in rows]}, LABELS)

def numbered():
    return orun.Dataset(joined().inputs, [{**label, "classes": label["classes"] + 10} for label in LABELS])

def pixels():
    return orun.Dataset({"in_output0": np.float32([[[0.1, 0.1, 1.2, 1, 0.9, 1]]] * IMAGES)}, LABELS)

def classes():
    return orun.Dataset({"in_output0": np.ones((IMAGES, 2, 6), np.float32)}, np.zeros(IMAGES, int))

def keep_sure(outputs, dataset):
    rows = [row[row[:, 4] > 0.5] for row in outputs["output0"]]
    parts = {"boxes": slice(0, 4), "scores": 4, "classes": 5}
    return {name: [row[:, columns] for row in rows] for name, columns in parts.items()}

def short(outputs, dataset):
    return outputs["output0"][:3]

def gaps(outputs, dataset):
    return [row * np.nan for row in outputs["output0"]]

def number(outputs, dataset):
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


def of_pycocotools(outputs: Mapping[str, Any] = OUTPUTS, images: Sequence[int] = range(IMAGES)) -> dict[str, Any]:
    """What the library says of these outputs; boxes of the model are of single precision."""
    figures = of_library(*read(LABELS, dict(outputs)), np.array(images))
    return {name: pytest.approx(value, abs=1e-6) for name, value in figures.items()}


def test_separate_outputs_compared_with_a_baseline_by_class_and_by_field(folder: Path) -> None:
    params = {
        "dataset": "data.py:separate",
        "metrics": ["map", "map_50", "map_75"],
        "detections": {"format": "xywh"},
        "slices": ["label", "light"],
        "batch": 16,
    }
    run = measure(folder, params, model=SEPARATE, baseline=SEPARATE)
    expected = of_pycocotools()
    for name in ("map", "map_50", "map_75"):
        metric = run.metrics[name]
        assert metric.value == expected[name]
        assert (metric.unit, metric.better, metric.noise) == ("ratio", "higher", "sample")
        assert metric.interval is not None
        assert metric.interval.low < metric.value < metric.interval.high
        assert metric.baseline is not None
        assert (metric.baseline.changed, metric.baseline.difference.value) == (0, 0)
        assert metric.baseline.difference.low < 0 < metric.baseline.difference.high
    by_class = [run.value(f"map[label={number}]") for number in range(4)]
    assert np.mean(by_class) == pytest.approx(run.value("map"))
    night = range(0, IMAGES, 3)
    assert run.value("map[light=night]") == of_pycocotools(images=night)["map"]
    assert run.metrics["map[light=night]"].examples == len(night)


def test_one_output_of_six_columns_with_as_many_rows_as_an_image_has(folder: Path) -> None:
    params = {
        "dataset": "data.py:joined",
        "metrics": ["map"],
        "detections": {"format": "xyxy", "boxes": "output0"},
    }
    assert measure(folder, params, model=JOINED).value("map") == of_pycocotools()["map"]


def test_a_function_makes_boxes_of_the_outputs(folder: Path) -> None:
    params = {
        "dataset": "data.py:joined",
        "metrics": ["map_50"],
        "detections": {"format": "xyxy"},
        "postprocess": "data.py:keep_sure",
    }
    sure = [scores > 0.5 for scores in OUTPUTS["scores"]]
    kept = {name: [row[keep] for row, keep in zip(rows, sure, strict=True)] for name, rows in OUTPUTS.items()}
    assert measure(folder, params, model=JOINED).value("map_50") == of_pycocotools(kept)["map_50"]


def test_a_reference_may_detect_another_number_of_boxes(folder: Path) -> None:
    rows = [*JOINED.graph.node[0].input, "first", "last", "axis"]
    node = helper.make_node("Slice", rows, ["output0"])
    limits = [numpy_helper.from_array(np.array([value]), name) for name, value in zip(rows[1:], (0, 3, 1), strict=True)]
    three = model(helper.make_graph([node], "three", JOINED.graph.input, JOINED.graph.output, limits))
    params = {"dataset": "data.py:joined", "metrics": ["map"], "detections": {"format": "xyxy", "boxes": "output0"}}
    run = measure(folder, params, model=three, reference=JOINED)
    comparison = run.metrics["map"].reference
    assert (
        run.value("map") == of_pycocotools({name: [row[:3] for row in rows] for name, rows in OUTPUTS.items()})["map"]
    )
    assert comparison is not None
    assert comparison.value == of_pycocotools()["map"]
    assert comparison.difference.low < comparison.difference.value == run.value("map") - comparison.value
    differs = refusal(folder, {**params, "metrics": ["map", "cosine"]}, model=three, reference=JOINED)
    assert differs.startswith("output 'output0' of the model differs in form from the reference's")


@pytest.mark.parametrize(
    ("dataset", "form", "rest"),
    [
        ("joined", "xyxy", ""),
        (
            "joined",
            "cxcywh",
            (
                "0 %, so a comparison tells little: check `format` in `detections`, the order of the classes and the "
                "scale of the boxes"
            ),
        ),
        (
            "numbered",
            "xyxy",
            "0 %: the labels have the classes 10, 11, 12 and 1 more, and the model returns 0, 1, 2 and 2 more",
        ),
    ],
)
def test_precisions_that_tell_little(folder: Path, dataset: str, form: str, rest: str) -> None:
    params = {
        "dataset": f"data.py:{dataset}",
        "metrics": ["map"],
        "detections": {"format": form, "boxes": "output0"},
    }
    alone = measure(folder, params, model=JOINED)
    compared = measure(folder, params, model=JOINED, reference=JOINED)
    for role, run in (("model", alone), ("reference", compared)):
        reasons = (f"the map of the {role} is {rest}",) if rest else ()
        assert tuple(note for note in run.notes if "map" in note) == reasons


NAMES = "`detections: {format: xyxy, boxes: NAME, scores: NAME, classes: NAME}`"
AS_MANY = "\n  hint: return an array `[n, ...]` or a list of n arrays or texts; several of them as a dict by name"
XYXY = {"detections": {"format": "xyxy"}}
OF_ONE = {"detections": {"format": "xyxy", "boxes": "output0"}}


@pytest.mark.parametrize(
    ("dataset", "params", "message"),
    [
        ("joined", {}, f"map needs to know how the outputs hold boxes\n  hint: say it: {NAMES}"),
        (
            "joined",
            XYXY,
            (
                "map needs the boxes that the model detects, and there is no output boxes\n  there are output0\n"
                f"  hint: name the outputs: {NAMES}; a function can make boxes of raw outputs: "
                "`postprocess: file.py:function`"
            ),
        ),
        (
            "classes",
            OF_ONE,
            (
                "map needs the boxes of each image as its label\n  the label of example 0 is a int64\n"
                '  hint: give a dict for each image: {"xyxy": boxes, "classes": numbers}, with "xywh" or "cxcywh" for '
                'other boxes, and "crowd" to mark crowds'
            ),
        ),
        (
            "pixels",
            OF_ONE,
            (
                "map: the model's boxes are shares of the image, and the labels' are pixels\n"
                "  the largest number of a detected box is 1.1\n"
                "  hint: give labels as shares, too, or scale the model's boxes: `postprocess: file.py:function`"
            ),
        ),
        (
            "joined",
            {**XYXY, "postprocess": "data.py:short"},
            (
                f"postprocess must return a value for each of the {IMAGES} examples, as short\n"
                f"  it returned 3 values{AS_MANY}"
            ),
        ),
        (
            "joined",
            {**XYXY, "postprocess": "data.py:number"},
            (
                f"postprocess must return a value for each of the {IMAGES} examples, as number\n"
                f"  it returned one float{AS_MANY}"
            ),
        ),
        (
            "joined",
            {**XYXY, "postprocess": "data.py:gaps"},
            "postprocess returned numbers that are not finite for example 0, as gaps",
        ),
        (
            "joined",
            {**XYXY, "metrics": ["accuracy"]},
            (
                "`detections` is set, and no metric reads it\n"
                "  hint: add one of map, map_50, map_75 to `metrics`, or leave `detections` out"
            ),
        ),
    ],
)
def test_what_cannot_be_judged_is_refused(folder: Path, dataset: str, params: dict[str, Any], message: str) -> None:
    given_params = {"metrics": ["map"], "dataset": f"data.py:{dataset}", **params}
    assert refusal(folder, given_params, model=JOINED) == message


def test_libraries_that_are_needed() -> None:
    params = build(Params, {"metrics": ["map", "wer", "accuracy"], "text": {"tokenizer": "speech"}})
    assert packages(params, Path()) == {
        "pycocotools": "the metric `map`",
        "rapidfuzz": "the metric `wer`",
        "transformers": "the tokenizer speech",
    }
