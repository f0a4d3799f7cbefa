"""Tables of plain text that keep to a width: light enough for a run that has nothing to do."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

from orun.core.serialization import Record
from orun.report.terminal import Style, Terminal

GAP = "  "
# A space between a number and its unit, at which no line is broken.
OF_UNIT = re.compile(r"(?<=[0-9]) (?=(?:%|dB|[kMGT]?B|[nµm]?s|min|h)(?![A-Za-z]))")
NARROWEST = 16  # columns below which a flexible column is not squeezed unless it says so


class Column(Record, frozen=True):
    """A column; a flexible one is wrapped when the table is too wide, down to its narrowest width."""

    title: str
    align: Literal["left", "right"] = "left"
    flexible: bool = False
    narrowest: int = NARROWEST


class Cell(Record, frozen=True):
    """The text of a cell and how it is painted."""

    text: str
    style: Style = ""


def render(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], terminal: Terminal) -> list[str]:
    """Return the lines of a table under its titles, none without rows; empty columns are left out."""
    body = [list(row) for row in rows]
    if not body:
        return []
    kept = [index for index in range(len(columns)) if any(row[index].text for row in body)]
    shown = [columns[index] for index in kept]
    body = [[row[index] for index in kept] for row in body]
    header = [Cell(column.title, "dim") for column in shown]
    widths = _choose_widths(shown, [header, *body], terminal.width)
    return [line for row in (header, *body) for line in _format_row(shown, row, widths, terminal)]


def _choose_widths(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], limit: int) -> list[int]:
    widths = [max(measure_width(row[index].text) for row in rows) for index in range(len(columns))]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - limit
    # The widest flexible column gives way first, down to the next one, until all are as narrow as may be.
    while excess > 0:
        loose = [index for index, column in enumerate(columns) if column.flexible and widths[index] > column.narrowest]
        if not loose:
            break
        widest = max(loose, key=lambda index: widths[index])
        next_one = max((widths[index] for index in loose if index != widest), default=0)
        step = min(excess, max(1, widths[widest] - next_one), widths[widest] - columns[widest].narrowest)
        widths[widest] -= step
        excess -= step
    return widths


def _format_row(columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int], terminal: Terminal) -> list[str]:
    cells = [wrap(cell.text, width) for cell, width in zip(row, widths, strict=True)]
    lines: list[str] = []
    for number in range(max(len(cell) for cell in cells)):
        pieces: list[str] = []
        for column, cell, lines_of_cell, width in zip(columns, row, cells, widths, strict=True):
            text = lines_of_cell[number] if number < len(lines_of_cell) else ""
            padding = " " * (width - measure_width(text))
            painted = terminal.paint(text, cell.style)
            pieces.append(padding + painted if column.align == "right" else painted + padding)
        lines.append(GAP.join(pieces).rstrip())
    return lines


def wrap(text: str, width: int) -> list[str]:
    """Break a text at spaces into lines of at most that many columns, indented as it is; longer words are cut."""
    stripped = text.lstrip(" ")
    if indent := text[: len(text) - len(stripped)]:
        return [indent + line for line in wrap(stripped, max(width - len(indent), 1))]
    lines: list[str] = []
    current = ""
    for word in OF_UNIT.sub("\0", text.replace("\n", " ")).split(" "):
        joined = f"{current} {word}" if current else word
        if measure_width(joined) <= width:
            current = joined
            continue
        if current:
            lines.append(current)
        current = word
        while measure_width(current) > width:
            cut = _count_prefix(current, width)
            lines.append(current[:cut])
            current = current[cut:]
    return [line.replace("\0", " ") for line in (*lines, current)]


def _count_prefix(text: str, width: int) -> int:
    """Count the characters of the text that fill at most that many columns; at least one, to get on."""
    used = 0
    for index, character in enumerate(text):
        used += measure_width(character)
        if used > width:
            return max(index, 1)
    return len(text)


def measure_width(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )
