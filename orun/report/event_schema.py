"""The form of the event log, from the classes of the events: as a JSON Schema, and as rows for the documentation."""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeGuard

from msgspec import structs

from orun.core.events import KINDS, VERSION, name_kind
from orun.core.serialization import Record

ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*)$")
PLAIN: Mapping[Any, tuple[str, dict[str, Any]]] = {
    str: ("text", {"type": "string"}),
    Path: ("path", {"type": "string"}),
    int: ("integer", {"type": "integer"}),
    bool: ("boolean", {"type": "boolean"}),
    float: ("number", {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}),
}


@dataclass(frozen=True)
class Field:
    """A field of an event, or of a record in one: its type in words and as a schema, and whether it may be left out."""

    name: str
    type_text: str
    schema: Mapping[str, Any]
    doc: str
    optional: bool


@functools.cache
def list_fields(cls: type) -> tuple[Field, ...]:
    """Return the fields of a class in order; LookupError when its docstring leaves one out."""
    hints, docs = typing.get_type_hints(cls), _parse_docs(cls)
    return tuple(
        Field(item.name, *_describe_type(hints[item.name]), docs[item.name], not item.required)
        for item in structs.fields(cls)
    )


def list_records() -> tuple[type, ...]:
    """Return the classes that the events are made of, each once, those nearest to the events first."""
    records_: dict[type, None] = {}
    waiting: list[Any] = list(KINDS)
    while waiting:
        for hint in typing.get_type_hints(waiting.pop(0)).values():
            for cls in _iter_classes(hint):
                if cls not in records_:
                    records_[cls] = None
                    waiting.append(cls)
    return tuple(records_)


def build() -> dict[str, Any]:
    """Return the JSON Schema (draft 7) of one line of the log."""
    envelope = {"version": {"const": VERSION}, "event": {}, "time": {"type": "number"}}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"an event of a run of orun, version {VERSION}",
        "oneOf": [{"$ref": f"#/definitions/{kind.__name__}"} for kind in KINDS],
        "definitions": {
            **{kind.__name__: _build_object(kind, envelope | {"event": {"const": name_kind(kind)}}) for kind in KINDS},
            **{cls.__name__: _build_object(cls, {}) for cls in list_records()},
        },
    }


def _build_object(cls: type, before: Mapping[str, Any]) -> dict[str, Any]:
    own = {item.name: {**item.schema, "description": item.doc} for item in list_fields(cls)}
    return {
        "type": "object",
        "description": inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0],
        "properties": {**before, **own},
        "required": [*before, *(item.name for item in list_fields(cls) if not item.optional)],
        "additionalProperties": False,
    }


def _parse_docs(cls: type) -> dict[str, str]:
    """Return what the docstring says of each attribute."""
    docs: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(cls.__doc__ or "").partition("\nAttributes:\n")[2].splitlines():
        if entry := ENTRY.match(line):
            names = entry[1].split(", ")
            docs |= dict.fromkeys(names, entry[2])
        else:
            docs |= {name: f"{docs[name]} {line.strip()}" for name in names}
    return docs


def _describe_type(hint: Any) -> tuple[str, dict[str, Any]]:
    """Return a type for people, and as it looks in the log; see `orun.core.serialization.encode`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return "JSON", {}
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        values = [member.value for member in hint]
        return ", ".join(values), {"enum": values}
    if _is_record(hint):
        return hint.__name__, {"$ref": f"#/definitions/{hint.__name__}"}
    if origin is Literal:
        return ", ".join(str(argument) or '""' for argument in arguments), {"enum": list(arguments)}
    if origin in (types.UnionType, typing.Union):
        (kept,) = (argument for argument in arguments if argument is not type(None))
        text, schema = _describe_type(kept)
        return f"{text} or null", {"anyOf": [schema, {"type": "null"}]}
    if origin is tuple:
        text, schema = _describe_type(arguments[0])
        return f"list of {text}", {"type": "array", "items": schema}
    text, schema = _describe_type(arguments[1])
    return f"mapping of text to {text}", {"type": "object", "additionalProperties": schema}


def _is_record(hint: Any) -> TypeGuard[type[Record]]:
    return isinstance(hint, type) and issubclass(hint, Record)


def _iter_classes(hint: Any) -> Iterator[type]:
    if _is_record(hint):
        yield hint
    for argument in typing.get_args(hint):
        yield from _iter_classes(argument)
