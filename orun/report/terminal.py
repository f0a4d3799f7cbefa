"""Abilities of an output stream: colours, a live region, columns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, TextIO

from orun.core.serialization import Record

Style = Literal["", "good", "bad", "doubt", "dim", "strong"]

CODES: Mapping[Style, str] = {"good": "32", "bad": "1;31", "doubt": "33", "dim": "2", "strong": "1"}
LOG_WIDTH = 120  # columns where nothing says how many there are: a CI log


class Terminal(Record, frozen=True):
    """The abilities of a stream; `live` means that lines may be redrawn."""

    colour: bool = False
    live: bool = False
    width: int = LOG_WIDTH

    def paint(self, text: str, style: Style) -> str:
        """Return the text in that style, or as it is where colours do not show."""
        if not (self.colour and style and text):
            return text
        return f"\x1b[{CODES[style]}m{text}\x1b[0m"


def detect(stream: TextIO) -> Terminal:
    """Return the abilities of a stream.

    NO_COLOR (https://no-color.org) goes before FORCE_COLOR, as in Python itself; both count when they are not empty.
    A continuous-integration system (CI) gets plain lines even where it offers a terminal, because it keeps them.
    """
    is_terminal = stream.isatty()
    capable = is_terminal and os.environ.get("TERM", "") not in ("dumb", "unknown")
    colour = not os.environ.get("NO_COLOR") and (bool(os.environ.get("FORCE_COLOR")) or capable)
    return Terminal(colour, live=capable and not os.environ.get("CI"), width=_detect_width(stream, is_terminal))


def _detect_width(stream: TextIO, is_terminal: bool) -> int:
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns) > 0:
        return int(columns)
    if not is_terminal:
        return LOG_WIDTH
    try:
        return os.get_terminal_size(stream.fileno()).columns or LOG_WIDTH
    except OSError:  # a terminal that does not know its size
        return LOG_WIDTH
