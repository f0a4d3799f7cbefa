"""Run record: all facts for reports, as plain data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orun.core.key_component import Components
from orun.core.metrics import Metric
from orun.core.named_items import NamedItems
from orun.core.reason import Reason
from orun.core.renderers import load_renderer
from orun.core.serialization import Record, field
from orun.core.source_location import Position
from orun.core.verdict import Unjudged, Verdict

if TYPE_CHECKING:
    from pandas import DataFrame

Outcome = Literal["built", "cached", "failed", "blocked", "skipped"]
RunOutcome = Literal["passed", "failed", "undecided", "no baseline", "not judged", "done", "interrupted"]
Trace = Literal["full", "python"]  # of what a stage read: all opened files, or only those that Python opened
INTERRUPTED = 130  # exit code of a run that the user stopped
UNDECIDED = 4  # exit code of a run in which a required gate could not be decided

# Suffixes of the pipelines of an investigation (`orun blame`, `orun bisect`), which are nobody's last run.
INVESTIGATIONS = (".blame", ".bisect")
BY_INIT = ".init"  # `Pipeline.run_suffix` of the runs by which `orun init` measures


def is_users(run: str) -> bool:
    """Return whether a run, by its id, is one that a user asked for, and no investigation or measurement of orun."""
    return not run.endswith((*INVESTIGATIONS, BY_INIT))


class Failure(Record, frozen=True):
    """Failure of a stage, as text for people and machines.

    Attributes:
        error: class below `orun.errors.StageError`.
        problem: what went wrong, one sentence.
        why: cause, one or more lines; may be empty.
        hint: how to fix it; may be empty.
        log: path of the log of its process; empty when it never started.
        advice: the part of the hint that holds for every run, without the log and the command.
        command: the command in the hint that runs the stage alone where the run was; empty if the hint has none.
        code: line of the user's code or of the kind's that raised it, which `why` names; None if unknown.
        settings: values of the stage's parameters with which it would not have failed so.
    """

    error: str
    problem: str
    why: str = ""
    hint: str = ""
    log: str = ""
    advice: str = ""
    command: str = ""
    code: Position | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


class StageResult(NamedItems[Metric], Record, frozen=True):
    """Result of one stage.

    Attributes:
        stage: its id.
        uses: its kind.
        outcome: `built`, `cached`, `failed`, `blocked` (a stage or gate before it failed) or `skipped`.
        reasons: why it ran or not, the most telling first.
        key: its cache key; empty when unknown.
        tree: digest of its artifact; empty without one.
        out: its output checkout; empty without one.
        size: bytes of its artifact.
        seconds: wall time of its build, even if that was in an earlier run.
        built_at: time of its build, in seconds since the epoch; 0 without one.
        metrics: its metrics by name.
        failure: set when it failed.
        position: its place in the file.
        other_trees: digests of other artifacts from the same inputs: the stage is not deterministic.
        inputs: key components and implicit dependencies; none in a run that repeats another.
        unjudged: its gates outside of groups, when it is not up to date, so that none was judged.
        wrote: undeclared writes, by their paths from the pipeline's folder; they do not come back with its result.
        needs: ids of the stages right before it, guards of a release included.
        notes: sentences of its kind on the result.
        trace: `full`, or `python` when files opened by native code and other programs were not seen; None: unknown.
        machine: id of the machine of a fleet that built it, if only in an earlier run, or on which it failed; empty if
            none did.
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
    other_trees: tuple[str, ...] = ()
    inputs: Components = ()
    unjudged: tuple[Unjudged, ...] = ()
    wrote: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trace: Trace | None = None
    machine: str = ""

    def __repr__(self) -> str:
        failure = f", failure={self.failure.problem!r}" if self.failure else ""
        return f"StageResult({self.stage!r}, {self.outcome!r}, metrics={list(self.metrics)}{failure})"

    def list_items(self) -> Mapping[str, Metric]:
        """Return the metrics by name."""
        return self.metrics

    def describe(self) -> tuple[str, str]:
        """Return what messages call it and its items."""
        return f"stage {self.stage}", "metric"


class ChangedSetting(Record, frozen=True):
    """Kind or parameter of a stage that differs from the accepted one.

    Attributes:
        stage: the stage's id.
        name: the parameter; `uses` for the kind.
        accepted, current: its values: JSON for a parameter.
    """

    stage: str
    name: str
    accepted: str
    current: str


class RunResult(NamedItems[StageResult], Record, frozen=True):
    """Result of a finished run.

    Attributes:
        run: its id, which names its folder in the store.
        pipeline: the pipeline's name.
        file: the pipeline file.
        exit_code: 0 no gate failed, 1 a gate failed, 3 a stage failed, 4 a required gate is undecided, 130 interrupted.
        seconds: wall time.
        started_at: seconds since the epoch.
        host: name of the machine, and the facts that bind its measurements.
        stages: results in the order of the plan.
        verdicts: verdicts by stage, in file order; the members of a group follow it.
        folder: the run's folder: `record.json`, `events.jsonl`, logs.
        overrides: the `--set` values.
        sources: digest of each file of the pipeline, by its path from the pipeline's folder.
        repeats: id of the run that this one repeats because nothing changed; else empty.
        commit: git's commit of the pipeline file; empty without one, when it repeats a run, and within a stage.
        orun: version of orun; empty when it repeats a run.
        not_asked: gates of stages outside of the run's selection, for people.
        edited: files of `sources` and small files that stages depend on that differ from the commit; None when unknown.
        changed_settings: kinds and parameters that differ from the accepted baseline.
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
    changed_settings: tuple[ChangedSetting, ...] = ()

    def __repr__(self) -> str:
        gates = sum(not verdict.depth for verdict in self.verdicts)
        return (
            f"RunResult({self.pipeline!r}, {self.outcome!r}, exit_code={self.exit_code}, "
            f"stages={len(self.stages)}, gates={gates}, run={self.run!r})"
        )

    def list_items(self) -> Mapping[str, StageResult]:
        """Return the results of the stages by their ids."""
        return {result.stage: result for result in self.stages}

    def describe(self) -> tuple[str, str]:
        """Return what messages call it and its items."""
        return f"run {self.run}", "stage"

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
        frame: DataFrame = load_renderer("to_frame")(self)
        return frame

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the HTML report to a file, as `orun FILE --html` does, and return its path.

        Raises:
            UsageError: if the path is a file that the run has read.
            OSError: if the file cannot be written.
        """
        target = Path(path)
        load_renderer("write_html")(self, target)
        return target

    def _repr_html_(self) -> str:
        html: str = load_renderer("notebook_html")(self)
        return html

    @property
    def outcome(self) -> RunOutcome:
        """Outcome of the gravest gate; `not judged` if no gate was judged, `done` if there is none."""
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


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C in a run, which has ended in order since: its stages are stopped, and what is done is kept.

    Attributes:
        result: what became of each stage.
    """

    def __init__(self, result: RunResult) -> None:
        super().__init__("interrupted")
        self.result = result
