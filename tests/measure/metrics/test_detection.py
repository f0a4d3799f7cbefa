"""Mean average precision of boxes: the figures of pycocotools itself, for all images and for resampled ones."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from orun.errors import UsageError
from orun.measure.metrics.bootstrap import resample
from orun.measure.metrics.boxes import BoxOutputs, ImageDetections, ImageLabels, read_detections, read_labels
from orun.measure.metrics.detection import THRESHOLDS, match_boxes
from orun.measure.metrics.pooled import Pooled

pytest.importorskip("pycocotools")

CLASSES = 4  # of the labels; the model also detects a fifth


def scene(
    images: int, seed: int, *, ties: bool = False, crowds: bool = True
) -> tuple[list[dict[str, Any]], dict[str, list[NDArray[Any]]]]:
    """Return labels and detections: images without boxes and without detections, crowds, misses and false alarms."""
    random = np.random.default_rng(seed)
    labels: list[dict[str, Any]] = []
    outputs: dict[str, list[NDArray[Any]]] = {"boxes": [], "scores": [], "classes": []}
    for _ in range(images):
        held, detected = random.integers(0, 5), random.integers(0, 9)
        boxes = np.concatenate([random.random((held, 2)) * 80, random.random((held, 2)) * 30 + 4], axis=1)
        numbers = random.integers(0, CLASSES, held)
        labels.append({"xywh": boxes, "classes": numbers, "crowd": crowds & (random.random(held) < 0.2)})
        read = np.concatenate([random.random((detected, 2)) * 80, random.random((detected, 2)) * 30 + 4], axis=1)
        of = random.integers(0, CLASSES + 1, detected)
        near = min(held, detected)
        read[:near], of[:near] = boxes[:near] + random.normal(0, 1.5, (near, 4)), numbers[:near]
        outputs["boxes"].append(read)
        outputs["classes"].append(of)
        outputs["scores"].append(random.random(detected).round(1) if ties else random.random(detected))
    return labels, outputs


def of_library(
    labels: list[ImageLabels], detections: list[ImageDetections], images: NDArray[np.intp]
) -> dict[str, float]:
    """Return pycocotools' own summary, with its own parameters, of images of which one may occur several times."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth: list[dict[str, Any]] = []
    read: list[dict[str, Any]] = []
    for number, image in enumerate(images):
        held, detected = labels[image], detections[image]
        for box, name, crowd in zip(held.boxes.tolist(), held.classes, held.crowd, strict=True):
            truth.append({"image_id": number, "category_id": int(name), "bbox": box, "iscrowd": int(crowd)})
        for box, name, score in zip(detected.boxes.tolist(), detected.classes, detected.scores, strict=True):
            read.append({"image_id": number, "category_id": int(name), "bbox": box, "score": float(score)})
    for number, annotation in enumerate(truth, 1):
        annotation |= {"id": number, "area": annotation["bbox"][2] * annotation["bbox"][3]}
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {
            "images": [{"id": number} for number in range(len(images))],
            "categories": [{"id": number} for number in range(CLASSES + 1)],
            "annotations": truth,
        }
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(read), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return dict(zip(("map", "map_50", "map_75"), evaluation.stats, strict=False))


def read(
    labels: list[dict[str, Any]], outputs: dict[str, list[NDArray[Any]]]
) -> tuple[list[ImageLabels], list[ImageDetections]]:
    held = read_labels(labels)
    return held, read_detections(BoxOutputs("xywh"), outputs, held)


def pooled(
    labels: list[ImageLabels], detections: list[ImageDetections], metric: str, only: int | None = None
) -> Pooled:
    read = match_boxes(labels, detections)(THRESHOLDS[metric], np.arange(len(labels)), only)
    assert read is not None
    return read


@pytest.mark.parametrize("ties", [False, True])
def test_precision_is_that_of_pycocotools(ties: bool) -> None:
    labels, detections = read(*scene(60, 1, ties=ties))
    expected = of_library(labels, detections, np.arange(60))
    assert 0.1 < expected["map"] < expected["map_50"] < 0.9
    for metric in THRESHOLDS:
        assert pooled(labels, detections, metric).overall == pytest.approx(expected[metric], abs=1e-12)


@pytest.mark.slow
def test_weighted_images_count_as_copies_of_them_do_in_pycocotools() -> None:
    labels, detections = read(*scene(25, 2))
    counts = np.random.default_rng(0).multinomial(25, np.full(25, 1 / 25), 6)
    for metric in THRESHOLDS:
        ours = pooled(labels, detections, metric).of(np.arange(25))(counts.astype(np.float64))
        theirs = [of_library(labels, detections, np.repeat(np.arange(25), row))[metric] for row in counts]
        assert ours == pytest.approx(theirs, abs=1e-12)


def test_precision_of_a_class_and_of_some_images() -> None:
    labels, detections = read(*scene(40, 3))
    only = [ImageLabels(i.boxes[i.classes == 2], i.classes[i.classes == 2], i.crowd[i.classes == 2]) for i in labels]
    expected = of_library(only, detections, np.arange(40))["map"]
    assert pooled(labels, detections, "map", 2).overall == pytest.approx(expected, abs=1e-12)
    some = np.arange(0, 40, 3)
    part = match_boxes(labels, detections)(THRESHOLDS["map"], some)
    assert part is not None
    assert part.overall == pytest.approx(of_library(labels, detections, some)["map"], abs=1e-12)
    empty = np.array([number for number, image in enumerate(labels) if not (~image.crowd).any()][:2])
    assert match_boxes(labels, detections)(THRESHOLDS["map"], empty) is None


def test_only_the_hundred_best_detections_of_a_class_count() -> None:
    labels = read_labels([{"xyxy": [[0, 0, 10, 10]], "classes": [0]}])
    scores = np.linspace(1, 0, 120)
    boxes = np.tile([50.0, 50.0, 60.0, 60.0], (120, 1))
    boxes[100] = [0, 0, 10, 10]
    late = read_detections(
        BoxOutputs("xyxy"), {"boxes": boxes[None], "scores": scores[None], "classes": np.zeros((1, 120))}, labels
    )
    assert pooled(labels, late, "map").overall == 0
    boxes[[99, 100]] = boxes[[100, 99]]
    soon = read_detections(
        BoxOutputs("xyxy"), {"boxes": boxes[None], "scores": scores[None], "classes": np.zeros((1, 120))}, labels
    )
    assert pooled(labels, soon, "map").overall == pytest.approx(of_library(labels, soon, np.arange(1))["map"])


def test_a_model_without_detections_has_0_and_one_that_repeats_the_labels_1() -> None:
    labels, outputs = scene(60, 4, crowds=False)
    nothing = {name: [values[:0] for values in rows] for name, rows in outputs.items()}
    assert pooled(*read(labels, nothing), "map").overall == 0
    bare: dict[str, list[NDArray[Any]]] = {name: [np.array([])] * 60 for name in outputs}
    assert pooled(*read(labels, bare), "map").overall == 0
    boxes = read_labels(labels)
    joined = read_detections(BoxOutputs("xyxy", "output0"), {"output0": np.zeros((60, 0, 6))}, boxes)
    assert pooled(boxes, joined, "map").overall == 0
    perfect = {
        "boxes": [label["xywh"] for label in labels],
        "classes": [label["classes"] for label in labels],
        "scores": [np.ones(len(label["classes"])) for label in labels],
    }
    perfect_metric = pooled(*read(labels, perfect), "map")
    assert perfect_metric.overall == 1
    estimate = resample({"model": perfect_metric}, 0)["model"].interval
    assert (estimate.value, estimate.high) == (1, 1)
    assert 0.8 < estimate.low < 1  # that no image shows an error does not prove that there is none


def test_a_comparison_needs_six_images_of_each_class() -> None:
    labels, outputs = scene(60, 5)
    held, detections = read(labels, outputs)
    model = pooled(held, detections, "map")
    assert model.fewest == min(
        sum(bool((~i.crowd & (i.classes == name)).any()) for i in held) for name in range(CLASSES)
    )
    worse = {**outputs, "boxes": [boxes + 1.0 for boxes in outputs["boxes"]]}
    resampled = resample({"model": pooled(*read(labels, worse), "map"), "baseline": model}, 0)
    comparison = resampled["model"].compare_with(resampled["baseline"])
    assert comparison.method == "paired bootstrap over 60 examples"
    assert comparison.difference.low < comparison.difference.value < comparison.difference.high < 0
    few = resample({"model": pooled(*read(labels[:8], {k: v[:8] for k, v in outputs.items()}), "map")}, 0)["model"]
    assert re.fullmatch(
        r"\d examples? of class \d, too few for an interval, which takes 6", few.compare_with(few).method
    )


def test_formats_of_boxes_and_one_output_of_six_columns() -> None:
    labels, outputs = scene(12, 6)
    expected = pooled(*read(labels, outputs), "map").overall
    corners = [np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1) for box in outputs["boxes"]]
    centres = [np.concatenate([box[:, :2] + box[:, 2:] / 2, box[:, 2:]], axis=1) for box in outputs["boxes"]]
    held = read_labels(
        [
            {
                "xyxy": np.concatenate([label["xywh"][:, :2], label["xywh"][:, :2] + label["xywh"][:, 2:]], axis=1),
                "classes": label["classes"].tolist(),
                "crowd": label["crowd"],
            }
            for label in labels
        ]
    )
    for how, boxes in ((BoxOutputs("xyxy"), corners), (BoxOutputs("cxcywh"), centres)):
        boxes_read = read_detections(how, {**outputs, "boxes": boxes}, held)
        assert pooled(held, boxes_read, "map").overall == pytest.approx(expected, abs=1e-9)
    joined = [
        np.column_stack([box, score, number])
        for box, score, number in zip(corners, outputs["scores"], outputs["classes"], strict=True)
    ]
    boxes_read = read_detections(BoxOutputs("xyxy", "output0"), {"output0": joined}, held)
    assert pooled(held, boxes_read, "map").overall == pytest.approx(expected, abs=1e-9)


BOX = np.array([[1.0, 1.0, 30.0, 30.0]])
WELL = {"boxes": [BOX], "scores": [np.array([0.5])], "classes": [np.array([1])]}


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ({"boxes": BOX, "classes": [1]}, "the label of example 0 is keys boxes, classes"),
        ({"xyxy": BOX}, "the label of example 0 is keys xyxy"),
        (3, "the label of example 0 is a int"),
        ({"xyxy": BOX, "classes": [1, 2]}, "the label of example 0 has 1 boxes, 2 classes and 2 crowds"),
        ({"xyxy": BOX[:, :3], "classes": [1]}, "its shape is [1, 3]"),
        ({"xyxy": BOX, "classes": [1.5]}, "they are float64, such as 1.5"),
        ({"xyxy": BOX, "classes": ["cat"]}, "they are <U3, such as cat"),
        ({"xyxy": [[30, 1, 1, 30]], "classes": [1]}, "xyxy: [30.0, 1.0, 1.0, 30.0]"),
        ({"xyxy": BOX, "classes": [np.inf]}, "they are float64, such as inf"),
        ({"xyxy": [[1, 1, 30], [1]], "classes": [1, 1]}, "must be boxes `[m, 4]`\n  setting an array element with a"),
        ({"xyxy": [["a"] * 4], "classes": [1]}, "must be boxes `[m, 4]`\n  could not convert string to float: 'a'"),
        ({"xyxy": [], "classes": []}, "map: no image has a box as its label"),
        ({"xyxy": [], "classes": np.array([], dtype=object)}, "map: no image has a box as its label"),
    ],
)
def test_labels_that_are_refused(label: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        read_labels([label])
    assert message in f"{error.value}"


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"dets": [BOX]}, "there is no output boxes\n  there are dets"),
        ({**WELL, "scores": [np.ones((1, 3))]}, "for example 0 it is [1, 3], and the boxes are [1, 4]"),
        ({**WELL, "boxes": np.ones((1, 84, 20))}, "its shape is [1, 84, 20]"),
        ({**WELL, "classes": [np.array([0.5])]}, "they are float64, such as 0.5"),
        ({**WELL, "boxes": [BOX / 30]}, "the largest number of a detected box is 1"),
    ],
)
def test_outputs_that_are_refused(outputs: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        read_detections(BoxOutputs("xywh"), outputs, read_labels([{"xywh": BOX, "classes": [1]}]))
    assert message in f"{error.value}"
