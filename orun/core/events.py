"""Events of a run, the only source of reports.

Each event is one line of `events.jsonl` in the run's folder, a JSON object: `version` of the format, `event`
(`stage_finished`), `time` in seconds since the epoch, and the fields below. Fields with their default are left out.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from orun.core.reason import Reason
from orun.core.run_record import StageResult
from orun.core.serialization import Record, decode, field
from orun.core.verdict import Verdict

VERSION = 3  # raise it when a field or an event goes, or changes its meaning; new fields need no new version


class RunStarted(Record, frozen=True):
    """A run begins; the first event.

    Attributes:
        run: the run's id.
        pipeline: the pipeline's name.
        file: the pipeline file.
        stages: ids of its stages, in the order of the plan.
        jobs: cores that it may keep busy; 0 when it repeats another run.
        started_at: time of the request, seconds since the epoch.
        host: name of the machine and what its measurements are bound to.
        folder: the run's folder.
        overrides: the `--set` values.
        sources: digest of each file that the pipeline was read from, by its path from the pipeline's folder.
        repeats: id of the run whose results this one found unchanged at a glance; empty when it looks at each stage.
        commit: the commit that git has checked out around the pipeline file; empty without git, in a repeated run,
            and in a run within a stage.
        orun: its version; empty when it repeats a run.
        expected: seconds that each stage which may run took last time, or null where that is not known; empty when it
            repeats a run.
    """

    run: str
    pipeline: str
    file: str
    stages: tuple[str, ...]
    jobs: int
    started_at: float
    host: Mapping[str, str]
    folder: Path
    overrides: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    repeats: str = ""
    commit: str = ""
    orun: str = ""
    expected: Mapping[str, float | None] = field(default_factory=dict)


class StageWaiting(Record, frozen=True):
    """A stage could start but waits for something that other processes hold.

    Attributes:
        stage: the stage's id.
        waits_for: for whom or what.
    """

    stage: str
    waits_for: str


class StageStarted(Record, frozen=True):
    """The process of a stage was started.

    Attributes:
        stage: the stage's id.
        reasons: why it runs, the most telling first.
        log: path of the file that takes everything it prints.
        seconds: how long it took last time; null when that is not known.
        machine: id of the machine that runs it; left out for the machine of the run.
    """

    stage: str
    reasons: tuple[Reason, ...]
    log: str
    seconds: float | None
    machine: str = ""


class StageProgress(Record, frozen=True):
    """A stage says how far it is.

    Attributes:
        stage: the stage's id.
        done: how much is done.
        total: of how much; 0 when it does not know.
        unit: what it counts.
    """

    stage: str
    done: int
    total: int
    unit: str


class StageFinished(Record, frozen=True):
    """A stage is up to date, or will not be.

    Attributes:
        result: what became of it.
    """

    result: StageResult


class GateJudged(Record, frozen=True):
    """A gate has its verdict.

    Attributes:
        verdict: the verdict.
    """

    verdict: Verdict


class Notice(Record, frozen=True):
    """Something that the user should know: a repaired object, a restored output, a stage that is not deterministic.

    Attributes:
        level: `info` or `warning`.
        text: one sentence.
    """

    level: Literal["info", "warning"]
    text: str


class Planning(Record, frozen=True):
    """A run finds out what it has to do, before it starts: for listeners only, in no log.

    Attributes:
        activity: what begins now: `planning int8 (3 of 10): reading weights.bin`; empty when an error has ended it.
    """

    activity: str


class RunFinished(Record, frozen=True):
    """The run ended; the last event of a run that was not killed.

    Attributes:
        exit_code: that of the command: 0 no gate failed, 1 a gate failed, 3 a stage failed, 4 a gate could not be
            decided and must be, 130 interrupted.
        seconds: wall time.
        edited: files that the run depends on and that differed from its commit; left out if that is not known.
    """

    exit_code: int
    seconds: float
    edited: tuple[str, ...] | None = None


Logged = RunStarted | StageWaiting | StageStarted | StageProgress | StageFinished | GateJudged | Notice | RunFinished
Event = Logged | Planning
KINDS: tuple[type[Logged], ...] = typing.get_args(Logged)


def name_kind(kind: type) -> str:
    """Return the name of a kind of event in the log: `stage_finished`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


NAMES: Mapping[type, str] = {kind: name_kind(kind) for kind in KINDS}


def build_line(event: Event, encoded: Mapping[str, Any], time: float) -> dict[str, Any]:
    """Return the plain data of an event's line in the log; `encoded` are its fields as `encode` returns them."""
    return {"version": VERSION, "event": NAMES[type(event)], "time": round(time, 3), **encoded}


def parse_event(line: Mapping[str, Any]) -> Event:
    """Return the event of a line of the log.

    Raises:
        KeyError, ValueError: if it is no event that this version reads.
    """
    if line["version"] != VERSION:
        raise ValueError(f"the event log has version {line['version']}, and this orun reads version {VERSION}")
    kind = {name: kind for kind, name in NAMES.items()}[line["event"]]
    return decode(kind, {name: value for name, value in line.items() if name not in ("version", "event", "time")})
