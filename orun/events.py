"""What happens in a run, as it happens: the only thing that live reporters read.

Each event is one JSON line of `events.jsonl` in the run's folder: `{"event": "stage_finished", "time": ..., ...}` with
the fields below, `time` in seconds. The first line is `run_started` and carries the version of the format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from orun.codec import encode
from orun.record import StageResult, Verdict

FORMAT = 1


@dataclass(frozen=True)
class RunStarted:
    """A run begins; `stages` are the ids in the order of the plan."""

    run: str
    pipeline: str
    file: str
    stages: tuple[str, ...]
    jobs: int
    format: int = FORMAT


@dataclass(frozen=True)
class StageWaiting:
    """A stage could start but waits for something that other processes hold."""

    stage: str
    what: str


@dataclass(frozen=True)
class StageStarted:
    """The process of a stage was started; `seconds` is how long it took last time, or None."""

    stage: str
    reasons: tuple[str, ...]
    log: str
    seconds: float | None


@dataclass(frozen=True)
class StageProgress:
    """A stage says how far it is; `total` is 0 when it does not know."""

    stage: str
    done: int
    total: int
    what: str


@dataclass(frozen=True)
class StageFinished:
    """A stage is up to date, or will not be."""

    result: StageResult


@dataclass(frozen=True)
class GateJudged:
    """A gate has its verdict."""

    verdict: Verdict


@dataclass(frozen=True)
class Notice:
    """Something that the user should know: a repaired object, a restored output, a missing baseline."""

    level: Literal["info", "warning"]
    text: str


@dataclass(frozen=True)
class RunFinished:
    """The run ended."""

    exit_code: int
    seconds: float


Event = RunStarted | StageWaiting | StageStarted | StageProgress | StageFinished | GateJudged | Notice | RunFinished


def event_to_json(event: Event, time: float) -> dict[str, Any]:
    """The event as the plain data of its line in the log."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()
    return {"event": name, "time": round(time, 3), **encode(event)}
