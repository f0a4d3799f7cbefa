"""What a pipeline file says of the values that an input of a model takes."""

from __future__ import annotations

from typing import Annotated, Literal

from orun.stages.params import Doc

DType = Literal["float32", "float16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]

Low = Annotated[float | None, Doc("Smallest value that the model takes; 0 for integers when left out.")]
High = Annotated[float | None, Doc("Largest value that the model takes; 1 for integers when left out.")]
Fill = Annotated[
    Literal["random", "mask"],
    Doc("`mask` for an attention mask: 0 and 1, and at least one 1 along the last axis."),
]
