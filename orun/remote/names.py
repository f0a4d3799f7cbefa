"""Names of objects and records in a remote."""

from __future__ import annotations

UNKNOWN = -1  # size of an object that no list of files names
SLOTS = 64  # most records of one key: results whose implicit dependencies differ


def name_object(digest: str) -> str:
    """Return the name of an object."""
    return f"objects/{digest[:2]}/{digest[2:]}"


def name_record(key: str, slot: int) -> str:
    """Return the name of a key's record, counted from 0."""
    return f"actions/{key[:2]}/{key}/{slot}"
