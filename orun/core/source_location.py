"""Locations in text files, and problems found there."""

from __future__ import annotations

from orun.core.serialization import Record

LONGEST = 400  # letters of a message
KEPT = 160  # at each end of a longer one


class Position(Record, frozen=True, order=True):
    """Place in a text file.

    Attributes:
        file: its path.
        line: counts from 1.
        column: counts from 1.
    """

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Problem(Record, frozen=True):
    """Mistake in a pipeline file, with the offending source line.

    Attributes:
        position: where.
        message: what is wrong.
        source: the text of that line, without its line end; empty when there is none to show.
        width: how many columns the caret underlines.
        expected: what would have been right; may be empty.
        suggestion: the name that was probably meant ("did you mean"); may be empty.
        hint: the next command to type, or how to mend it; may be empty.
    """

    position: Position
    message: str
    source: str = ""
    width: int = 1
    expected: str = ""
    suggestion: str = ""
    hint: str = ""


def abridge(text: str, longest: int = LONGEST) -> str:
    """Return a text without its middle if it is too long to read."""
    return text if len(text) <= longest else f"{text[:KEPT]} ... {text[-KEPT:]}"
