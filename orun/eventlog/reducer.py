"""Reducer of a run's events to its result, and readers of the records and logs of earlier runs."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

from orun.core.events import Event, GateJudged, RunFinished, RunStarted, StageFinished, parse_event
from orun.core.run_record import RunResult, StageResult
from orun.core.serialization import decode, parse_foreign_json, replace
from orun.core.verdict import Verdict
from orun.fs.bounded_reads import LOG_LIMIT, read_bounded
from orun.fs.observed_state import FOLDER, observe_presence, stat_presence
from orun.store.checksummed_json import build_record_error, read_record
from orun.store.layout import RECORD_FILE


class Reducer:
    """Listener that collects the result of a run."""

    def __init__(self) -> None:
        self._started: RunStarted | None = None
        self._stages: dict[str, StageResult] = {}
        self._verdicts: list[Verdict] = []

    def __call__(self, event: Event) -> None:
        """Add an event."""
        if isinstance(event, RunStarted):
            self._started = event
        elif isinstance(event, StageFinished):
            self._stages[event.result.stage] = event.result
        elif isinstance(event, GateJudged):
            self._verdicts.append(event.verdict)

    def build_result(self, exit_code: int, seconds: float) -> RunResult:
        """Return the result so far; ValueError if the run has not started."""
        if (started := self._started) is None:
            raise ValueError("no run_started among the events")
        order = {name: number for number, name in enumerate(started.stages)}
        return RunResult(
            run=started.run,
            pipeline=started.pipeline,
            file=started.file,
            exit_code=exit_code,
            seconds=seconds,
            started_at=started.started_at,
            host=started.host,
            stages=tuple(self._stages[name] for name in started.stages if name in self._stages),
            verdicts=tuple(sorted(self._verdicts, key=lambda verdict: (order[verdict.stage], verdict.position))),
            folder=started.folder,
            overrides=started.overrides,
            sources=started.sources,
            repeats=started.repeats,
            commit=started.commit,
            orun=started.orun,
        )


def read_result(folder: Path) -> RunResult:
    """Return the result of the run in a folder, with its folders where they are now if its store was moved.

    Raises:
        StoreError: if its record is missing, unreadable, damaged or of another version of orun.
    """
    path = folder / RECORD_FILE
    record = read_record(path)
    try:
        result = decode(RunResult, record)
    except ValueError as error:
        raise build_record_error(path, "is not one that this version of orun can read", error) from error
    return result if result.folder == folder else _move(result, folder)


def read_repeated(result: RunResult) -> RunResult:
    """Return the run that a run repeats, which has looked at each stage; the run itself if that was collected.

    Raises:
        StoreError: as `read_result` does.
    """
    folder = result.folder.parent / result.repeats
    return read_result(folder) if result.repeats and stat_presence(folder / RECORD_FILE) else result


def _move(result: RunResult, folder: Path) -> RunResult:
    """Return a result with another folder; output checkouts that are not in the store there are left out."""
    old, new = (run.parent.parent for run in (result.folder, folder))

    def move(out: str) -> str:
        path = new / os.path.relpath(out, old)
        return str(path) if observe_presence(path) == FOLDER else ""

    stages = (replace(stage, out=move(stage.out)) if stage.out else stage for stage in result.stages)
    return replace(result, folder=folder, stages=tuple(stages))


def iter_events(path: Path) -> Iterator[tuple[Event, float]]:
    """Yield the events of a log, each with its time in seconds since the epoch.

    Raises:
        OSError: if the file cannot be read.
        KeyError, ValueError: if a line is no event that this version can read.
    """
    for line in io.BytesIO(read_bounded(path, LOG_LIMIT)):
        data = parse_foreign_json(line)
        yield parse_event(data), data["time"]


def read_log(path: Path) -> RunResult:
    """Return the result of a run from its event log.

    Raises:
        OSError: if the file cannot be read.
        KeyError, ValueError: if it is no event log of a finished run that this version can read.
    """
    reducer = Reducer()
    event: Event | None = None
    for event, _ in iter_events(path):
        reducer(event)
    if not isinstance(event, RunFinished):
        raise ValueError("the run has not ended")  # noqa: TRY004 - the events are valid, the end is missing
    return replace(reducer.build_result(event.exit_code, event.seconds), edited=event.edited)
