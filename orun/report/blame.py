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


def lines_of(diagnosis: Diagnosis, terminal: Terminal) -> list[str]:
    """The gate, the metric at each artifact, the worst places, and the sentence."""
    unit = unit_of(diagnosis)
    lines = [terminal.paint(diagnosis.gate, "strong"), ""]
    if diagnosis.levels:
        rows = [level_row(level, unit, level.stage == diagnosis.culprit) for level in diagnosis.levels]
        lines += [*_indented(render(LEVELS, rows, terminal)), ""]
    if diagnosis.places:
        lines += [*_indented(render(PLACES, [place_row(place) for place in diagnosis.places[:SHOWN]], terminal)), ""]
    lines.append(diagnosis.sentence)
    return [*lines, *(terminal.paint(text, "doubt") for text in (*diagnosis.notes, diagnosis.stopped) if text)]


def unit_of(diagnosis: Diagnosis) -> Unit:
    """Return the unit of the levels. For a slow-down it is seconds, whatever the gate judges."""
    return "s" if diagnosis.places and not diagnosis.places[0].tensor else diagnosis.unit


def level_row(level: Level, unit: Unit, guilty: bool) -> Sequence[Cell]:
    """Return the cells of an artifact under `LEVELS`: its stage, the metric, whether the gate would pass."""
    style: Style = "bad" if guilty else ""
    value = "-" if level.value is None else show(level.value, unit)
    passes = {True: "passes", False: "fails", None: ""}[level.passes]
    return Cell(level.stage, style), Cell(value, style), Cell(level.why or passes, style)


def place_row(place: Place) -> Sequence[Cell]:
    """Return the cells of a place under `PLACES`: its name, its share of the error, its nodes."""
    return Cell(place.node), Cell(share_text(place.share)), Cell(", ".join(place.nodes[:SHOWN]))


def share_text(share: float) -> str:
    """Return the share of the error that a place brings. It is negative if the place makes up for another."""
    return f"{100 * share:.0f} %" if share > -1 else "makes up for others"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}".rstrip() for line in lines]
