"""The table of stages: what happened to each and why, what it took, what it made."""

from __future__ import annotations

from collections.abc import Sequence

from orun.core.reason import Reason
from orun.core.run_record import Outcome, RunResult, StageResult
from orun.report.figures import format_age, format_headline
from orun.report.table import Cell, Column, render
from orun.report.terminal import Style, Terminal
from orun.text.units import show

STYLES: dict[Outcome, Style] = {
    "built": "good",
    "cached": "dim",
    "failed": "bad",
    "blocked": "doubt",
    "skipped": "doubt",
}
COLUMNS = (
    Column("stage"),
    Column("result", flexible=True),
    Column("machine"),
    Column("time", "right"),
    Column("size", "right"),
    Column("metrics", flexible=True),
)
KEY_COLUMNS = (Column("key"), Column("artifact"))
SHORT = 12  # characters of a digest that tell two apart for people


def format_stage_table(result: RunResult, terminal: Terminal, *, verbose: bool = False) -> list[str]:
    """Return the lines of the table; verbose adds every reason, the key and the artifact's digest."""
    rows: list[list[Cell]] = []
    for stage in result.stages:
        name, outcome, *rest = format_stage(result, stage, every=verbose)
        digests = [Cell(digest[:SHORT], "dim") for digest in (stage.key, stage.tree)] if verbose else []
        cells = map(Cell, (stage.machine, *rest))
        rows.append([Cell(name, "strong"), Cell(outcome, STYLES[stage.outcome]), *cells, *digests])
    return render(COLUMNS + KEY_COLUMNS if verbose else COLUMNS, rows, terminal)


def format_stage(result: RunResult, stage: StageResult, *, every: bool = False) -> tuple[str, str, str, str, str]:
    """Return the cells of a stage: name, what happened and why, time in this run, size, main metrics."""
    gated = [verdict.metric for verdict in result.verdicts if verdict.stage == stage.stage]
    return (
        stage.stage,
        stage.outcome + describe_outcome(result, stage, every=every),
        show(stage.seconds, "s") if stage.outcome in ("built", "failed") and stage.seconds else "",
        show(stage.size, "B") if stage.size else "",
        format_headline(stage.metrics, gated),
    )


def describe_outcome(result: RunResult, stage: StageResult, *, every: bool = False) -> str:
    """Return what follows a stage's outcome: `: opset changed from 17 to 20`, `, measured 3 hours ago`, ..."""
    if stage.failure:
        return f": {stage.failure.problem}"
    text = ", not deterministic" if stage.other_trees else ""
    if stage.outcome == "cached" and not every:
        is_timing = stage.built_at and any(metric.noise == "timing" for metric in stage.metrics.values())
        age = result.started_at + result.seconds - stage.built_at
        return f"{text}, measured {format_age(age)}" if is_timing else text
    return f"{text}: {format_reasons(stage.reasons, every=every)}" if stage.reasons else text


def format_reasons(reasons: Sequence[Reason], *, every: bool = False) -> str:
    """Return the most telling reason and how many more there are, or every reason."""
    if not reasons:
        return ""
    from orun.text.wording.reasons import describe_reason, describe_reasons  # a run with nothing to do says no reasons

    if every or len(reasons) == 1:
        return "; ".join(describe_reasons(reasons))
    return f"{describe_reason(reasons[0])} (and {len(reasons) - 1} more)"
