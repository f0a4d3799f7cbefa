"""Validation of results that a remote offers: none is taken at its word."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from orun.core import serialization
from orun.fs.digests import is_digest
from orun.planning import cache_key
from orun.planning.plan import Step
from orun.remote.envelope import RefusedError
from orun.store import Action, Entry
from orun.store.trees import decode

LONGEST_NAME, LONGEST_PATH = 255, 4096 - 1024  # bytes; a store's own folder comes before
DEVICE = "device "  # what the names of those parts of a key begin with that say where its result is valid


def offered(step: Step, record: str) -> Action:
    """The result in a record, if it is one of this step's key and made on a device like this.

    Raises:
        RefusedError: when it is not.
    """
    try:
        data = json.loads(record)
        action = serialization.decode(Action, data)
    except (ValueError, RecursionError):
        raise RefusedError("it is not a result of this version of orun") from None
    numbers = (action.size, action.started_at, action.seconds, action.cpu_seconds, action.peak_memory)
    if not (all(map(_is_plain, _texts(data))) and is_digest(action.tree) and is_digest(action.log)):
        raise RefusedError("it is not a result of this version of orun")
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise RefusedError("it holds a number that cannot be")
    if action.key != step.key or cache_key.digest_of(action.parts) != step.key:
        raise RefusedError("it is a result of something else")
    here = {name.removeprefix(DEVICE): value for name, value in step.parts.items() if name.startswith(DEVICE)}
    if other := sorted(name for name, value in here.items() if action.host.get(name) != value):
        raise RefusedError(f"it was made on another device ({', '.join(other)})")
    return action


def listed(text: str, size: int | None) -> tuple[Entry, ...]:
    """The files in a list of files of so many bytes in all, where that is known.

    Raises:
        RefusedError: when it is none, reaches out of its folder, or tells of another size.
    """
    try:
        entries = decode(text.encode("ascii"))
    except (ValueError, RecursionError) as error:
        raise RefusedError(str(error)) from None
    total = sum(entry.size for entry in entries)
    if any(entry.size < 0 for entry in entries) or (size is not None and total != size):
        raise RefusedError("its files have not the size that it tells")
    if bad := [entry.path for entry in entries if not _fits(entry.path)]:
        raise RefusedError(f"it names {bad[0][:80]!r}, which no file should be called")
    return entries


def _fits(path: str) -> bool:
    """Whether a path can be one of a file here."""
    if not _is_plain(path):
        return False
    names: Sequence[bytes] = [name.encode() for name in path.split("/")]
    return all(len(name) <= LONGEST_NAME for name in names) and sum(map(len, names)) + len(names) <= LONGEST_PATH


def _texts(data: Any) -> Iterator[str]:
    """Every text in plain data, names included."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, (list, dict)):
        for item in data.values() if isinstance(data, dict) else data:
            yield from _texts(item)
        yield from data if isinstance(data, dict) else ()


def _is_plain(text: str) -> bool:
    """Whether it has no control characters, which could act on a terminal, and a UTF-8 form."""
    return not any(unicodedata.category(one) in ("Cc", "Cs") for one in text)
