"""What things are called in a remote store."""

from __future__ import annotations

SLOTS = 64  # records of one key: results that differ in what was read without being declared


def object_name(digest: str) -> str:
    """The name of an object."""
    return f"objects/{digest[:2]}/{digest[2:]}"


def record_name(key: str, slot: int) -> str:
    """The name of the `slot`th record of a key, counted from 0."""
    return f"actions/{key[:2]}/{key}/{slot}"
