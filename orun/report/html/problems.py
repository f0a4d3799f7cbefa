"""Problems of a run: failed stages, culprits of failed gates, and notices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from orun.blame.diagnosis import Diagnosis
from orun.core.run_record import StageResult
from orun.report.blame import LEVELS, PLACES, SHOWN, build_level_row, build_place_row, choose_unit
from orun.report.failures import format_portable_failure
from orun.report.html.source import Source
from orun.report.html.templating import escape_invisible
from orun.report.notes import describe_undeclared_write
from orun.report.table import Cell, Column


def view_failures(source: Source) -> list[tuple[StageResult, str]]:
    """Return the stages that failed, each with the causes, the hints and the end of its log."""
    return [
        (stage, "\n".join(format_portable_failure(source.result, stage)[1:]))
        for stage in source.result.stages
        if stage.failure
    ]


@dataclass(frozen=True)
class Table:
    """Table of the console with its titles, columns without a text left out."""

    titles: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Markup]]
    caption: str


def view_diagnoses(source: Source) -> list[tuple[Diagnosis, list[Table]]]:
    """Return what was found out about gates that failed."""
    return [(diagnosis, _build_tables(diagnosis)) for diagnosis in source.blame]


def _build_tables(diagnosis: Diagnosis) -> list[Table]:
    unit = choose_unit(diagnosis)
    levels = [build_level_row(level, unit, level.stage == diagnosis.culprit) for level in diagnosis.levels]
    places = [build_place_row(place) for place in diagnosis.places[:SHOWN]]
    tables = (
        _build_table(LEVELS, levels, f"{diagnosis.metric} at each artifact"),
        _build_table(PLACES, places, "The worst places"),
    )
    return [table for table in tables if table.titles]


def _build_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], caption: str) -> Table:
    kept = [number for number in range(len(columns)) if any(row[number].text for row in rows)]
    titles = [(columns[number].title, columns[number].align) for number in kept]
    cells = [[row[number] for number in kept] for row in rows]
    painted = Markup('<span class="{}">{}</span>')
    return Table(
        titles, [[painted.format(cell.style, escape_invisible(cell.text)) for cell in row] for row in cells], caption
    )


def view_notices(source: Source) -> list[tuple[str, str]]:
    """Return level and text of further messages: repairs, undeclared writes, notes of stages."""
    stages = source.result.stages
    return [
        *((notice.level, notice.text) for notice in source.notices),
        *(("warning", describe_undeclared_write(source.result, stage)) for stage in stages if stage.wrote),
        *(("info", f"{stage.stage}: {note}") for stage in stages for note in stage.notes),
        *([("warning", source.trouble)] if source.trouble else []),
    ]
