"""Declaration of a dataset that lies in files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from orun.stages.params import Code, Doc, FilePath, Range

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LABELS = "labels"  # the array or column that holds the labels, unless the file says which

DType = Literal["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "text"]


@dataclass(frozen=True)
class Images:
    """How images become the values of an input; the defaults are those that models of ImageNet are trained with."""

    input: Annotated[str, Doc("The model's input that takes the images.")]
    size: Annotated[list[int], Doc("Height and width that the model takes.")] = field(
        default_factory=lambda: [224, 224]
    )
    resize: Annotated[
        int | None,
        Doc("Length that the shorter side is brought to before the middle is cut out; null squeezes to `size`."),
        Range(1),
    ] = 256
    resample: Annotated[Literal["bilinear", "bicubic", "nearest", "lanczos"], Doc("How pixels are interpolated.")] = (
        "bilinear"
    )
    channels: Annotated[Literal["rgb", "grey"], Doc("Colours of the result.")] = "rgb"
    scale: Annotated[float, Doc("What pixels, 0 to 255, are multiplied with first.")] = 1 / 255
    mean: Annotated[list[float], Doc("Then subtracted, for each channel.")] = field(
        default_factory=lambda: list(IMAGENET_MEAN)
    )
    std: Annotated[list[float], Doc("Then divided by, for each channel.")] = field(
        default_factory=lambda: list(IMAGENET_STD)
    )
    layout: Annotated[Literal["nchw", "nhwc"], Doc("Order of the axes.")] = "nchw"


@dataclass(frozen=True)
class Text:
    """How texts become the inputs of a model: by a tokenizer of `transformers`."""

    tokenizer: Annotated[FilePath, Doc("Folder of the tokenizer, as `save_pretrained` leaves it.")]
    column: Annotated[str, Doc("Column of the texts; a .txt file has none, its lines are the texts.")] = "text"
    pair: Annotated[str | None, Doc("Column of the second texts, for models that read two.")] = None
    length: Annotated[int | None, Doc("Tokens at most; what the tokenizer itself says when left out."), Range(1)] = None
    pad: Annotated[bool, Doc("Fill every text up to `length`; each keeps its own length when false.")] = False


@dataclass(frozen=True)
class Source:
    """A dataset in files."""

    path: Annotated[
        FilePath,
        Doc("A .npz, .npy, .safetensors, .csv, .parquet or .txt file, or a folder of images, by class or not."),
    ]
    inputs: Annotated[
        dict[str, str | list[str]],
        Doc(
            "Array or column for each input of the model; several columns are joined, `*` is all that have no use yet."
        ),
    ] = field(default_factory=dict)
    labels: Annotated[str, Doc("Array or column that holds the labels, where there is one.")] = LABELS
    classes: Annotated[
        list[str], Doc("Names of the classes in the order of the model's scores, where the labels are names.")
    ] = field(default_factory=list)
    fields: Annotated[
        list[str], Doc("Arrays or columns that are no inputs, but what `slices` of `measure/accuracy` go by.")
    ] = field(default_factory=list)
    types: Annotated[
        dict[str, DType], Doc("Type of an input's values; that in the file when left out, but `float32` for `float64`.")
    ] = field(default_factory=dict)
    missing: Annotated[
        Literal["refuse", "nan"],
        Doc("What an empty cell in a column of numbers is: a mistake, or NaN for a model that takes that."),
    ] = "refuse"
    images: Annotated[Images | None, Doc("For a folder of images: how they are prepared.")] = None
    text: Annotated[Text | None, Doc("For a table or a .txt file: how its texts are tokenized.")] = None


Examples: TypeAlias = Code | FilePath | Source
"""A function that returns an `orun.Dataset`, a file, or a file with what is to be done with it."""
