"""Records: frozen classes of plain data, and their JSON.

They are msgspec's structs. A class of them is made in a thirtieth of the time that a dataclass takes, which every run
pays for each class that it imports (1 ms each), and reading one checks the type of every field.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
from msgspec import field, structs

__all__ = ["Record", "decode", "encode", "field", "from_json", "parse_foreign_json", "replace", "to_json"]

T = TypeVar("T")

_PLAIN = frozenset({str, int, bool, type(None)})
_NOT_FINITE = frozenset({"inf", "-inf", "nan"})
MAX_DEPTH = 64  # lists and objects in one another in a document that others wrote
TOO_DEEP = "its lists and objects are nested too deep"


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base class of all records. Each repeats `frozen=True` for type checkers."""


def encode(value: Any) -> Any:
    """Return the plain data (dict, list, str, number, bool, None) of a record, a dataclass or a container of them.

    Fields that hold their default are left out, so that records stay short and a new field with a default can read
    old records. Numbers that are not finite, for which JSON has no word, become the texts `inf`, `-inf` and `nan`.
    """
    kind: type = type(value)
    if kind in _PLAIN:  # most of what records hold: not looked at any further
        return value
    if kind is dict:
        return {str(key): encode(item) for key, item in value.items()}
    if kind is tuple or kind is list:
        return [encode(item) for item in value]
    if (defaults := _list_defaults(kind)) is not None:
        return {name: encode(item) for name, default in defaults if (item := getattr(value, name)) != default}
    if isinstance(value, Mapping):
        return encode(dict(value))
    if isinstance(value, (list, tuple)):
        return encode(list(value))
    if isinstance(value, (Path, str)) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value


def decode(cls: type[T], data: Any) -> T:
    """Return the record of a class from its plain data.

    Raises:
        ValueError: if the data does not have that shape.
    """
    try:
        return msgspec.convert(data, cls, dec_hook=_decode_path)
    except msgspec.ValidationError:  # perhaps for the text of a number that is not finite
        value = msgspec.convert(data, cls, strict=False, dec_hook=_decode_path)
        if not _has_same_types(data, value):
            raise
        return value


def to_json(data: Any) -> bytes:
    """Return encoded data as JSON on one line."""
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:  # the name of a file that is not UTF-8
        return json.dumps(data, separators=(",", ":")).encode("ascii")


def from_json(text: bytes) -> Any:
    """Return the data in a JSON text; ValueError if it is not JSON, or is nested too deep."""
    try:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:  # perhaps for such a name (see `to_json`)
            return json.loads(text)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error


def parse_foreign_json(text: bytes) -> Any:
    """Return the data in a JSON text that others wrote, nested no deeper than recursive code can follow.

    Raises:
        ValueError: if it is not JSON, or is nested more than `MAX_DEPTH` deep.
    """
    data = from_json(text)
    level = [data]
    for _ in range(MAX_DEPTH + 1):
        level = [item for container in level for item in _list_items(container)]
        if not level:
            return data
    raise ValueError(TOO_DEEP)


def _list_items(data: Any) -> Iterable[Any]:
    if isinstance(data, dict):
        return data.values()
    return data if isinstance(data, list) else ()


def replace(value: T, /, **changes: Any) -> T:
    """Return a copy of a record or dataclass with other values in some fields."""
    copy: Any = structs.replace if isinstance(value, msgspec.Struct) else dataclasses.replace
    return cast("T", copy(value, **changes))


def _has_same_types(data: Any, value: Any) -> bool:
    """Return whether plain data kept its types, apart from the texts of numbers that are not finite."""
    if isinstance(data, dict):
        items = value if isinstance(value, dict) else structs.asdict(value)
        return all(_has_same_types(item, items[name]) for name, item in data.items())
    if isinstance(data, list):
        return all(map(_has_same_types, data, value))
    if isinstance(data, str):
        return isinstance(value, (str, Path)) or data in _NOT_FINITE
    return isinstance(data, bool) == isinstance(value, bool)


def _decode_path(kind: type, data: Any) -> Any:
    if kind is Path:
        return Path(data)
    raise TypeError(f"a record cannot hold a {kind!r}")


@functools.cache
def _list_defaults(cls: type) -> tuple[tuple[str, Any], ...] | None:
    """Return the fields of a record or a dataclass with their defaults; None for every other class."""
    if issubclass(cls, msgspec.Struct):
        every: tuple[Any, ...] = structs.fields(cls)
    elif dataclasses.is_dataclass(cls):
        every = dataclasses.fields(cls)
    else:
        return None
    none = (msgspec.NODEFAULT, dataclasses.MISSING)
    return tuple(
        (item.name, item.default if item.default_factory in none else item.default_factory()) for item in every
    )
