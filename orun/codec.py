"""Frozen dataclasses to plain JSON data and back, by their type hints: how records are kept on disk."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

T = TypeVar("T")
Decoder = Callable[[Any], Any]

_PLAIN = frozenset({str, int, bool, type(None)})


def encode(value: Any) -> Any:
    """Plain data (dict, list, str, number, bool, None) of a dataclass or a container of them.

    Fields that hold their default are left out, so that records stay short and a new field with a default can read
    old records. Numbers that are not finite, for which JSON has no word, become the texts `inf`, `-inf` and `nan`.
    """
    kind: type = type(value)
    if kind in _PLAIN:  # most of what records hold: not looked at any further
        return value
    if _is_record(kind):
        return {name: encode(item) for name, default in _defaults(kind) if (item := getattr(value, name)) != default}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, Path) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value


def decode(cls: type[T], data: Any) -> T:
    """The inverse of `encode`.

    Raises:
        TypeError, KeyError, ValueError: when the data is not of that shape.
    """
    result: T = _decoder(typing.cast("Any", cls))(data)
    return result


@functools.cache
def _is_record(kind: type) -> bool:
    return dataclasses.is_dataclass(kind)


@functools.cache
def _defaults(cls: type) -> tuple[tuple[str, Any], ...]:
    fields: list[tuple[str, Any]] = []
    for field in dataclasses.fields(cls):
        factory = field.default_factory
        fields.append((field.name, field.default if factory is dataclasses.MISSING else factory()))
    return tuple(fields)


@functools.cache
def _decoder(hint: Any) -> Decoder:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass_decoder(hint)
    if origin in (types.UnionType, typing.Union):
        return _union_decoder(arguments)
    if origin is tuple:
        return _sequence_decoder(arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        item = _decoder(arguments[1])
        return lambda data: {key: item(value) for key, value in data.items()}
    if hint in (Path, float):
        return typing.cast("Decoder", hint)
    if hint is Any or origin is Literal or hint in (str, int, bool):
        return _as_it_is
    raise TypeError(f"a record cannot hold a {hint!r}")


def _dataclass_decoder(cls: type) -> Decoder:
    hints = typing.get_type_hints(cls)
    decoders = {field.name: _decoder(hints[field.name]) for field in dataclasses.fields(cls)}
    made = {name: decoder for name, decoder in decoders.items() if decoder is not _as_it_is}

    def decode_fields(data: Any) -> Any:
        return cls(**{**data, **{name: decoder(data[name]) for name, decoder in made.items() if name in data}})

    return decode_fields


def _as_it_is(data: Any) -> Any:
    return data


def _union_decoder(members: tuple[Any, ...]) -> Decoder:
    kept = [member for member in members if member is not type(None)]
    if len(kept) != 1:
        return _chosen_decoder(kept) if all(map(dataclasses.is_dataclass, kept)) else _as_it_is
    decoder = _decoder(kept[0])
    return lambda data: None if data is None else decoder(data)


def _chosen_decoder(classes: list[type]) -> Decoder:
    """Of the one class whose fields the data has; found when there is data, because classes may hold one another."""
    every = {cls: {field.name for field in dataclasses.fields(cls)} for cls in classes}

    def decode_one(data: Any) -> Any:
        fitting = [cls for cls, names in every.items() if data.keys() <= names]
        if not fitting:
            raise TypeError(f"no {' or '.join(cls.__name__ for cls in classes)} has the fields {', '.join(data)}")
        return _decoder(fitting[0])(data)

    return decode_one


def _sequence_decoder(members: tuple[Any, ...]) -> Decoder:
    if members[-1] is Ellipsis:
        item = _decoder(members[0])
        return lambda data: tuple(item(value) for value in data)
    decoders = tuple(_decoder(member) for member in members)
    return lambda data: tuple(decoder(value) for decoder, value in zip(decoders, data, strict=True))
