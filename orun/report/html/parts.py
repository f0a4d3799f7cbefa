"""Parts that several sections are made of: tables, lists of terms, pills, moments, scales."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from orun.core.metrics import UNBOUNDED
from orun.report.html.tags import Children, Markup, element, escape, join
from orun.report.table import Cell, Column
from orun.report.terminal import Style

MARKS: Mapping[Style, str] = {"good": "\u2713", "bad": "\u2717", "doubt": "?", "dim": "", "strong": "", "": ""}


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading; `title` is its name in the contents, too."""

    ident: str
    title: str
    body: Markup


def pill(text: str, style: Style) -> Markup:
    """An outcome: its word, with a mark and a colour beside it."""
    mark = MARKS["bad" if text == "failed" else style]  # also of what failed without failing the run
    label = join(element("span", mark, class_="mark", aria_hidden="true"), text) if mark else escape(text)
    return element("span", label, class_=f"pill {style}")


def moment(seconds: float) -> Markup:
    """Return a time in UTC, to the second; a dash if it is out of range."""
    try:
        time = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return escape("-")
    return element("time", time.strftime("%Y-%m-%d %H:%M:%S UTC"), datetime=time.strftime("%Y-%m-%dT%H:%M:%SZ"))


def terms(pairs: Iterable[tuple[str, Children]], class_: str = "terms") -> Markup:
    """A list of terms, those without a text left out; nothing when none is left."""
    kept = [(name, join(text)) for name, text in pairs]
    items = [element("div", element("dt", name), element("dd", text)) for name, text in kept if text]
    return element("dl", items, class_=class_) if items else Markup()


def code(text: str) -> Markup:
    """Text of a file or a machine, as it is."""
    return element("code", text)


def prose(text: str) -> Markup:
    """A sentence, in which what stands between backquotes is code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # one has no other
        return escape(text)
    return join(*(code(piece) if number % 2 else piece for number, piece in enumerate(pieces)))


def cell(text: Children, label: str = "", **attributes: str | None) -> Markup:
    """A cell of a table; its label is shown where the page is too narrow for columns."""
    return element("td", text, data_label=label or None, role="cell", **attributes)


def row(*cells: Children, **attributes: str | None) -> Markup:
    """A row of a table."""
    return element("tr", *cells, role="row", **attributes)


def table(titles: Sequence[tuple[str, str]], rows: Iterable[str], caption: str, class_: str = "") -> Markup:
    """A table.

    Args:
        titles: of its columns, each with `left` or `right`.
        rows: as `row` makes them.
        caption: what it holds, for those who do not see it.
        class_: how it is drawn.
    """
    head = [element("th", name, scope="col", role="columnheader", class_=side) for name, side in titles]
    return element(
        "table",
        element("caption", caption),
        element("thead", row(*head), role="rowgroup"),
        element("tbody", rows, role="rowgroup"),
        class_=f"{class_} stack".strip(),
        role="table",
    )


def plain_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], caption: str) -> Markup:
    """The table that the console shows; its first column names the row, and empty columns are left out."""
    body = [list(line) for line in rows]
    kept = [number for number in range(len(columns)) if any(line[number].text for line in body)]
    lines = [
        row(
            element("th", _painted(line[0]), scope="row", role="rowheader"),
            *(cell(_painted(line[number]), columns[number].title, class_=columns[number].align) for number in kept[1:]),
        )
        for line in body
    ]
    titles = [(columns[number].title, columns[number].align) for number in kept]
    return table(titles, lines, caption) if kept else Markup()


def _painted(cell_: Cell) -> Markup:
    return element("span", cell_.text, class_=cell_.style) if cell_.style else element("bdi", cell_.text)


def fold(summary: Children, *body: Children, open_: bool = False) -> Markup:
    """Something that is shown when one asks for it."""
    return element("details", element("summary", summary), *body, **({"open": ""} if open_ else {}))


@dataclass(frozen=True)
class Scale:
    """Places numbers between 0 % and 100 % of a width."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float], margin: float = 0.08) -> Scale:
        """The scale that shows all of them, those apart that are not finite; with so much beyond, relative to it."""
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        padding = margin * (high / 2 - low / 2) * 2  # the whole may be no number
        if low == high:
            padding = abs(high) * margin or 1.0
        return cls(max(low - padding, -UNBOUNDED), min(high + padding, UNBOUNDED))

    def share(self, value: float) -> float:
        """From 0 to 1; the end for what lies beyond it, or is no number."""
        if math.isnan(value):
            return 0.0
        width = self.high / 2 - self.low / 2
        return min(max((value / 2 - self.low / 2) / width, 0.0), 1.0) if math.isfinite(value) else float(value > 0)

    def at(self, value: float) -> str:
        """As the position in a drawing: `12.5%`."""
        return percent(self.share(value))


def percent(share: float) -> str:
    """`12.5%`."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def drawing(title: str, description: str, *parts: Children, ident: str, **attributes: str | float | None) -> Markup:
    """A drawing that says in words what it shows."""
    return element(
        "svg",
        element("title", title, id=f"{ident}-title"),
        element("desc", description, id=f"{ident}-desc"),
        *parts,
        role="img",
        aria_labelledby=f"{ident}-title {ident}-desc",
        **attributes,
    )
