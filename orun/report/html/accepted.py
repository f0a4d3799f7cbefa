"""Section on what changed since the accepted release: figures, sizes, versions, commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from orun.core.component_kinds import ComponentKind
from orun.core.run_record import RunResult
from orun.errors import OrunError
from orun.eventlog import read_result
from orun.gates.baseline_file import Baseline, path_beside, read_file
from orun.history.run_diff import Origin, RunDifference, compare, completed
from orun.report.figures import ABSENT
from orun.report.html.parts import Section, cell, code, row, table, terms
from orun.report.html.source import Source
from orun.report.html.tags import Children, Markup, element, join
from orun.store.layout import RECORD_FILE
from orun.text.units import changed, show

VERSIONS = (ComponentKind.TOOL, ComponentKind.PACKAGE, ComponentKind.PYTHON, ComponentKind.IMPORTED)
COMMIT = 12  # characters of a commit that tell two apart for people
MOST = 40  # rows; `orun diff` has them all
TITLES = (("stage", "left"), ("figure", "left"), ("accepted", "right"), ("now", "right"), ("change", "right"))
SETTINGS = (("stage", "left"), ("setting", "left"), ("accepted", "left"), ("now", "left"))


def accepted(source: Source) -> Section | None:
    """Return the section; None if nothing was accepted, or a later run, or one that is not in the store any more."""
    baseline = _baseline(Path(source.result.file))
    run = _accepted_run(source, baseline) if baseline else None
    if baseline is None or run is None or run.started_at > source.result.started_at:
        return None
    if run.run in (source.result.run, source.result.repeats):
        body = element("p", "This run is the accepted one.")
    else:
        difference = compare(run, source.complete)
        body = join(terms(_facts(baseline, difference)), _figures(difference), _settings(difference))
    return Section("accepted", "Since the accepted release", body)


def _baseline(file: Path) -> Baseline | None:
    try:
        return read_file(path_beside(file))
    except (OrunError, ValueError):  # the run has said what is wrong with it; a file of a name that is no path
        return None


def _accepted_run(source: Source, baseline: Baseline) -> RunResult | None:
    """Return the run from which most stages were accepted, with the dependencies of its stages."""
    runs = Counter(stage.run for stage in baseline.stages.values())
    if not runs:
        return None
    folder = source.result.folder.parent
    (name, _), *_ = runs.most_common(1)
    try:
        run = read_result(folder / name / RECORD_FILE)
        return completed(run, read_result(folder / run.repeats / RECORD_FILE)) if run.repeats else run
    except OrunError:  # it was collected
        return None


def _facts(baseline: Baseline, difference: RunDifference) -> Iterator[tuple[str, Children]]:
    stage = next(stage for stage in baseline.stages.values() if stage.run == difference.old)
    yield "accepted", f"on {stage.day} by {stage.who}"
    yield "run", join(code(difference.old), " -> ", code(difference.new))
    old, new = difference.origins
    if old.commit or new.commit:
        yield "commit", join(code(_commit(old)), " -> ", code(_commit(new)))
    if old.orun != new.orun:
        yield "orun", f"{old.orun or ABSENT} -> {new.orun or ABSENT}"
    versions = {
        (change.subject, change.old, change.new)
        for stage in difference.stages
        for change in stage.inputs
        if change.kind in VERSIONS
    }
    lines = (f"{name} {old or ABSENT} -> {new or ABSENT}" for name, old, new in sorted(versions, key=str))
    yield "versions", ", ".join(lines)


def _commit(origin: Origin) -> str:
    return (origin.commit or ABSENT)[:COMMIT] + (" with edits" if origin.edited else "")


def _figures(difference: RunDifference) -> Markup:
    rows = [
        row(
            element("th", element("bdi", stage.stage), scope="row", role="rowheader"),
            cell(figure.name, "figure"),
            cell(show(figure.old, figure.unit), "accepted", class_="right"),
            cell(show(figure.new, figure.unit), "now", class_="right"),
            cell(changed(figure.old, figure.new, figure.unit), "change", class_="right"),
        )
        for stage in difference.stages
        for figure in stage.metrics
        if figure.old is not None and figure.new is not None
        if show(figure.old, figure.unit) != show(figure.new, figure.unit)
    ]
    if not rows:
        return element("p", "No figure differs.")
    return join(table(TITLES, rows[:MOST], "Figures that differ", "figures"), _more(len(rows)))


def _settings(difference: RunDifference) -> Markup:
    rows = [
        row(
            element("th", element("bdi", stage.stage), scope="row", role="rowheader"),
            cell(change.subject, "setting"),
            cell(code(change.old or ABSENT), "accepted"),
            cell(code(change.new or ABSENT), "now"),
        )
        for stage in difference.stages
        for change in stage.inputs
        if change.kind == ComponentKind.PARAMETER
    ]
    if not rows:
        return Markup()
    return join(table(SETTINGS, rows[:MOST], "Parameters that differ", "settings"), _more(len(rows)))


def _more(number: int) -> Markup:
    return element("p", f"and {number - MOST} more: orun diff", class_="quiet") if number > MOST else Markup()
