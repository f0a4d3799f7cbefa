"""Source of the HTML report: the run, and what its folder holds besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orun.blame.diagnosis import Diagnosis
from orun.core.events import Notice, StageFinished, StageStarted, StageWaiting
from orun.core.key_component import Components
from orun.core.run_record import RunResult, StageResult
from orun.errors import StoreError
from orun.eventlog import iter_events, read_repeated
from orun.history.points import Series
from orun.history.run_diff import fill_inputs
from orun.report.blame import read_diagnoses
from orun.report.html.stored import Stored, read_stored
from orun.report.html.templating import assign_anchors
from orun.report.run_options import find_store


@dataclass(frozen=True)
class StageSpan:
    """When a stage waited and ran.

    Attributes:
        stage: its id.
        waited: from when it waited for what others held, in seconds since the run began; None when it did not.
        waited_for: for whom or what it waited last.
        began, ended: of its process, in seconds since the run began.
    """

    stage: str
    waited: float | None
    waited_for: str
    began: float
    ended: float


@dataclass(frozen=True)
class Source:
    """Data of the report.

    Attributes:
        result: the run.
        series: the past of its gated metrics on this machine, up to this run.
        trouble: why the past could not be read; else empty.
        first: the run that looked at each stage: the run that this one repeats if it is still stored, else this one.
        blame: diagnoses of gates that failed.
        spans: when stages ran, in the order of their beginnings.
        notices: other messages of the run.
        stages: id of each stage's row in the document.
        after: the stages right after each stage.
        by_name: the stages of the run.
        inputs: known dependencies of each stage's result.
        stored: what its store has of its results.
    """

    result: RunResult
    series: Sequence[Series]
    trouble: str
    first: RunResult
    blame: Sequence[Diagnosis]
    spans: Sequence[StageSpan]
    notices: Sequence[Notice]
    stages: Mapping[str, str]
    after: Mapping[str, Sequence[str]]
    by_name: Mapping[str, StageResult]
    inputs: Mapping[str, Components]
    stored: Stored

    @property
    def complete(self) -> RunResult:
        """The run with the dependencies of its stages, also if it repeats another run."""
        return fill_inputs(self.result, self.first)

    @property
    def ended(self) -> float:
        """When the run was over, seconds since the epoch."""
        return self.result.started_at + self.result.seconds


def gather(result: RunResult, series: Sequence[Series] = (), trouble: str = "") -> Source:
    """Read what lies in the folder of a run; what is not there is left out."""
    spans, notices = _read_events(result)
    after: dict[str, list[str]] = {}
    for stage in result.stages:
        for name in stage.needs:
            after.setdefault(name, []).append(stage.stage)
    first, by_name = _find_first_run(result), {stage.stage: stage for stage in result.stages}
    return Source(
        result=result,
        series=_drop_later(series, result.started_at + result.seconds),
        trouble=trouble,
        first=first,
        blame=read_diagnoses(result),
        spans=spans,
        notices=notices,
        stages=assign_anchors(stage.stage for stage in result.stages),
        after=after,
        by_name=by_name,
        inputs={stage.stage: stage.inputs for run in (first, result) for stage in run.stages if stage.inputs},
        stored=read_stored(find_store(result), result.stages),
    )


def _drop_later(series: Sequence[Series], moment: float) -> list[Series]:
    """Drop what was measured after a moment: the report on a run would change whenever it is made again."""
    cut = [tuple(point for point in metric_series.points if point.measured_at <= moment) for metric_series in series]
    return [Series(points) for points in cut if points]


def _find_first_run(result: RunResult) -> RunResult:
    try:
        return read_repeated(result)
    except StoreError:  # its record is damaged
        return result


def _read_events(result: RunResult) -> tuple[list[StageSpan], list[Notice]]:
    """Read from the log of the run when stages ran, and its notices."""
    spans: list[StageSpan] = []
    notices: list[Notice] = []
    waiting: dict[str, tuple[float, str]] = {}
    began: dict[str, float] = {}
    try:
        for event, time in iter_events(result.folder / "events.jsonl"):
            moment = max(time - result.started_at, 0.0)
            if isinstance(event, Notice):
                notices.append(event)
            elif isinstance(event, StageWaiting):
                since, _ = waiting.get(event.stage, (moment, ""))
                waiting[event.stage] = since, event.waits_for
            elif isinstance(event, StageStarted):
                began.setdefault(event.stage, moment)
            elif isinstance(event, StageFinished) and (name := event.result.stage) in began:
                since_, waited_for = waiting.get(name, (None, ""))
                spans.append(StageSpan(name, since_, waited_for, began[name], max(moment, began[name])))
    except (OSError, ValueError, KeyError, TypeError):  # no log, or one of another version
        return [], []
    return sorted(spans, key=lambda span: span.began), notices
