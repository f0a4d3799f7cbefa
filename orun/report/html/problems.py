"""Section on problems: failed stages, culprits of failed gates, and notices."""

from __future__ import annotations

from collections.abc import Iterator

from orun.blame.diagnosis import Diagnosis
from orun.report.blame import LEVELS, PLACES, SHOWN, level_row, place_row, unit_of
from orun.report.failures import failure_note
from orun.report.html.head import PLAIN
from orun.report.html.parts import Section, pill, plain_table, prose
from orun.report.html.source import Source
from orun.report.html.tags import Markup, element, join
from orun.report.notes import said_notes
from orun.report.undeclared_writes import stray_note


def failures(source: Source) -> Section | None:
    """The stages that failed, with the ends of their logs; None when none did."""
    blocks: list[Markup] = []
    for stage in source.result.stages:
        if stage.failure is None:
            continue
        first, *rest = failure_note(stage, PLAIN)
        link = element("a", element("bdi", stage.stage), href=f"#{source.stages[stage.stage]}")
        title = element("p", pill("failed", "bad"), " ", link, ": ", prose(stage.failure.what), class_="why")
        text = element("pre", "\n".join(rest), tabindex="0") if rest and first else ""
        blocks.append(element("div", title, text, class_="block bad"))
    return Section("failures", "Failed stages", join(*blocks)) if blocks else None


def culprits(source: Source) -> Section | None:
    """What was found out about gates that failed; None where nothing was looked into."""
    blocks = [element("div", *_diagnosis(diagnosis), class_="block") for diagnosis in source.blame]
    return Section("culprit", "Culprit", join(*blocks)) if blocks else None


def _diagnosis(diagnosis: Diagnosis) -> Iterator[Markup]:
    unit = unit_of(diagnosis)
    yield element("h3", element("bdi", diagnosis.gate))
    yield element("p", prose(diagnosis.sentence), class_="why")
    rows = [level_row(level, unit, level.stage == diagnosis.culprit) for level in diagnosis.levels]
    yield plain_table(LEVELS, rows, f"{diagnosis.metric} at each artifact")
    yield plain_table(PLACES, [place_row(place) for place in diagnosis.places[:SHOWN]], "The worst places")
    for text in (diagnosis.note, diagnosis.stopped):
        if text:
            yield element("p", prose(text), class_="doubt")


def notices(source: Source) -> Section | None:
    """What the run said besides: repairs, stages that are not deterministic or wrote beside their output, notes."""
    notices = [(notice.level, notice.text) for notice in source.notices]
    notices += [("warning", stray_note(source.result, stage)) for stage in source.result.stages if stage.wrote]
    notices += [("info", f"{stage}: {note}") for stage, note in said_notes(source.result)]
    if source.trouble:
        notices.append(("warning", source.trouble))
    if not notices:
        return None
    pills = {"warning": pill("warning", "doubt"), "info": pill("info", "dim")}
    items = [element("li", pills[level], " ", prose(text)) for level, text in notices]
    return Section("notices", "Notices", element("ul", items, class_="notices"))
