"""Declarations of edits whose value in a pipeline file has keys of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from orun.stages.params import Doc, Range

OTHER = "other"  # port of the model that is merged
Nodes = Annotated[list[str], Doc("Nodes, by name or by the name of their first output.")]
OpTypes = Annotated[list[str], Doc("All nodes of these operators.")]


@dataclass(frozen=True)
class InputType:
    """New type of an input: it is cast to the former one, then normalized."""

    dtype: Annotated[
        Literal["uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64", "bool"],
        Doc("Type of the input from now on."),
    ]
    scale: Annotated[float, Doc("Factor after the cast: 0.00392156862745098 takes bytes to 0 to 1.")] = 1.0
    mean: Annotated[list[float], Doc("Then this is subtracted: a number, or one for each channel.")] = field(
        default_factory=list
    )
    std: Annotated[list[float], Doc("Then this divides: a number, or one for each channel.")] = field(
        default_factory=list
    )
    axis: Annotated[int, Doc("Axis of the channels."), Range(0)] = 1


@dataclass(frozen=True)
class Remove:
    """Nodes to remove: what they get first takes the place of what they yield."""

    nodes: Nodes = field(default_factory=list)
    op_types: OpTypes = field(default_factory=list)


@dataclass(frozen=True)
class Replace:
    """Nodes whose operator is replaced; inputs and outputs stay."""

    by: Annotated[str, Doc("The new operator.")]
    nodes: Nodes = field(default_factory=list)
    op_types: OpTypes = field(default_factory=list)
    domain: Annotated[str, Doc("Its domain, such as `com.microsoft`; that of ONNX when left out.")] = ""
    attributes: Annotated[
        dict[str, Any] | None, Doc("Its attributes; those of the former operator that it has too when left out.")
    ] = None


@dataclass(frozen=True)
class Extract:
    """A piece of the model, between values."""

    inputs: Annotated[
        list[str], Doc("Values that the piece takes; inputs of the model that it needs besides are kept.")
    ] = field(default_factory=list)
    outputs: Annotated[list[str], Doc("Values that it yields; the model's outputs when left out.")] = field(
        default_factory=list
    )


@dataclass(frozen=True)
class Merge:
    """The model at the port `other`, put after or before this one."""

    connect: Annotated[
        dict[str, str], Doc("Outputs of the first model, each with the input of the second that it feeds.")
    ]
    place: Annotated[Literal["after", "before"], Doc("Where `other` goes.")] = "after"
    prefix: Annotated[
        str, Doc("Put before every name in `other`, its inputs and outputs included; needed where names collide.")
    ] = ""
    share: Annotated[list[str], Doc("Inputs that both models have, and that become one; with `prefix`.")] = field(
        default_factory=list
    )
