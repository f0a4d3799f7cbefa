"""Mean average precision of boxes, as COCO defines it. pycocotools matches boxes; resamples weigh its matches."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.measure.metrics.boxes import ImageDetections, ImageLabels
from orun.measure.metrics.fidelity import Floats
from orun.measure.metrics.pooled import Pooled, Rows, Weighted, average_classes, divide

THRESHOLDS: dict[str, slice] = {"map": slice(None), "map_50": slice(0, 1), "map_75": slice(5, 6)}
"""Of the ten thresholds of IoU, 0.50 to 0.95 by 0.05, those that a metric averages over."""
RECALLS = np.linspace(0.0, 1.0, 101)
DETECTIONS = 100  # of each class in an image that count, the highest scores first
ANY_AREA = [0.0, 1e10]


@dataclass(frozen=True, eq=False)
class ClassMatches:
    """Matches of one class in all images, highest scores first.

    Attributes:
        name: number of the class.
        image: image of each detection, `[d]`.
        right: whether a detection matches a box of the labels, by threshold of IoU, `[10, d]`.
        counted: whether it counts, `[10, d]`; detections within crowds do not.
        held: boxes of the labels that count, by image, `[n]`.
    """

    name: int
    image: NDArray[np.intp]
    right: NDArray[np.bool_]
    counted: NDArray[np.bool_]
    held: Floats

    def compute_precision(self, weights: Floats, thresholds: slice) -> Floats:
        """Return the average precision for rows of weights of the images, `[b, n] -> [b]`; NaN without boxes.

        It is the mean of the precision at 101 recalls, each the highest precision at that recall or a higher one.
        """
        boxes = weights @ self.held
        drawn = weights[:, self.image]
        matches = zip(self.right[thresholds], self.counted[thresholds], strict=True)
        areas = [self._compute_area(drawn, boxes, *match) for match in matches]
        return np.where(boxes > 0, np.mean(areas, axis=0), np.nan)

    def _compute_area(
        self, drawn: Floats, boxes: Floats, right: NDArray[np.bool_], counted: NDArray[np.bool_]
    ) -> Floats:
        steps = np.flatnonzero(right & counted)  # the precision between two of them is lower
        hits = np.cumsum(drawn[:, steps], axis=1)
        reached = np.cumsum(drawn * counted, axis=1)[:, steps]
        precision = hits / (reached + np.spacing(1))
        best = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        recall = divide(hits, np.broadcast_to(boxes[:, None], hits.shape))
        passed = np.searchsorted(RECALLS, recall, side="right")
        area: Floats = np.einsum("ij,ij->i", best, np.diff(passed, axis=1, prepend=0)) / len(RECALLS)
        return area


def match_boxes(labels: Sequence[ImageLabels], detections: Sequence[ImageDetections]) -> Callable[..., Pooled | None]:
    """Match boxes of labels and model, and return the function of images to their precision of `pool_matches`.

    Args:
        labels: of each image, `[n]`.
        detections: of each image, `[n]`.
    """
    return pool_matches(_match(labels, detections), len(labels))


def pool_matches(classes: Sequence[ClassMatches], images: int) -> Callable[..., Pooled | None]:
    """Return a function of images to their mean average precision, over the classes that have boxes in them.

    It takes thresholds of IoU, indices of images, and a class for its precision alone. It returns None for images
    without boxes.
    """

    def pool(thresholds: slice, examples: Rows, only: object = None) -> Pooled | None:
        held = {matches.name: int(np.count_nonzero(matches.held[examples])) for matches in classes}
        averaged = [matches for matches in classes if held[matches.name] and only in (None, matches.name)]
        if not averaged:
            return None

        def weigh_rows(rows: Rows) -> Weighted:
            def weigh(weights: Floats) -> Floats:
                spread = np.zeros((len(weights), images))
                spread[:, examples[rows]] = weights
                by_class = [matches.compute_precision(spread, thresholds) for matches in averaged]
                return average_classes(np.stack(by_class, axis=1))

            return weigh

        rarest = min(averaged, key=lambda matches: held[matches.name]).name
        numbers = np.arange(len(examples), dtype=np.float64)[:, None]
        return Pooled(numbers, weigh_rows, held[rarest], rarest, classes=len(averaged), most=1.0)

    return pool


def _match(labels: Sequence[ImageLabels], detections: Sequence[ImageDetections]) -> list[ClassMatches]:
    from pycocotools.cocoeval import COCOeval

    classes = sorted({int(number) for image in labels for number in image.classes})
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools tells each step
        truth = _index(classes, [(i.boxes, i.classes, {"iscrowd": i.crowd}) for i in labels])
        detected = _index(classes, [(i.boxes, i.classes, {"score": i.scores}) for i in detections])
        evaluation = COCOeval(truth, detected, "bbox")
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [ANY_AREA], ["all"]
        evaluation.params.maxDets = [DETECTIONS]
        evaluation.evaluate()
    of_classes = (evaluation.evalImgs[place * len(labels) :][: len(labels)] for place in range(len(classes)))
    return [_join(name, images) for name, images in zip(classes, of_classes, strict=True)]


def _index(classes: Sequence[int], images: Sequence[tuple[Floats, NDArray[np.int64], dict[str, NDArray[Any]]]]) -> Any:
    """Return boxes `[m, 4]` of each image as pycocotools holds them."""
    from pycocotools.coco import COCO

    annotations = [
        {
            "image_id": image,
            "bbox": box.tolist(),
            "area": float(box[2] * box[3]),
            "category_id": int(numbers[place]),
            "iscrowd": 0,
            **{key: values[place].item() for key, values in extra_values.items()},
        }
        for image, (boxes, numbers, extra_values) in enumerate(images)
        for place, box in enumerate(boxes)
    ]
    coco = COCO()
    coco.dataset = {
        "images": [{"id": image} for image in range(len(images))],
        "categories": [{"id": number} for number in classes],
        "annotations": [{"id": number, **annotation} for number, annotation in enumerate(annotations, 1)],
    }
    coco.createIndex()
    return coco


def _join(name: int, images: Sequence[Any]) -> ClassMatches:
    """Join what pycocotools found for a class in each image; None for an image without it."""
    present = [(place, image) for place, image in enumerate(images) if image is not None]
    scores = np.concatenate([image["dtScores"] for _, image in present])
    order = np.argsort(-scores, kind="stable")
    matched = np.concatenate([image["dtMatches"] for _, image in present], axis=1) > 0
    ignored = np.concatenate([image["dtIgnore"] for _, image in present], axis=1).astype(bool)
    held = np.zeros(len(images))
    for place, image in present:
        held[place] = np.count_nonzero(np.asarray(image["gtIgnore"]) == 0)
    place_of = np.repeat([place for place, _ in present], [len(image["dtScores"]) for _, image in present])
    return ClassMatches(name, place_of[order], matched[:, order], ~ignored[:, order], held)
