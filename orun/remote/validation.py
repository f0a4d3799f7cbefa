"""Validation of results that a remote offers. None is taken at its word."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from orun.core import serialization
from orun.core.component_kinds import ComponentKind
from orun.core.key_component import index_by_subject
from orun.core.serialization import replace
from orun.fs.digests import is_digest
from orun.planning import cache_key
from orun.planning.plan import Step
from orun.remote.envelope import RefusedError
from orun.store import Action, Entry
from orun.store.trees import decode

ESCAPED = re.compile(rb'\\[^"\\/]|\x7f')  # how a text in ASCII may hold what is not plain
LONGEST_NAME, LONGEST_PATH = 255, 4096 - 1024  # bytes; leaves 1024 for the path of the store


def validate_record(step: Step, record: bytes) -> Action:
    """Return the result in a record.

    Raises:
        RefusedError: if it is not a result of the step's key, made on the same device.
    """
    action = validate_result(step.key, record)
    device = index_by_subject(step.components, ComponentKind.DEVICE)
    if differing := sorted(name for name, value in device.items() if action.host.get(name) != value):
        raise RefusedError(f"it was made on another device ({', '.join(differing)})")
    same = action.components == step.components  # then they are held once: a run has thousands of stages
    return replace(action, key=step.key, components=step.components) if same else action


def validate_result(key: str, record: bytes) -> Action:
    """Return the result in a record, made on any machine.

    Raises:
        RefusedError: if it is not a result of the key.
    """
    try:
        data = json.loads(record)
        action = serialization.decode(Action, data)
    except (ValueError, RecursionError):
        raise RefusedError("it is not a result of this version of orun") from None
    plain = not ESCAPED.search(record) or all(map(is_plain, _iter_texts(data)))
    numbers = (action.size, action.started_at, action.seconds, action.cpu_seconds, action.peak_memory)
    if not (plain and is_digest(action.tree) and is_digest(action.log)):
        raise RefusedError("it is not a result of this version of orun")
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise RefusedError("it holds a number that cannot be")
    if action.key != key or cache_key.digest_components(action.components) != key:
        raise RefusedError("it is a result of something else")
    return action


def validate_file_list(data: bytes, size: int | None) -> tuple[Entry, ...]:
    """Return the files in a list of files; they have so many bytes in all, if that is known.

    Raises:
        RefusedError: if it is not canonical, reaches out of its folder, or has another size.
    """
    try:
        entries = decode(data)
    except ValueError as error:
        raise RefusedError(str(error)) from None
    total = sum(entry.size for entry in entries)
    if any(entry.size < 0 for entry in entries) or (size is not None and total != size):
        raise RefusedError("its files have not the size that it tells")
    if unusable := [entry.path for entry in entries if not _is_usable(entry.path)]:
        raise RefusedError(f"it names {unusable[0][:80]!r}, which no file should be called")
    return entries


def _is_usable(path: str) -> bool:
    """Return whether a file can have this path on this machine."""
    if not is_plain(path):
        return False
    names: Sequence[bytes] = [name.encode() for name in path.split("/")]
    return all(len(name) <= LONGEST_NAME for name in names) and sum(map(len, names)) + len(names) <= LONGEST_PATH


def _iter_texts(data: Any) -> Iterator[str]:
    """Yield every text in plain data, names included."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, (list, dict)):
        for item in data.values() if isinstance(data, dict) else data:
            yield from _iter_texts(item)
        yield from data if isinstance(data, dict) else ()


def is_plain(text: str) -> bool:
    """Return whether a text has a UTF-8 form and no control characters, which could act on a terminal."""
    return text.isprintable() or not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)
