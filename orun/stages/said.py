"""What a library says of its failure, in a line."""

from __future__ import annotations

LONGEST = 300  # characters


def first_line(error: Exception) -> str:
    """The class of an error and the first line of its text; the log has the rest."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    return f"{type(error).__name__}: {lines[0][:LONGEST]}"
