"""Names of objects and records in a remote store."""

from __future__ import annotations

UNKNOWN = -1  # size of an object that no list of files names
SLOTS = 64  # records of one key: results that differ in what was read without being declared


def object_name(digest: str) -> str:
    """The name of an object."""
    return f"objects/{digest[:2]}/{digest[2:]}"


def record_name(key: str, slot: int) -> str:
    """The name of the `slot`th record of a key, counted from 0."""
    return f"actions/{key[:2]}/{key}/{slot}"
