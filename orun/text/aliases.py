"""Names that other tools use, with ours or what to do instead: the table `aliases.toml`.

It is read when a name is wrong, and never before.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

SEPARATORS = re.compile(r"[^a-z0-9]")


def resolve_alias(word: str, options: Iterable[str]) -> str:
    """Return the option that another tool calls by that name, or an empty text."""
    known, plain = set(options), _normalize(word)
    return next(
        (name for name, aliases in read_names().items() if name in known and plain in map(_normalize, aliases)), ""
    )


def note(word: str, noun: str) -> str:
    """Return what to do instead of a key that another tool has, or an empty text.

    `noun` is what the key was meant to be: `key of a stage`, `parameter of quantize/dynamic`.
    """
    entries = (entry for place, its_notes in read_notes().items() if noun.startswith(place) for entry in its_notes)
    return next((entry["instead"] for entry in entries if _normalize(word) in map(_normalize, entry["names"])), "")


def read_names() -> Mapping[str, list[str]]:
    """Return each of our names with the names that other tools have for it."""
    aliases: Mapping[str, list[str]] = _read_table()["names"]
    return aliases


def read_notes() -> Mapping[str, list[dict[str, Any]]]:
    """Return the notes by the beginning of the noun that they are for: `names`, and what to do `instead`."""
    by_noun: Mapping[str, list[dict[str, Any]]] = _read_table()["notes"]
    return by_noun


@functools.cache
def _read_table() -> Mapping[str, Any]:
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files(__package__).joinpath("aliases.toml").read_text("utf-8"))


def _normalize(name: str) -> str:
    return SEPARATORS.sub("", name.lower())
