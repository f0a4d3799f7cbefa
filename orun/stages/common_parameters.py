"""Parameters of several kinds: values of an input, targets, sizes and tolerance of comparisons, nodes to leave out."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from orun.stages.params import Doc, Range, TargetName

DType = Literal["float32", "float16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]

Low = Annotated[float | None, Doc("Smallest value of the input; 0 for integers when left out.")]
High = Annotated[
    float | None, Doc("Largest value of the input; 1 for integers when left out, 255 for images of `uint8`.")
]
FillName: TypeAlias = Literal["random", "mask", "right-padded"]
Fill = Annotated[
    FillName,
    Doc(
        "`mask` for an attention mask: 0 and 1, and at least one 1 along the last axis; `right-padded` for a mask "
        "whose ones come first, because padding follows the text."
    ),
]

ExternalData = Annotated[
    Literal["auto", "always"], Doc("When to store weights in a second file: `auto` if one file cannot hold them.")
]
ModelTarget = Annotated[TargetName | None, Doc("Target of the models; the CPU when left out.")]
ReferenceTarget = Annotated[
    TargetName | None, Doc("Target of the references, which may have another environment; `target` when left out.")
]
MadeUpDims = Annotated[
    dict[str, list[int]],
    Doc(
        "For made-up examples: sizes of each dynamic axis by its name; when left out 1, 2 and 7, and for the height "
        "and width of images in color also 64 and 48."
    ),
]
Dims = Annotated[
    dict[str, list[int]],
    Doc(
        "Sizes to try for each dynamic axis, by its name; when left out, those of the model's input domain, or 1, 2 "
        "and 7, and for the height and width of images in color also 64 and 48."
    ),
]
Atol = Annotated[float, Doc("Largest allowed absolute error, in addition to `rtol` times the value."), Range(0)]
Rtol = Annotated[float, Doc("Largest allowed relative error, in addition to `atol`."), Range(0)]
Excluded = Annotated[list[str], Doc("Names of nodes to leave as they are.")]
Preprocess = Annotated[bool, Doc("Fold constants and batch normalizations first, by ONNX Runtime at level `basic`.")]
