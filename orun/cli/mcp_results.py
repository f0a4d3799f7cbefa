"""Results of the tools of `orun mcp`. Their fields are those of the verbs' JSON output that an assistant needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Number = float | Literal["inf", "-inf", "nan"]  # JSON has no word for the latter


@dataclass(frozen=True)
class PipelineFile:
    """Pipeline file, how many problems it has, and the first of them; `validate` reports all."""

    file: str
    pipeline: str
    stages: int
    problems: int
    error: str = ""


@dataclass(frozen=True)
class PipelineFiles:
    """Pipeline files of the server's folder."""

    pipelines: tuple[PipelineFile, ...]


@dataclass(frozen=True)
class Stage:
    """Stage of a pipeline: its kind, the stage at each input port, the stages that it waits for, its gates."""

    stage: str
    uses: str
    location: str
    needs: Mapping[str, str]
    after: tuple[str, ...]
    gates: tuple[str, ...]


@dataclass(frozen=True)
class Stages:
    """Stages of a pipeline in the order in which they may run."""

    pipeline: str
    stages: tuple[Stage, ...]


@dataclass(frozen=True)
class Problem:
    """Mistake in a file, or what a stage lacks on this machine."""

    location: str
    message: str
    expected: str = ""
    suggestion: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Validation:
    """Every mistake of a pipeline file; notes name what the file declares and does not use."""

    valid: bool
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class PlannedStage:
    """Decision on a stage. `seconds` is how long it took the last time."""

    stage: str
    uses: str
    action: Literal["run", "cached", "maybe", "skipped", "blocked"]
    reasons: tuple[str, ...]
    seconds: float | None


@dataclass(frozen=True)
class Plan:
    """Decisions on all stages, and why a run would refuse to start."""

    pipeline: str
    steps: tuple[PlannedStage, ...]
    refused: tuple[Problem, ...]


@dataclass(frozen=True)
class Change:
    """Named value in the old and the new state; null where there is none."""

    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class Explanation:
    """Decision on a stage, the parts of its cache key, and what changed since its last run."""

    stage: str
    uses: str
    action: Literal["run", "cached", "maybe", "skipped", "blocked"]
    reasons: tuple[str, ...]
    key: str
    parts: Mapping[str, str]
    changed: tuple[Change, ...]


@dataclass(frozen=True)
class Measurement:
    """Value of a metric in a run, with its 95 % interval if it is not exact."""

    run: str
    value: Number
    low: Number | None = None
    high: Number | None = None


@dataclass(frozen=True)
class LevelChange:
    """Run from which on the level of a series was another one."""

    run: str
    before: Number
    after: Number


@dataclass(frozen=True)
class Series:
    """Measurements of a metric on one machine, the oldest first."""

    pipeline: str
    stage: str
    metric: str
    unit: str
    machine: str
    points: tuple[Measurement, ...]
    changes: tuple[LevelChange, ...]


@dataclass(frozen=True)
class MetricHistory:
    """Measurements over time, by pipeline, stage, metric and machine."""

    series: tuple[Series, ...]


@dataclass(frozen=True)
class Node:
    """Node of a model with its share of the error or of the slow-down."""

    node: str
    op: str
    share: Number


@dataclass(frozen=True)
class Diagnosis:
    """Cause of a failed gate, in a sentence, with the stage and the nodes behind it."""

    gate: str
    sentence: str
    culprit: str = ""
    places: tuple[Node, ...] = ()
    stopped: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Blame:
    """Gates that failed in a run, and what is known of the causes."""

    run: str
    failed: tuple[str, ...]
    blame: tuple[Diagnosis, ...]
    next_command: str


@dataclass(frozen=True)
class Interval:
    """95 % confidence interval."""

    low: Number
    high: Number


@dataclass(frozen=True)
class Metric:
    """Measured value; its interval is null if it is exact."""

    value: Number
    unit: str = ""
    better: str = "neither"
    interval: Interval | None = None


@dataclass(frozen=True)
class Failure:
    """Failure of a stage: what happened, why, the next command, the log."""

    problem: str
    why: str = ""
    hint: str = ""
    log: str = ""


@dataclass(frozen=True)
class StageResult:
    """Result of a stage. `out` is the folder of its output."""

    stage: str
    uses: str
    outcome: Literal["built", "cached", "failed", "blocked", "skipped"]
    reasons: tuple[str, ...] = ()
    out: str = ""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    failure: Failure | None = None


@dataclass(frozen=True)
class Verdict:
    """Verdict of a gate, with the figures in a sentence."""

    stage: str
    metric: str
    rule: str
    threshold: str
    outcome: Literal["passed", "failed", "undecided", "no baseline"]
    fails: bool
    why: str = ""


@dataclass(frozen=True)
class RunResult:
    """Result of a run. The exit code is 0 if no gate failed, 1 if one did, 3 if a stage failed, 4 if undecided."""

    run: str
    outcome: str
    exit_code: int
    seconds: float
    stages: tuple[StageResult, ...]
    verdicts: tuple[Verdict, ...] = ()
    blame: tuple[Diagnosis, ...] = ()
