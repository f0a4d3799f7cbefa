"""Report of an investigation, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from orun.blame.diagnosis import Diagnosis, Level, Place
from orun.core.metrics import Unit
from orun.core.run_record import RunResult
from orun.core.serialization import decode, from_json
from orun.fs.bounded_reads import RECORD_LIMIT, read_bounded
from orun.report.table import Cell, Column, render
from orun.report.terminal import Style, Terminal
from orun.text.units import show

SHOWN = 5  # places
LEVELS = (Column("artifact"), Column("value"), Column(""))
PLACES = (Column("place", flexible=True), Column("share"), Column("nodes", flexible=True))


def read_diagnoses(result: RunResult) -> tuple[Diagnosis, ...]:
    """Return what a search found out about the gates of a run that failed; empty if there was none."""
    try:
        content = read_bounded(result.folder / "blame.json", RECORD_LIMIT)
        return decode(tuple[Diagnosis, ...], from_json(content)["blame"])
    except (OSError, ValueError, KeyError, TypeError):  # nothing was looked into
        return ()


def join_diagnoses(diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Return the diagnoses, those of a stage's gates that fail at the first model already as one."""
    groups: dict[tuple[str, str], list[Diagnosis]] = {}
    for number, diagnosis in enumerate(diagnoses):
        start = "" if diagnosis.stopped else diagnosis.start
        groups.setdefault((diagnosis.stage, start) if start else ("", str(number)), []).append(diagnosis)
    return [_join(group) if len(group) > 1 else group[0] for group in groups.values()]


def _join(group: Sequence[Diagnosis]) -> Diagnosis:
    figures = [f"{item.metric} is {show(item.levels[0].value or 0.0, item.unit)}" for item in group]
    return replace(
        group[0],
        gate="; ".join(item.gate for item in group),
        sentence=f"{', '.join(figures)} at `{group[0].start}` already, and no stage after it made them worse",
        levels=(),
        notes=tuple(dict.fromkeys(note for item in group for note in item.notes)),
    )


def format_diagnosis(diagnosis: Diagnosis, terminal: Terminal) -> list[str]:
    """Return the gate, the metric at each artifact, the worst places, and the sentence."""
    unit = choose_unit(diagnosis)
    lines = [terminal.paint(diagnosis.gate, "strong"), ""]
    if diagnosis.levels:
        rows = [build_level_row(level, unit, level.stage == diagnosis.culprit) for level in diagnosis.levels]
        lines += [*_indent(render(LEVELS, rows, terminal)), ""]
    if diagnosis.places:
        lines += [
            *_indent(render(PLACES, [build_place_row(place) for place in diagnosis.places[:SHOWN]], terminal)),
            "",
        ]
    lines.append(diagnosis.sentence)
    return [*lines, *(terminal.paint(text, "doubt") for text in (*diagnosis.notes, diagnosis.stopped) if text)]


def choose_unit(diagnosis: Diagnosis) -> Unit:
    """Return the unit of the levels. For a slow-down it is seconds, whatever the gate judges."""
    return "s" if diagnosis.places and not diagnosis.places[0].tensor else diagnosis.unit


def build_level_row(level: Level, unit: Unit, guilty: bool) -> Sequence[Cell]:
    """Return the cells of an artifact under `LEVELS`: its stage, the metric, whether the gate would pass."""
    style: Style = "bad" if guilty else ""
    value = "-" if level.value is None else show(level.value, unit)
    passes = {True: "passes", False: "fails", None: ""}[level.passes]
    return Cell(level.stage, style), Cell(value, style), Cell(level.why or passes, style)


def build_place_row(place: Place) -> Sequence[Cell]:
    """Return the cells of a place under `PLACES`: its name, its share of the error, its nodes."""
    return Cell(place.node), Cell(format_share(place.share)), Cell(", ".join(place.nodes[:SHOWN]))


def format_share(share: float) -> str:
    """Return the share of the error that a place brings. It is negative if the place makes up for another."""
    return f"{100 * share:.0f} %" if share > -1 else "makes up for others"


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"  {line}".rstrip() for line in lines]
