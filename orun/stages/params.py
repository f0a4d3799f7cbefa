"""Parameters of a stage kind: declared once as a frozen dataclass, read by schema, docs, key and run.

    @dataclass(frozen=True)
    class Params:
        per_channel: Annotated[bool, Doc("One scale for each output channel.")] = False
        level: Annotated[int, Doc("How hard to try."), Range(1, 9)] = 3

Fields may be bool, int, float, str, `Literal[...]`, `list[T]`, `dict[str, T]`, `T | None`, `int | str`, another such
dataclass, or one of the marker types below.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from orun.core.serialization import Record, replace


class Code(str):
    """`file.py:function`, relative to the pipeline file. The content of the file is in the key."""

    __slots__ = ()


class FilePath(str):
    """File or folder, relative to the pipeline file. Its content is in the key."""

    __slots__ = ()


class TargetName(str):
    """Name of an entry of `targets`."""

    __slots__ = ()


class Duration(float):
    """Seconds; written as `12ms`, `1.5s`, `2min`."""

    __slots__ = ()


class Size(int):
    """Bytes; written as `300MB`, `1.5GiB`."""

    __slots__ = ()


class Ratio(float):
    """Proportion; written as `5%` or `0.05`."""

    __slots__ = ()


class Doc(Record, frozen=True):
    """Description of a parameter for the user, in one or two sentences."""

    text: str


class Range(Record, frozen=True):
    """Closed bounds of a number."""

    low: float | None = None
    high: float | None = None


class WithUnit(Record, frozen=True):
    """Mark of a duration that other tools express as a number of runs: a plain number is ambiguous and refused."""


class OneKey(Record, frozen=True):
    """Mark of an object of which a file sets exactly one field, such as an item of a list that may be of many kinds."""


TypeName = Literal[
    "bool", "int", "float", "str", "code", "path", "target", "duration", "size", "ratio", "any",
    "literal", "list", "map", "object", "union",
]  # fmt: skip

MARKERS: Mapping[type, TypeName] = {
    bool: "bool", int: "int", float: "float", str: "str",
    Code: "code", FilePath: "path", TargetName: "target", Duration: "duration", Size: "size", Ratio: "ratio",
}  # fmt: skip

REQUIRED = object()  # default of a field without one


class ParamType(Record, frozen=True):
    """Type of a parameter as plain data.

    Attributes:
        name: name of the type.
        optional: whether null is allowed.
        choices: values of a `literal`.
        items: type of the elements of a `list` or the values of a `map`, or the members of a `union`.
        fields: fields of an `object`.
        range: bounds of a number.
        with_unit: whether a `duration` needs a unit unless it is 0.
        one_key: whether exactly one field of an `object` is set.
    """

    name: TypeName
    optional: bool = False
    choices: tuple[str | int | bool, ...] = ()
    items: tuple[ParamType, ...] = ()
    fields: tuple[Param, ...] = ()
    range: Range = Range()
    with_unit: bool = False
    one_key: bool = False


class Param(Record, frozen=True):
    """Parameter: name, type, default (`REQUIRED` if there is none) and description."""

    name: str
    type: ParamType
    default: Any
    doc: str

    @property
    def required(self) -> bool:
        """Whether the pipeline file must set it."""
        return self.default is REQUIRED


def list_params(cls: type) -> tuple[Param, ...]:
    """Return the parameters that a frozen dataclass declares, in order.

    Raises:
        TypeError: when a pipeline file cannot hold values of a field's type.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(_build_param(field, hints[field.name]) for field in dataclasses.fields(cls))


def _build_param(field: dataclasses.Field[Any], hint: Any) -> Param:
    default: Any = REQUIRED
    if field.default is not dataclasses.MISSING:
        default = field.default
    elif field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    return Param(field.name, convert_type(hint), default, find_doc(hint))


def find_doc(hint: Any) -> str:
    """Return the text of the `Doc` of a Python annotation; empty if it has none."""
    return next((str(extra.text) for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Doc)), "")


def convert_type(hint: Any) -> ParamType:
    """Return the parameter type of a Python annotation; raise TypeError if a pipeline file cannot hold such values."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        bounds = next((extra for extra in hint.__metadata__ if isinstance(extra, Range)), Range())
        with_unit, one_key = (
            any(isinstance(extra, mark) for extra in hint.__metadata__) for mark in (WithUnit, OneKey)
        )
        return replace(convert_type(arguments[0]), range=bounds, with_unit=with_unit, one_key=one_key)
    if hint is Any:
        return ParamType("any")
    if isinstance(hint, type) and hint in MARKERS:
        return ParamType(MARKERS[hint])
    if origin is Literal:
        return ParamType("literal", choices=arguments)
    if origin is list:
        return ParamType("list", items=(convert_type(arguments[0]),))
    if origin is dict and arguments[0] is str:
        return ParamType("map", items=(convert_type(arguments[1]),))
    if origin in (types.UnionType, typing.Union):
        return _build_union(arguments)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return ParamType("object", fields=list_params(hint))
    raise TypeError(f"a pipeline file cannot write a {hint!r}")


def _build_union(members: tuple[Any, ...]) -> ParamType:
    kept = [convert_type(member) for member in members if member is not type(None)]
    optional = len(kept) < len(members)
    if len(kept) == 1:
        return replace(kept[0], optional=optional)
    return ParamType("union", optional=optional, items=tuple(kept))


T = TypeVar("T")


def build(cls: type[T], values: Mapping[str, Any]) -> T:
    """Build a parameter class, and nested ones, from the resolved plain values of a validated pipeline."""
    hints = typing.get_type_hints(cls)
    return cls(**{name: _convert(hints[name], value) for name, value in values.items()})


def _convert(hint: Any, value: Any) -> Any:
    arguments = typing.get_args(hint)
    if value is None:
        return None
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return build(hint, value)
    if typing.get_origin(hint) is list:
        return [_convert(arguments[0], item) for item in value]
    if typing.get_origin(hint) is dict:
        return {key: _convert(arguments[1], item) for key, item in value.items()}
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        members = [member for member in arguments if member is not type(None)]
        return _convert(members[0] if len(members) == 1 else _choose_member(members, value), value)
    return value


def _choose_member(members: list[Any], value: Any) -> Any:
    """Return the member of a union that a mapping belongs to; None if the value needs no conversion."""
    if not isinstance(value, Mapping):
        return None
    for member in members:
        if isinstance(member, type) and dataclasses.is_dataclass(member):
            required = {param.name for param in list_params(member) if param.required}
            if required <= value.keys() <= {field.name for field in dataclasses.fields(member)}:
                return member
    return next((member for member in members if typing.get_origin(member) is dict), None)
