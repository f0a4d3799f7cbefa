"""Report of an investigation, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orun.blame.diagnosis import Diagnosis, Level, Place
from orun.core.metrics import Unit
from orun.report.table import Cell, Column, render
from orun.report.terminal import Style, Terminal
from orun.text.units import show

SHOWN = 5  # places
LEVELS = (Column("artifact"), Column("value"), Column(""))
PLACES = (Column("place", flexible=True), Column("share"), Column("nodes", flexible=True))


def lines_of(found: Diagnosis, terminal: Terminal) -> list[str]:
    """The gate, the metric at each artifact, the worst places, and the sentence."""
    unit = unit_of(found)
    lines = [terminal.paint(found.gate, "strong"), ""]
    if found.levels:
        rows = [level_row(one, unit, one.stage == found.culprit) for one in found.levels]
        lines += [*_indented(render(LEVELS, rows, terminal)), ""]
    if found.places:
        lines += [*_indented(render(PLACES, [place_row(one) for one in found.places[:SHOWN]], terminal)), ""]
    lines.append(found.sentence)
    return [*lines, *(terminal.paint(text, "doubt") for text in (found.note, found.stopped) if text)]


def unit_of(found: Diagnosis) -> Unit:
    """That of its levels: of a slow-down they are times, whatever the gate judges."""
    return "s" if found.places and not found.places[0].tensor else found.unit


def level_row(one: Level, unit: Unit, guilty: bool) -> Sequence[Cell]:
    """The cells of an artifact under `LEVELS`: whose it is, the metric there, and whether the gate would pass."""
    style: Style = "bad" if guilty else ""
    value = "-" if one.value is None else show(one.value, unit)
    passes = {True: "passes", False: "fails", None: ""}[one.passes]
    return Cell(one.stage, style), Cell(value, style), Cell(one.why or passes, style)


def place_row(one: Place) -> Sequence[Cell]:
    """The cells of a place under `PLACES`: its name, its share of the harm, and its nodes."""
    return Cell(one.node), Cell(_share(one.share)), Cell(", ".join(one.nodes[:SHOWN]))


def _share(share: float) -> str:
    """That of what goes away with a place; where it makes up for another one, the rest is worse without it."""
    return f"{100 * share:.0f} %" if share > -1 else "makes up for others"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}".rstrip() for line in lines]
