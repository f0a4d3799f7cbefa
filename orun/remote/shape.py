"""Whether foreign data has the shape of a dataclass: what our own records need not be asked, others' must be."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
import unicodedata
from collections.abc import Mapping
from typing import Any, Literal


def conforms(value: Any, hint: Any) -> bool:
    """Whether a decoded value is of the type that a hint says, all the way down."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(conforms(value, member) for member in arguments)
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(conforms(item, arguments[0]) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        pairs = value.items() if isinstance(value, dict) else None
        return pairs is not None and all(is_plain(name) and conforms(item, arguments[1]) for name, item in pairs)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        fields = _hints(hint)
        return isinstance(value, hint) and all(conforms(getattr(value, name), one) for name, one in fields.items())
    if hint is str:
        return is_plain(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def is_plain(text: Any) -> bool:
    """Whether it is a text without control characters, which could act on a terminal, and that has a UTF-8 form."""
    return isinstance(text, str) and not any(unicodedata.category(one) in ("Cc", "Cs") for one in text)


@functools.cache
def _hints(cls: type) -> Mapping[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
