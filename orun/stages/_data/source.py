"""Declaration of a dataset in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from orun.errors import UsageError
from orun.stages.params import Code, Doc, FilePath, Range

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LABELS = "labels"  # default name of the array or column of labels

DType = Literal["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "text"]


@dataclass(frozen=True)
class Images:
    """Preparation of images for an input; the defaults are those of models trained on ImageNet."""

    input: Annotated[str, Doc("Input of the model for the images.")]
    size: Annotated[list[int], Doc("Height and width of the input.")] = field(default_factory=lambda: [224, 224])
    resize: Annotated[
        int | None,
        Doc("Length of the shorter side before the centre is cropped; null resizes to `size` directly."),
        Range(1),
    ] = 256
    resample: Annotated[Literal["bilinear", "bicubic", "nearest", "lanczos"], Doc("How pixels are interpolated.")] = (
        "bilinear"
    )
    channels: Annotated[Literal["rgb", "grey"], Doc("Colours of the result.")] = "rgb"
    scale: Annotated[float, Doc("Factor that pixels, 0 to 255, are multiplied by first.")] = 1 / 255
    mean: Annotated[list[float], Doc("Value of each channel that is then subtracted.")] = field(
        default_factory=lambda: list(IMAGENET_MEAN)
    )
    std: Annotated[list[float], Doc("Value of each channel to divide by last.")] = field(
        default_factory=lambda: list(IMAGENET_STD)
    )
    layout: Annotated[Literal["nchw", "nhwc"], Doc("Order of the axes.")] = "nchw"


@dataclass(frozen=True)
class Text:
    """Preparation of texts by a tokenizer of `transformers`."""

    tokenizer: Annotated[FilePath, Doc("Folder of the tokenizer, from `save_pretrained`.")]
    column: Annotated[str, Doc("Column of the texts; in a .txt file each line is a text.")] = "text"
    pair: Annotated[str | None, Doc("Column of the second texts, for models that read two.")] = None
    length: Annotated[int | None, Doc("Most tokens; the tokenizer's own limit when left out."), Range(1)] = None
    pad: Annotated[bool, Doc("Pad every text to `length`; each keeps its own length when false.")] = False


@dataclass(frozen=True)
class Source:
    """A dataset in files."""

    path: Annotated[
        FilePath,
        Doc(
            "A .npz, .npy, .safetensors, .csv, .tsv, .jsonl, .ndjson, .parquet or .txt file, or a folder of images, by "
            "class or not."
        ),
    ]
    inputs: Annotated[
        dict[str, str | list[str]],
        Doc(
            "Array or column for each input of the model; several columns are joined; `*` stands for all without "
            "another use."
        ),
    ] = field(default_factory=dict)
    labels: Annotated[str, Doc("Array or column of the labels, if there is one.")] = LABELS
    classes: Annotated[
        list[str],
        Doc("Names of labels, class folders or categories of COCO, in the order of the model's scores."),
    ] = field(default_factory=list)
    fields: Annotated[
        list[str],
        Doc(
            "Arrays or columns for `slices` of `measure/accuracy`; they are inputs only where the model or `inputs` "
            "names them."
        ),
    ] = field(default_factory=list)
    types: Annotated[
        dict[str, DType],
        Doc(
            "Type of an input's values; the file's type when left out, but `float32` for `float64` and for pixels of "
            "images."
        ),
    ] = field(default_factory=dict)
    missing: Annotated[
        Literal["refuse", "nan"],
        Doc("What an empty cell means: an error, or NaN among numbers and the empty text among texts."),
    ] = "refuse"
    images: Annotated[Images | None, Doc("For a folder of images: their preparation.")] = None
    annotations: Annotated[
        FilePath | None,
        Doc(
            "For a folder of images: a COCO file. It lists the images, and its boxes are the labels, in pixels of the "
            "input; it takes `resize: null`."
        ),
    ] = None
    text: Annotated[Text | None, Doc("For a table or a .txt file: tokenization of its texts.")] = None


Examples: TypeAlias = Code | FilePath | Source
"""A function that returns an `orun.Dataset`, a file, or a file with its preparation."""


def to_source(examples: Examples) -> Source:
    """Return the declaration of a dataset in files; a path alone has no options."""
    return examples if isinstance(examples, Source) else Source(FilePath(examples))


def number_classes(names: Sequence[str]) -> dict[str, int]:
    """Return the number of each class: the position of its name.

    Raises:
        UsageError: when a name is there twice.
    """
    numbers = {name: number for number, name in enumerate(names)}
    if twice := [name for name in numbers if names.count(name) > 1]:
        raise UsageError(
            f"`classes` names {', '.join(twice)} twice", why="the position of a name is the position of its score"
        )
    return numbers
