"""Parameters that several kinds have: values of an input, targets, operators to quantize."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from orun.stages.params import Doc, TargetName

DType = Literal["float32", "float16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]

Low = Annotated[float | None, Doc("Smallest value that the model takes; 0 for integers when left out.")]
High = Annotated[float | None, Doc("Largest value that the model takes; 1 for integers when left out.")]
PADDED: Literal["right-padded"] = "right-padded"
FillName: TypeAlias = Literal["random", "mask", "right-padded"]
Fill = Annotated[
    FillName,
    Doc(
        "`mask` for an attention mask: 0 and 1, and at least one 1 along the last axis; `right-padded` for one whose "
        "ones stand in front, as where padding is only behind the text."
    ),
]

ExternalData = Annotated[
    Literal["auto", "always"], Doc("Weights in a file beside the model: `auto` when one file cannot hold them.")
]
Where = Annotated[TargetName | None, Doc("Where the models run; the CPU when left out.")]
WhereReferences = Annotated[
    TargetName | None, Doc("Where the references run, in another environment if need be; `target` when left out.")
]
MadeUpDims = Annotated[
    dict[str, list[int]],
    Doc("For examples that are made up: sizes of each dynamic axis by its name; 1, 2 and 7 when left out."),
]
Excluded = Annotated[list[str], Doc("Names of nodes to leave as they are.")]
Preprocess = Annotated[bool, Doc("Let ONNX Runtime fold constants and batch normalisations first (its level `basic`).")]
