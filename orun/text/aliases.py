"""Names that other tools use, with ours or what to do instead: the table `aliases.toml`.

It is read when a name is wrong, and never before.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

SEPARATORS = re.compile(r"[^a-z0-9]")


def meant(word: str, options: Iterable[str]) -> str:
    """Return the option that another tool calls by that name, or an empty text."""
    known, plain = set(options), _plain(word)
    return next((name for name, aliases in names().items() if name in known and plain in map(_plain, aliases)), "")


def note(word: str, noun: str) -> str:
    """Return what to do instead of a key that another tool has, or an empty text.

    Args:
        word: the key.
        noun: what it was meant to be: `key of a stage`, `parameter of quantize/dynamic`.
    """
    entries = (entry for place, its_notes in notes().items() if noun.startswith(place) for entry in its_notes)
    return next((entry["instead"] for entry in entries if _plain(word) in map(_plain, entry["names"])), "")


def names() -> Mapping[str, list[str]]:
    """Return each of our names with the names that other tools have for it."""
    aliases: Mapping[str, list[str]] = _table()["names"]
    return aliases


def notes() -> Mapping[str, list[dict[str, Any]]]:
    """Return the notes by the beginning of the noun that they are for: `names`, and what to do `instead`."""
    by_noun: Mapping[str, list[dict[str, Any]]] = _table()["notes"]
    return by_noun


@functools.cache
def _table() -> Mapping[str, Any]:
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files(__package__).joinpath("aliases.toml").read_text("utf-8"))


def _plain(name: str) -> str:
    return SEPARATORS.sub("", name.lower())
