"""Counts of things in words."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """Return `1 stage` or `2 stages`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
