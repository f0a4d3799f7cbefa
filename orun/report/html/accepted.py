"""Changes since the accepted release: figures, sizes, versions, commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from orun.core.component_kinds import ComponentKind
from orun.core.metrics import Unit
from orun.core.run_record import RunResult
from orun.errors import OrunError
from orun.eventlog import read_repeated, read_result
from orun.gates.baseline_file import Baseline, locate_baseline, read_file
from orun.history.run_diff import Origin, RunDifference, compare, fill_inputs
from orun.report.figures import ABSENT
from orun.report.html.source import Source
from orun.report.html.templating import format_parameter
from orun.report.stages import SHORT
from orun.text.units import show, show_change

VERSIONS = (ComponentKind.TOOL, ComponentKind.PACKAGE, ComponentKind.PYTHON, ComponentKind.IMPORTED)
MOST = 40  # rows; `orun diff` has them all


@dataclass(frozen=True)
class Accepted:
    """Differences from the accepted release, as texts.

    Attributes:
        day, who: when it was accepted, and by whom.
        run: id of the accepted run.
        is_this: whether it is the run of the report.
        is_stored: whether the store has the accepted run; else only what the baseline file holds is compared.
        commits, orun: of the accepted run and of this one; empty if they say nothing.
        versions: that differ: name, accepted, now.
        figures: that differ: stage, metric, accepted, now, change.
        settings: parameters that differ, and kinds (`uses`) without the stored run: stage, name, accepted, now.
        more: rows of figures and settings that are left out.
    """

    day: str
    who: str
    run: str
    is_this: bool = False
    is_stored: bool = True
    commits: tuple[str, str] | None = None
    orun: tuple[str, str] | None = None
    versions: Sequence[tuple[str, str, str]] = ()
    figures: Sequence[Sequence[str]] = ()
    settings: Sequence[Sequence[str]] = ()
    more: int = 0


def compare_with_accepted(source: Source) -> Accepted | None:
    """Return the differences; None if nothing was accepted before this run."""
    baseline = _read_baseline(Path(source.result.file))
    if baseline is None or not baseline.stages:
        return None
    (main_run, _), *_ = Counter(stage.run for stage in baseline.stages.values()).most_common(1)
    stage = next(stage for stage in baseline.stages.values() if stage.run == main_run)
    accepted = Accepted(stage.day, stage.who, stage.run)
    if stage.run in (source.result.run, source.result.repeats):
        return replace(accepted, is_this=True)
    if run := _read_run(source, stage.run):
        return _compare_with_run(source, run, accepted) if run.started_at <= source.result.started_at else None
    is_later = stage.date > datetime.fromtimestamp(source.result.started_at, UTC).isoformat(timespec="seconds")
    return None if is_later else _compare_with_file(source, baseline, accepted)


def _compare_with_run(source: Source, run: RunResult, accepted: Accepted) -> Accepted:
    """Return the differences from the accepted run."""
    difference = compare(run, source.complete)
    old, new = difference.origins
    versions = {
        (change.subject, change.old or ABSENT, change.new or ABSENT)
        for stage in difference.stages
        for change in stage.inputs
        if change.kind in VERSIONS
    }
    return replace(
        _show_most(accepted, _list_figures(difference), _list_settings(difference)),
        commits=(_format_commit(old), _format_commit(new)) if old.commit or new.commit else None,
        orun=(old.orun or ABSENT, new.orun or ABSENT) if old.orun != new.orun else None,
        versions=sorted(versions),
    )


def _compare_with_file(source: Source, baseline: Baseline, accepted: Accepted) -> Accepted:
    """Return the differences from what the baseline file holds."""
    figures = _format_differing(
        (result.stage, name, metric.unit, old.metrics[name].value, metric.value)
        for result in source.complete.stages
        if (old := baseline.stages.get(result.stage))
        for name, metric in result.metrics.items()
        if name in old.metrics
    )
    settings = [
        (setting.stage, setting.name, format_parameter(setting.accepted), format_parameter(setting.current))
        for setting in source.result.changed_settings
    ]
    return replace(_show_most(accepted, figures, settings), is_stored=False)


def _show_most(accepted: Accepted, figures: Sequence[Sequence[str]], settings: Sequence[Sequence[str]]) -> Accepted:
    more = sum(max(len(rows) - MOST, 0) for rows in (figures, settings))
    return replace(accepted, figures=figures[:MOST], settings=settings[:MOST], more=more)


def _read_baseline(file: Path) -> Baseline | None:
    try:
        return read_file(locate_baseline(file))
    except (OrunError, ValueError):  # the run has said what is wrong with it; a file of a name that is no path
        return None


def _read_run(source: Source, name: str) -> RunResult | None:
    """Return a run with the dependencies of its stages; None if the store does not have it."""
    try:
        run = read_result(source.result.folder.parent / name)
        return fill_inputs(run, read_repeated(run))
    except OrunError:  # it was collected, or ran elsewhere
        return None


def _format_commit(origin: Origin) -> str:
    return (origin.commit or ABSENT)[:SHORT] + (" with edits" if origin.edited else "")


def _list_figures(difference: RunDifference) -> list[tuple[str, ...]]:
    return _format_differing(
        (stage.stage, figure.name, figure.unit, figure.old, figure.new)
        for stage in difference.stages
        for figure in stage.metrics
        if figure.old is not None and figure.new is not None
    )


def _format_differing(figures: Iterable[tuple[str, str, Unit, float, float]]) -> list[tuple[str, ...]]:
    """Return stage, metric, accepted, now and change of the figures whose texts differ."""
    return [
        (stage, name, *texts, show_change(old, new, unit))
        for stage, name, unit, old, new in figures
        for texts in [(show(old, unit), show(new, unit))]
        if texts[0] != texts[1]
    ]


def _list_settings(difference: RunDifference) -> list[tuple[str, ...]]:
    return [
        (stage.stage, change.subject, format_parameter(change.old or ABSENT), format_parameter(change.new or ABSENT))
        for stage in difference.stages
        for change in stage.inputs
        if change.kind == ComponentKind.PARAMETER
    ]
