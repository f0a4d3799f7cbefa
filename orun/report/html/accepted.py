"""Changes since the accepted release: figures, sizes, versions, commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orun.core.component_kinds import ComponentKind
from orun.core.run_record import RunResult
from orun.errors import OrunError
from orun.eventlog import read_result
from orun.gates.baseline_file import Baseline, path_beside, read_file
from orun.history.run_diff import Origin, RunDifference, compare, completed
from orun.report.figures import ABSENT
from orun.report.html.source import Source
from orun.report.html.values import plain_value
from orun.store.layout import RECORD_FILE
from orun.text.units import changed, show

VERSIONS = (ComponentKind.TOOL, ComponentKind.PACKAGE, ComponentKind.PYTHON, ComponentKind.IMPORTED)
COMMIT = 12  # characters of a commit that tell two apart for people
MOST = 40  # rows; `orun diff` has them all


@dataclass(frozen=True)
class Accepted:
    """Differences from the accepted release, as texts.

    Attributes:
        day, who: when it was accepted, and by whom.
        run: id of the accepted run.
        is_this: whether it is the run of the report.
        commits, orun: of the accepted run and of this one; empty if they say nothing.
        versions: that differ: name, accepted, now.
        figures: that differ: stage, metric, accepted, now, change.
        settings: parameters that differ: stage, parameter, accepted, now.
        more: rows of figures and settings that are left out.
    """

    day: str
    who: str
    run: str
    is_this: bool
    commits: tuple[str, str] | None = None
    orun: tuple[str, str] | None = None
    versions: Sequence[tuple[str, str, str]] = ()
    figures: Sequence[Sequence[str]] = ()
    settings: Sequence[Sequence[str]] = ()
    more: int = 0


def accepted(source: Source) -> Accepted | None:
    """Return the differences; None if nothing was accepted before this run, or the accepted run is not stored."""
    baseline = _baseline(Path(source.result.file))
    run = _accepted_run(source, baseline) if baseline else None
    if baseline is None or run is None or run.started_at > source.result.started_at:
        return None
    stage = next(stage for stage in baseline.stages.values() if stage.run == run.run)
    if run.run in (source.result.run, source.result.repeats):
        return Accepted(stage.day, stage.who, run.run, is_this=True)
    difference = compare(run, source.complete)
    old, new = difference.origins
    figures, settings = _figures(difference), _settings(difference)
    return Accepted(
        day=stage.day,
        who=stage.who,
        run=run.run,
        is_this=False,
        commits=(_commit(old), _commit(new)) if old.commit or new.commit else None,
        orun=(old.orun or ABSENT, new.orun or ABSENT) if old.orun != new.orun else None,
        versions=_versions(difference),
        figures=figures[:MOST],
        settings=settings[:MOST],
        more=max(len(figures) - MOST, 0) + max(len(settings) - MOST, 0),
    )


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


def _commit(origin: Origin) -> str:
    return (origin.commit or ABSENT)[:COMMIT] + (" with edits" if origin.edited else "")


def _versions(difference: RunDifference) -> list[tuple[str, str, str]]:
    versions = {
        (change.subject, change.old or ABSENT, change.new or ABSENT)
        for stage in difference.stages
        for change in stage.inputs
        if change.kind in VERSIONS
    }
    return sorted(versions)


def _figures(difference: RunDifference) -> list[tuple[str, ...]]:
    return [
        (stage.stage, figure.name, *texts, changed(figure.old, figure.new, figure.unit))
        for stage in difference.stages
        for figure in stage.metrics
        if figure.old is not None and figure.new is not None
        for texts in [(show(figure.old, figure.unit), show(figure.new, figure.unit))]
        if texts[0] != texts[1]
    ]


def _settings(difference: RunDifference) -> list[tuple[str, ...]]:
    return [
        (stage.stage, change.subject, plain_value(change.old or ABSENT), plain_value(change.new or ABSENT))
        for stage in difference.stages
        for change in stage.inputs
        if change.kind == ComponentKind.PARAMETER
    ]
