"""Run record: everything that reports are made of, as plain data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orun.core.key_component import Components
from orun.core.metrics import Estimate, Metric, Unit
from orun.core.reason import Reason
from orun.core.renderers import registered
from orun.core.serialization import Record, field
from orun.core.source_location import Position

if TYPE_CHECKING:
    from pandas import DataFrame

Outcome = Literal["built", "cached", "failed", "blocked", "skipped"]
GateOutcome = Literal["passed", "failed", "undecided", "no baseline"]
RunOutcome = Literal["passed", "failed", "undecided", "no baseline", "not judged", "done", "interrupted"]
Trace = Literal["full", "python"]  # of what a stage read: all files that were opened, or those that Python opened
INTERRUPTED = 130  # exit code of a run that the user stopped
FRAME_COLUMNS = ("stage", "metric", "value", "low", "high", "unit", "better", "outcome", "uses")
UNDECIDED = 4  # exit code of a run whose gates could not all be decided, and had to be

# Ends of the names of pipelines that an investigation makes: `orun blame`, `orun bisect`. They are nobody's last run.
ASIDE = (".blame", ".bisect")

# What is said of a stage that is not up to date.
VERBS: Mapping[Outcome, str] = {"failed": "failed", "blocked": "did not run", "skipped": "was skipped"}


class Named:
    """Name of a gate, judged or not."""

    __slots__ = ()

    stage: str
    metric: str
    rule: str
    threshold: str
    scope: str

    @property
    def title(self) -> str:
        """The gate as one reads it: `latency p50 max 12ms`, `latency any of 2`."""
        return " ".join(part for part in (self.stage, self.metric, self.condition) if part)

    @property
    def condition(self) -> str:
        """What it asks for: `max 12ms`; empty for a group."""
        return f"{self.rule} {self.threshold}{self.scope}" if self.threshold else ""


class Verdict(Named, Record, frozen=True):
    """Verdict of a gate.

    Attributes:
        stage, metric, rule, threshold: the gate as the file has it; `threshold` is its text.
        outcome: `passed`, `failed`, `undecided` (measured, and the interval includes the threshold) or `no baseline`
            (nothing is accepted yet to compare with).
        fails: whether it makes the run end with an exit code other than 0: 1 if it failed, else 4.
        measured: the judged value: the metric itself for absolute rules; the drop, increase or slow-down (a proportion
            for a relative threshold) or the speed-up for the others; None when there is nothing to judge.
        unit: of `measured`.
        interval: of `measured`, when it is not exact.
        finding: what was found, with the figures.
        position: the gate's place in the file.
        scope: what it is narrowed to: ` against fused`, ` by label`; else empty.
        depth: how many groups it is in. A group (`all of 2`, `any of 2`) is a verdict of its own, before its members,
            and it is the outermost group that fails the run.
        caveats: what the verdict cannot tell although one may expect it to.
        blocks: whether releases behind it are not built: it failed, or is undecided and does not say
            `undecided: allow`.
    """

    stage: str
    metric: str
    rule: str
    threshold: str
    outcome: GateOutcome
    fails: bool
    measured: float | None
    unit: Unit
    interval: Estimate | None
    finding: Reason
    position: Position
    scope: str = ""
    depth: int = 0
    caveats: tuple[Reason, ...] = ()
    blocks: bool = False

    def __repr__(self) -> str:
        return f"Verdict({self.title!r}, {self.outcome!r}, measured={self.measured})"


class Unjudged(Named, Record, frozen=True):
    """Gate of a stage that measured nothing in this run.

    Attributes:
        stage, metric, rule, threshold: the gate as a verdict on it would have them.
        position: its place in the file.
        scope: what it is narrowed to.
        fails: whether it makes the run fail: of a stage that was skipped, in a strict run.
    """

    stage: str
    metric: str
    rule: str
    threshold: str
    position: Position
    scope: str = ""
    fails: bool = False

    def __repr__(self) -> str:
        return f"Unjudged({self.title!r})"


class Failure(Record, frozen=True):
    """Failure of a stage, as text for people and machines.

    Attributes:
        error: the class below `orun.errors.StageError`.
        what: what went wrong, one sentence.
        why: the cause, one or more lines; may be empty.
        hint: how to mend it; may be empty.
        log: path of the log of its process; empty when it never started.
    """

    error: str
    what: str
    why: str = ""
    hint: str = ""
    log: str = ""


class UnknownName(KeyError):
    """Name that a plan, a run or a stage does not have: a KeyError that says which name was probably meant.

    Not an OrunError: plans and runs are looked up like any mapping.

    Args:
        owner: what was looked up: `run 20260921-141320-1f3c`.
        noun: what the name is of: `stage`, `metric`.
        name: the name that the owner does not have.
        names: the names that it has.
    """

    def __init__(self, owner: str, noun: str, name: str, names: Iterable[str]) -> None:
        super().__init__(name)
        self.owner, self.noun, self.name, self.names = owner, noun, name, tuple(names)

    def __str__(self) -> str:
        from difflib import get_close_matches  # of no use before something is wrong

        close = get_close_matches(self.name, self.names, n=1)
        few = len(self.names) <= 2  # noqa: PLR2004 - `a or b`
        known = " or ".join(self.names) if few else f"one of {', '.join(self.names)}"
        expected = f"expected {known or f'no {self.noun}: it has none'}"
        return f"{self.owner} has no {self.noun} {self.name!r}\n  {f'did you mean {close[0]}?' if close else expected}"


class StageResult(Record, frozen=True):
    """Result of one stage.

    Attributes:
        stage: its id.
        uses: its kind.
        outcome: `built`, `cached`, `failed`, `blocked` (a stage before it failed, or a gate did) or `skipped`.
        reasons: why it ran, or why it did not, the most telling first.
        key: its key; empty when it was never known.
        tree: digest of its artifact; empty when there is none.
        out: the folder that people open; empty when there is none.
        size: bytes of its artifact.
        seconds: wall time it took when it was built (also for a cached one: then, not now).
        built_at: when it was built, seconds since the epoch; 0 when it was not.
        metrics: by name.
        failure: set when it failed.
        position: the stage's place in the file.
        others: digests of other artifacts that the same inputs have made: the stage is not deterministic.
        inputs: all that its result depends on: the components of its key, and its implicit dependencies; none in a run
            that repeats another.
        unjudged: its gates, those in groups left out, where it is not up to date: then none of them was judged.
        wrote: files of the project that it wrote beside its output, by their paths from the pipeline's folder: they do
            not come back with its result.
        needs: ids of the stages right before it, those that guard a release among them.
        notes: what its kind says of the result, a sentence each.
        trace: how much of what it read was seen when it was built: `full`, or `python` where the files that native
            code and other programs opened were not; None where it has no result, or that is not known.
    """

    stage: str
    uses: str
    outcome: Outcome
    reasons: tuple[Reason, ...] = ()
    key: str = ""
    tree: str = ""
    out: str = ""
    size: int = 0
    seconds: float = 0.0
    built_at: float = 0.0
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    failure: Failure | None = None
    position: Position | None = None
    others: tuple[str, ...] = ()
    inputs: Components = ()
    unjudged: tuple[Unjudged, ...] = ()
    wrote: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trace: Trace | None = None

    def __repr__(self) -> str:
        failure = f", failure={self.failure.what!r}" if self.failure else ""
        return f"StageResult({self.stage!r}, {self.outcome!r}, metrics={list(self.metrics)}{failure})"

    def __getitem__(self, metric: str) -> Metric:
        """Return a metric by its name; UnknownName, a KeyError, if the stage has none of that name."""
        if metric in self.metrics:
            return self.metrics[metric]
        raise UnknownName(f"stage {self.stage}", "metric", metric, self.metrics)


class RunResult(Record, frozen=True):
    """Result of a finished run.

    Attributes:
        run: its id, which names its folder in the store.
        pipeline: the pipeline's name.
        file: the pipeline file.
        exit_code: 0 no gate failed, 1 a gate failed, 3 a stage failed, 4 a gate could not be decided and must be, 130
            interrupted.
        seconds: wall time.
        started_at: seconds since the epoch.
        host: name of the machine and what its measurements are bound to.
        stages: in the order of the plan.
        verdicts: by stage, in file order; the members of a group follow it.
        folder: the run's folder: `record.json`, `events.jsonl`, logs.
        overrides: the `--set` values.
        sources: digest of each file that the pipeline was read from, by its path from the pipeline's folder.
        repeats: id of the run whose results this one found unchanged at a glance; empty when it looked at each stage.
        commit: that git had checked out around the pipeline file; empty where there is none, and when it repeats a run.
        orun: its version; empty when it repeats a run.
        not_asked: gates of stages that the run was not asked for, as one reads them.
        edited: files of `sources`, and of code and small texts that its stages rest on, that were not as in that
            commit; None where that is not known.
    """

    run: str
    pipeline: str
    file: str
    exit_code: int
    seconds: float
    started_at: float
    host: Mapping[str, str]
    stages: tuple[StageResult, ...]
    verdicts: tuple[Verdict, ...]
    folder: Path
    overrides: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    repeats: str = ""
    commit: str = ""
    orun: str = ""
    not_asked: tuple[str, ...] = ()
    edited: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        gates = sum(not verdict.depth for verdict in self.verdicts)
        return (
            f"RunResult({self.pipeline!r}, {self.outcome!r}, exit_code={self.exit_code}, "
            f"stages={len(self.stages)}, gates={gates}, run={self.run!r})"
        )

    def __getitem__(self, stage: str) -> StageResult:
        """Return the result of a stage by its id; UnknownName, a KeyError, if the run has none of that name."""
        for result in self.stages:
            if result.stage == stage:
                return result
        raise UnknownName(f"run {self.run}", "stage", stage, [result.stage for result in self.stages])

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0: no stage and no gate failed the run."""
        return self.exit_code == 0

    @property
    def failed(self) -> tuple[StageResult | Verdict | Unjudged, ...]:
        """The stages that failed, then the gates that fail the run."""
        stages = [stage for stage in self.stages if stage.outcome == "failed"]
        verdicts = [verdict for verdict in self.verdicts if verdict.fails]
        unjudged = [gate for stage in self.stages for gate in stage.unjudged if gate.fails]
        return (*stages, *verdicts, *unjudged)

    def to_frame(self) -> DataFrame:
        """Return the metrics as a pandas DataFrame with a row for each stage and metric.

        The columns are `stage`, `metric`, `value`, `low` and `high` (the 95 % interval; empty for exact values),
        `unit`, `better`, `outcome` of the stage and its kind, `uses`.

        Raises:
            ImportError: if pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas, which is not installed: pip install pandas") from error
        rows = [
            (
                stage.stage,
                name,
                metric.value,
                metric.interval.low if metric.interval else None,
                metric.interval.high if metric.interval else None,
                metric.unit,
                metric.better,
                stage.outcome,
                stage.uses,
            )
            for stage in self.stages
            for name, metric in stage.metrics.items()
        ]
        return pd.DataFrame(rows, columns=list(FRAME_COLUMNS))

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the HTML report to a file, as `orun FILE --html` does, and return its path.

        Raises:
            UsageError: if the path is a file that the run has read.
            OSError: if the file cannot be written.
        """
        target = Path(path)
        registered("write_html")(self, target)
        return target

    def _repr_html_(self) -> str:
        html: str = registered("notebook_html")(self)
        return html

    @property
    def outcome(self) -> RunOutcome:
        """The run in a word, that of its gravest gate: `passed` only if every gate that was judged passed.

        `not judged` if there are gates and none was judged, `done` if there are none.
        """
        if self.exit_code == INTERRUPTED:
            return "interrupted"
        if self.exit_code not in (0, UNDECIDED):
            return "failed"
        outcomes = {verdict.outcome for verdict in self.verdicts if not verdict.depth}
        if "undecided" in outcomes:
            return "undecided"
        if "no baseline" in outcomes:
            return "no baseline"
        left_out = any(stage.unjudged for stage in self.stages)
        if left_out and (self.exit_code or not outcomes):
            return "not judged"
        return "passed" if outcomes else "done"
