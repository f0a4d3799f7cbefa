"""The parameters of a stage kind: declared once as a frozen dataclass, read by schema, docs, key and run.

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
    """`file.py:function`, relative to the pipeline file. What the function's file holds is in the key."""

    __slots__ = ()


class FilePath(str):
    """A file or folder, relative to the pipeline file. Its content is in the key."""

    __slots__ = ()


class TargetName(str):
    """The name of an entry of `targets`."""

    __slots__ = ()


class Duration(float):
    """Seconds; written as `12ms`, `1.5s`, `2min`."""

    __slots__ = ()


class Size(int):
    """Bytes; written as `300MB`, `1.5GiB`."""

    __slots__ = ()


class Ratio(float):
    """A proportion; written as `5%` or `0.05`."""

    __slots__ = ()


class Doc(Record, frozen=True):
    """What a parameter does: one or two sentences for the user."""

    text: str


class Range(Record, frozen=True):
    """Closed bounds of a number."""

    low: float | None = None
    high: float | None = None


class WithUnit(Record, frozen=True):
    """Of a duration that other tools have as a count of runs: a plain number, which could be either, is refused."""


TypeName = Literal[
    "bool", "int", "float", "str", "code", "path", "target", "duration", "size", "ratio", "any",
    "literal", "list", "map", "object", "union",
]  # fmt: skip

MARKERS: Mapping[type, TypeName] = {
    bool: "bool", int: "int", float: "float", str: "str",
    Code: "code", FilePath: "path", TargetName: "target", Duration: "duration", Size: "size", Ratio: "ratio",
}  # fmt: skip

REQUIRED = object()  # the default of a field that has none


class ParamType(Record, frozen=True):
    """The type of a parameter as plain data.

    Attributes:
        name: which type.
        optional: whether null is allowed.
        choices: the values of a `literal`.
        items: the element of a `list`, the value of a `map`, or the members of a `union`.
        fields: the fields of an `object`.
        range: bounds of a number.
        with_unit: whether a `duration` cannot be a plain number but 0.
    """

    name: TypeName
    optional: bool = False
    choices: tuple[str | int | bool, ...] = ()
    items: tuple[ParamType, ...] = ()
    fields: tuple[Param, ...] = ()
    range: Range = Range()
    with_unit: bool = False


class Param(Record, frozen=True):
    """One parameter: name, type, default (`REQUIRED` when there is none) and what it does."""

    name: str
    type: ParamType
    default: Any
    doc: str

    @property
    def required(self) -> bool:
        """Whether the file must set it."""
        return self.default is REQUIRED


def params_of(cls: type) -> tuple[Param, ...]:
    """The parameters that a frozen dataclass declares, in order.

    Raises:
        TypeError: when a field has a type that a pipeline file cannot write.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(_param(field, hints[field.name]) for field in dataclasses.fields(cls))


def _param(field: dataclasses.Field[Any], hint: Any) -> Param:
    default: Any = REQUIRED
    if field.default is not dataclasses.MISSING:
        default = field.default
    elif field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    doc = next((extra.text for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Doc)), "")
    return Param(field.name, type_of(hint), default, doc)


def type_of(hint: Any) -> ParamType:
    """The parameter type of a Python annotation; raises TypeError for one that a file cannot write."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        bounds = next((extra for extra in hint.__metadata__ if isinstance(extra, Range)), Range())
        with_unit = any(isinstance(extra, WithUnit) for extra in hint.__metadata__)
        return replace(type_of(arguments[0]), range=bounds, with_unit=with_unit)
    if hint is Any:
        return ParamType("any")
    if isinstance(hint, type) and hint in MARKERS:
        return ParamType(MARKERS[hint])
    if origin is Literal:
        return ParamType("literal", choices=arguments)
    if origin is list:
        return ParamType("list", items=(type_of(arguments[0]),))
    if origin is dict and arguments[0] is str:
        return ParamType("map", items=(type_of(arguments[1]),))
    if origin in (types.UnionType, typing.Union):
        return _union(arguments)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return ParamType("object", fields=params_of(hint))
    raise TypeError(f"a pipeline file cannot write a {hint!r}")


def _union(members: tuple[Any, ...]) -> ParamType:
    kept = [type_of(member) for member in members if member is not type(None)]
    optional = len(kept) < len(members)
    if len(kept) == 1:
        return replace(kept[0], optional=optional)
    return ParamType("union", optional=optional, items=tuple(kept))


T = TypeVar("T")


def build(cls: type[T], values: Mapping[str, Any]) -> T:
    """An instance of the parameter class from the resolved plain values of a pipeline.

    Values are trusted: the pipeline was validated before. Nested objects are built as their classes.
    """
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
        return _convert(members[0] if len(members) == 1 else _mapping_member(members, value), value)
    return value


def _mapping_member(members: list[Any], value: Any) -> Any:
    """The member of a union that a mapping is an instance of; no type where the value needs no building."""
    if not isinstance(value, Mapping):
        return None
    for member in members:
        if isinstance(member, type) and dataclasses.is_dataclass(member):
            required = {param.name for param in params_of(member) if param.required}
            if required <= value.keys() <= {field.name for field in dataclasses.fields(member)}:
                return member
    return next((member for member in members if typing.get_origin(member) is dict), None)
