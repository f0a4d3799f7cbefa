"""Texts, and lists of texts, that may be long."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN = 3  # texts of a list, such as files or differences between two values


def join_few(texts: Sequence[str], most: int = SHOWN, separator: str = ", ") -> str:
    """Return a list of texts; of many only the first, and how many more there are."""
    return separator.join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def cut(text: str, longest: int) -> str:
    """Return a text; a longer one without its end."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
