"""Text as Markdown shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

SPECIAL = re.compile(r"([\\`*_\[\]<>|#&~$])")  # of GitHub's, too: ~ strikes out, $ begins a formula


def escape(text: str) -> str:
    """Return the text so that Markdown shows it as it is, on one line."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def format_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose cells are shown as they are."""
    head = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    return "\n".join([*head, *(f"| {' | '.join(map(escape, row))} |" for row in rows)])


def escape_unprintable(text: str) -> str:
    """Return the text with escapes in place of control characters, which would reach terminals and XML reports."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )
