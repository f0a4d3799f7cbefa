"""Reader of annotations in COCO's format: the boxes of images as labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.errors import UnknownName, UsageError
from orun.measure.dataset import Array
from orun.stages._data.source import number_classes


@dataclass(frozen=True, eq=False)
class Annotated:
    """Image of an annotation file.

    Attributes:
        name: path relative to the folder of images.
        size: width and height in pixels.
        boxes: corner, width and height, `[m, 4]`.
        categories: number of each box's category, `[m]`.
        crowd: whether each box is a crowd, `[m]`.
    """

    name: str
    size: tuple[float, float]
    boxes: NDArray[np.float64]
    categories: NDArray[np.int64]
    crowd: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Annotations:
    """Content of an annotation file: its name for messages, its images in order, and its categories by name."""

    title: str
    images: Sequence[Annotated]
    categories: Mapping[str, int]

    def build_labels(self, size: Sequence[int], classes: Sequence[str]) -> Array:
        """Return a label for each image: boxes in pixels of the input, as metrics of boxes read them.

        Args:
            size: height and width of the input.
            classes: categories in the order of the model's classes; empty for the numbers of the file.

        Raises:
            UsageError: if `classes` lacks a category that has boxes, or names a category twice or an unknown category.
        """
        if unknown := [name for name in classes if name not in self.categories]:
            raise UnknownName(f"{self.title} has no category {unknown[0]!r}", unknown[0], self.categories)
        numbers = {self.categories[name]: place for name, place in number_classes(classes).items()}
        if not classes:
            numbers = {number: number for number in self.categories.values()}
        labels = np.empty(len(self.images), dtype=object)
        for place, image in enumerate(self.images):
            held = image.categories.tolist()
            if other := [name for name, number in self.categories.items() if number in held and number not in numbers]:
                message = f"{self.title}: a box in {image.name} is of category {other[0]!r}, which is none of `classes`"
                raise UsageError(message)
            scale = np.array([size[1] / image.size[0], size[0] / image.size[1]] * 2)
            known = np.array([numbers[number] for number in held], np.int64)
            labels[place] = {"xywh": image.boxes * scale, "classes": known, "crowd": image.crowd}
        return labels


def read_annotations(path: Path, title: str) -> Annotations:
    """Return the content of a COCO file.

    Raises:
        UsageError: if it is none, lists no images, or has boxes of images or categories that it does not list.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        categories = {str(category["name"]): int(category["id"]) for category in content["categories"]}
        images = _parse_images(content, categories)
    except (OSError, ValueError, TypeError, KeyError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{title} is not a file of COCO annotations", why=why) from error
    if not images:
        raise UsageError(f"{title} lists no images")
    return Annotations(title, images, categories)


def _parse_images(content: Mapping[str, Any], categories: Mapping[str, int]) -> list[Annotated]:
    boxes: dict[Any, list[Mapping[str, Any]]] = {image["id"]: [] for image in content["images"]}
    for annotation in content["annotations"]:
        for part, known in (("image", boxes), ("category", categories.values())):
            if (number := annotation[f"{part}_id"]) not in known:
                raise ValueError(f"a box is of {part} {number}, which it does not list")
        boxes[annotation["image_id"]].append(annotation)
    return [_parse_image(image, boxes[image["id"]]) for image in content["images"]]


def _parse_image(image: Mapping[str, Any], annotations: Sequence[Mapping[str, Any]]) -> Annotated:
    return Annotated(
        name=image["file_name"],
        size=(float(image["width"]), float(image["height"])),
        boxes=np.array([annotation["bbox"] for annotation in annotations], np.float64).reshape(-1, 4),
        categories=np.array([annotation["category_id"] for annotation in annotations], np.int64),
        crowd=np.array([annotation.get("iscrowd", 0) for annotation in annotations], bool),
    )
