"""Two values side by side: short ones whole, long ones by where they differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from orun.core.serialization import parse_foreign_json
from orun.text.lists import cut, join_few

LONGEST = 60  # characters of a value that fit on a line beside another
CONTEXT = 12  # characters that are shown before the first difference of two long values
ABSENT = object()  # stands for a value that only the other side has


def show_difference(name: str, old: str | None, new: str | None) -> str:
    """Return `name: old -> new`; of long values only the parts that differ.

    Values are texts, or the JSON of values; None where there is none.
    """
    if max(len(old or ""), len(new or "")) <= LONGEST:
        return f"{name}: {shorten_value(old)} -> {shorten_value(new)}"
    differences = [
        f"{path}: {_cut_excerpt(before, after)} -> {_cut_excerpt(after, before)}"
        for path, before, after in _walk_differences(name, _parse(old), _parse(new))
    ]
    return join_few(differences) if differences else f"{name} is in another order"


def shorten_value(text: str | None) -> str:
    """Return a value as it is shown: a long one without its end."""
    return "not set" if text is None else cut(text, LONGEST)


def _walk_differences(name: str, old: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    """Yield where two values differ, as deep as they have one form, with the text of each."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _walk_differences(f"{name}.{key}", old.get(key, ABSENT), new.get(key, ABSENT))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _walk_differences(f"{name}[{number}]", before, after)
    elif type(old) is not type(new) or old != new:
        yield name, _write_value(old), _write_value(new)


def _parse(text: str | None) -> Any:
    """Return the value that a text is the JSON of; the text where it is not JSON."""
    if text is None:
        return ABSENT
    try:
        return parse_foreign_json(text.encode(errors="surrogatepass"))
    except ValueError:
        return text


def _write_value(value: Any) -> str:
    return shorten_value(None) if value is ABSENT else json.dumps(value, ensure_ascii=False)


def _cut_excerpt(text: str, other: str) -> str:
    """Return a text to be shown beside another; a long one from a little before the first difference."""
    if len(text) <= LONGEST:
        return text
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False))
    start = max(sum(1 for _ in alike) - CONTEXT, 0)
    return ("..." if start else "") + shorten_value(text[start:])
