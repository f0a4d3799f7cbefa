"""Boxes of images: what a model detects, and the labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orun.errors import UsageError
from orun.measure.dataset import Values
from orun.measure.metrics.fidelity import Floats

Format = Literal["xyxy", "xywh", "cxcywh"]
FORMATS: tuple[Format, ...] = ("xyxy", "xywh", "cxcywh")
BOX, WITH_SCORES = 4, 6  # columns: of a box; of a box with its score and its class
PIXELS = 16  # a label beyond it is no share of an image
SHARE = 1.5  # a detection below it may be a share: boxes reach beyond the edge


@dataclass(frozen=True)
class BoxOutputs:
    """Form of the outputs that hold boxes.

    Attributes:
        format: numbers of a box: two corners; corner, width and height; centre, width and height.
        boxes: output of the boxes, `[n, k, 4]`; or with score and class of each, `[n, k, 6]`.
        scores: output of their scores, `[n, k]`.
        classes: output of their classes, `[n, k]`.
    """

    format: Format
    boxes: str = "boxes"
    scores: str = "scores"
    classes: str = "classes"


@dataclass(frozen=True, eq=False)
class ImageLabels:
    """Labels of an image: boxes `[m, 4]` of corner, width and height, the class of each, and whether it is a crowd."""

    boxes: Floats
    classes: NDArray[np.int64]
    crowd: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ImageDetections:
    """Detections in an image: boxes `[k, 4]` of corner, width and height, the class of each, and its score."""

    boxes: Floats
    classes: NDArray[np.int64]
    scores: Floats


def read_labels(labels: Iterable[Any]) -> list[ImageLabels]:
    """Return the boxes that a dataset holds as labels.

    Args:
        labels: for each image its boxes by format, classes and optionally crowds: `{"xywh": [m, 4], "classes": [m],
            "crowd": [m]}`.

    Raises:
        UsageError: if the labels of an image have another form, or none has a box.
    """
    read = [_read_label(number, label) for number, label in enumerate(labels)]
    if not any((~label.crowd).any() for label in read):
        raise UsageError("map: no image has a box as its label")
    return read


def _read_label(number: int, label: Any) -> ImageLabels:
    formats = [key for key in FORMATS if isinstance(label, Mapping) and key in label]
    if len(formats) != 1 or "classes" not in label or not {*label} <= {*formats, "classes", "crowd"}:
        listed = f"keys {', '.join(map(str, label))}" if isinstance(label, Mapping) else f"a {type(label).__name__}"
        raise UsageError(
            "map needs the boxes of each image as its label",
            why=f"the label of example {number} is {listed}",
            hint='give a dict for each image: {"xyxy": boxes, "classes": numbers}, with "xywh" or "cxcywh" for other '
            'boxes, and "crowd" to mark crowds',
        )
    subject = f"the label of example {number}"
    boxes = _parse_boxes(label[formats[0]], f"{formats[0]} of {subject}")
    classes = _require_integers(label["classes"], f"classes of {subject}")
    crowd = np.asarray(label.get("crowd", np.zeros(len(classes)))).reshape(-1).astype(bool)
    if not len(boxes) == len(classes) == len(crowd):
        raise UsageError(f"{subject} has {len(boxes)} boxes, {len(classes)} classes and {len(crowd)} crowds")
    corner = _as_corner(boxes, formats[0])
    wrong = np.flatnonzero(~np.isfinite(corner).all(axis=1) | (corner[:, 2:] < 0).any(axis=1))
    if wrong.size:
        raise UsageError(
            f"{subject} has a box of negative size, or with numbers that are not finite",
            why=f"{formats[0]}: {boxes[wrong[0]].tolist()}",
            hint="two corners are `xyxy`; a corner, width and height `xywh`; a centre, width and height `cxcywh`",
        )
    return ImageLabels(corner, classes, crowd)


def read_detections(
    how: BoxOutputs, outputs: Mapping[str, Values], labels: Sequence[ImageLabels]
) -> list[ImageDetections]:
    """Return the boxes that a model detects in each image.

    Args:
        how: where and how the outputs hold boxes.
        outputs: by name.
        labels: of each image, to notice that the two cannot be compared.

    Raises:
        UsageError: if an output is missing or has another form, or its boxes are on another scale than the labels'.
    """
    boxes = _require_output(outputs, how.boxes, "boxes")
    width = _find_width(boxes)
    if width == WITH_SCORES:
        parts = [np.asarray(values, np.float64).reshape(-1, WITH_SCORES) for values in boxes]
        detections = [_build_detections(how, part[:, :BOX], part[:, BOX], part[:, BOX + 1]) for part in parts]
    elif width == BOX:
        scores, classes = (
            _require_output(outputs, how.scores, "scores"),
            _require_output(outputs, how.classes, "classes"),
        )
        for name, values in ((how.scores, scores), (how.classes, classes)):
            _require_shape(name, values, how.boxes, boxes)
        detections = [_build_detections(how, *parts) for parts in zip(boxes, scores, classes, strict=True)]
    else:
        shape = [len(boxes), *np.shape(boxes[0])]
        raise UsageError(
            f"map needs boxes `[n, k, 4]`, or `[n, k, 6]` with score and class, in the output {how.boxes}",
            why=f"its shape is {shape}",
            hint=POSTPROCESS,
        )
    _require_same_scale(detections, labels)
    return detections


POSTPROCESS = (
    "name the outputs: `detections: {format: xyxy, boxes: NAME, scores: NAME, classes: NAME}`; a function can make "
    "boxes of raw outputs: `postprocess: file.py:function`"
)


def _require_output(outputs: Mapping[str, Values], name: str, subject: str) -> Values:
    if name not in outputs:
        raise UsageError(
            f"map needs the {subject} that the model detects, and there is no output {name}",
            why=f"there are {', '.join(outputs)}",
            hint=POSTPROCESS,
        )
    return outputs[name]


def _find_width(values: Values) -> int:
    """Return the columns that the values of all examples have, `[k, columns]`; 0 for another form.

    An example without boxes may have an empty array of any shape. If no example has boxes, the empty arrays' columns
    count, as those of `[n, 0, 6]`.
    """
    filled = [value for value in values if np.size(value)]
    if filled:
        widths = {np.shape(value)[1] if np.ndim(value) == 2 else 0 for value in filled}  # noqa: PLR2004 - [k, columns]
    else:
        widths = {np.shape(value)[-1] for value in values} - {0}
    return {0: BOX, 1: next(iter(widths), 0)}.get(len(widths), 0)


def _require_shape(name: str, values: Values, boxes_name: str, boxes: Values) -> None:
    for example, (value, box) in enumerate(zip(values, boxes, strict=True)):
        if np.shape(value) != np.shape(box)[:1]:
            raise UsageError(
                f"the output {name} needs one number for each box of {boxes_name}",
                why=f"for example {example} it is {list(np.shape(value))}, and the boxes are {list(np.shape(box))}",
                hint=POSTPROCESS,
            )


def _build_detections(how: BoxOutputs, boxes: Any, scores: Any, classes: Any) -> ImageDetections:
    corner = _as_corner(np.asarray(boxes, np.float64).reshape(-1, BOX), how.format)
    corner[:, 2:] = np.maximum(corner[:, 2:], 0)
    numbers = _require_integers(classes, "the classes that the model detects")
    return ImageDetections(corner, numbers, np.asarray(scores, np.float64))


def _as_corner(boxes: Floats, form: str) -> Floats:
    """Return boxes as corner, width and height, `[k, 4]`."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if form == "xyxy":
        second = second - first
    elif form == "cxcywh":
        first = first - second / 2
    return np.concatenate([first, second], axis=1)


def _parse_boxes(values: Any, subject: str) -> Floats:
    try:
        boxes = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{subject} must be boxes `[m, 4]`", why=str(error)) from error
    if boxes.size and (boxes.ndim != 2 or boxes.shape[1] != BOX):  # noqa: PLR2004 - [m, 4]
        raise UsageError(f"{subject} must be boxes `[m, 4]`", why=f"its shape is {list(boxes.shape)}")
    return boxes.reshape(-1, BOX)


def _require_integers(values: Any, subject: str) -> NDArray[np.int64]:
    numbers = np.asarray(values)
    is_number = numbers.dtype.kind in "iubf"
    if numbers.size and not (is_number and np.isfinite(numbers).all() and (numbers == np.round(numbers)).all()):
        raise UsageError(
            f"{subject} must be whole numbers", why=f"they are {numbers.dtype}, such as {numbers.ravel()[0]}"
        )
    return numbers.reshape(-1).astype(np.int64)


def _require_same_scale(detections: Sequence[ImageDetections], labels: Sequence[ImageLabels]) -> None:
    """Refuse shares of the image where the labels are pixels: no box could match."""
    largest = max((float(np.abs(image.boxes).max(initial=0)) for image in detections), default=0.0)
    if 0 < largest < SHARE and max(float(label.boxes.max(initial=0)) for label in labels) > PIXELS:
        raise UsageError(
            "map: the model's boxes are shares of the image, and the labels' are pixels",
            why=f"the largest number of a detected box is {largest:.3g}",
            hint="give labels as shares, too, or scale the model's boxes: `postprocess: file.py:function`",
        )
