"""A run as Markdown, for a pull request or the step summary of a CI system."""

from __future__ import annotations

import re

from orun.core.open_gates import list_open_gates
from orun.core.run_record import RunResult, StageResult
from orun.core.verdict import Unjudged, Verdict
from orun.report.blame import join_diagnoses, read_diagnoses
from orun.report.failures import format_portable_failure
from orun.report.gates import (
    INDENT,
    NOT_ASKED,
    NOT_JUDGED,
    explain_unjudged,
    explain_verdict,
    format_caveat_notes,
    format_gate,
    format_settings_note,
    iter_unjudged,
)
from orun.report.notes import format_stage_notes, format_undeclared_writes
from orun.report.stages import SHORT, format_stage
from orun.report.summary import summarize
from orun.report.terminal import Terminal
from orun.text.markdown import escape, format_table
from orun.text.positions import format_position

PLAIN = Terminal()


def render_markdown(result: RunResult) -> str:
    """Return the Markdown document of a run."""
    blocks = [
        f"## {escape(result.pipeline)}",
        escape("; ".join(summarize(result, PLAIN))),
        *_format_checklist(result),
        *([escape(note)] if (note := format_settings_note(result)) else []),
        *[escape(note) for note in format_caveat_notes(result, PLAIN)],
        *_format_diagnoses(result),
        *_format_stages(result),
        *[escape(note) for note in format_undeclared_writes(result, PLAIN)],
        *[escape(note) for note in format_stage_notes(result, PLAIN)],
        *[_format_failure(result, stage) for stage in result.stages if stage.failure],
        f"_{escape(_format_origin(result))}_",
    ]
    return "\n\n".join(blocks) + "\n"


def _format_diagnoses(result: RunResult) -> list[str]:
    """Return what was found out about gates that failed."""
    lines = [
        f"- **{escape(diagnosis.gate)}**: {escape('; '.join(filter(None, (diagnosis.sentence, diagnosis.stopped))))}"
        for diagnosis in join_diagnoses(read_diagnoses(result))
    ]
    return ["### Culprit", "\n".join(lines)] if lines else []


def _format_origin(result: RunResult) -> str:
    """Return what it was a run of: `run 20261128-0930-bert on ci-3, commit 1f0c9a2b7d3e, orun 0.2.0`."""
    machine = f" on {result.host['host']}" if result.host.get("host") else ""
    versions = [f"commit {result.commit[:SHORT]}"] if result.commit else []
    return ", ".join([f"run {result.run}{machine}", *versions, *([f"orun {result.orun}"] if result.orun else [])])


def _format_stages(result: RunResult) -> list[str]:
    titles = ["stage", "result", "time", "size", "metrics"]
    rows = [[*format_stage(result, stage)] for stage in result.stages]
    if any(stage.machine for stage in result.stages):
        for row, text in zip([titles, *rows], ["machine", *(stage.machine for stage in result.stages)], strict=True):
            row.insert(2, text)
    return ["### Stages", format_table(titles, rows)] if rows else []


def _format_checklist(result: RunResult) -> list[str]:
    """Return a task for each gate, ticked if it passed. Members of a group stand below it."""
    unsolved = list_open_gates(result.verdicts)
    lines = [
        f"{INDENT * verdict.depth}- {_format_task(verdict, explained=verdict in unsolved)}"
        for verdict in result.verdicts
    ]
    lines += [f"- {_render_open_item(stage, gate)}" for stage, gate in iter_unjudged(result)]
    lines += [f"- [ ] **{escape(title)}**, **{NOT_ASKED}**" for title in result.not_asked]
    return ["### Release checklist", "\n".join(lines)] if lines else []


def _format_task(verdict: Verdict, *, explained: bool) -> str:
    """Return `[x] **latency p50** max 12ms: 9.4 ms (9.1 ms to 9.8 ms)`."""
    name, figure, interval, condition = format_gate(verdict)
    text = f"**{escape(name.strip())}**" + (f" {escape(condition)}" if condition else "")
    if verdict.measured is not None:
        text += f": {escape(figure)}" + (f" ({escape(interval)})" if interval else "")
    tick = f"[{'x' if verdict.outcome == 'passed' else ' '}] {text}"
    if not explained:
        return tick if verdict.outcome == "passed" else f"{tick}, {verdict.outcome}"
    fails = " (fails the run)" if verdict.fails and verdict.outcome != "failed" else ""
    position = escape(format_position(verdict.position))
    return f"{tick}, **{verdict.outcome}**{fails}: {escape(explain_verdict(verdict))} ({position})"


def _render_open_item(stage: StageResult, gate: Unjudged) -> str:
    """Return `[ ] **latency p50** max 12ms, **not judged**: latency was skipped: ... (bert.yaml:40:7)`."""
    name = f"**{escape(f'{gate.stage} {gate.metric}')}**" + (f" {escape(gate.condition)}" if gate.condition else "")
    fails = " (fails the run)" if gate.fails else ""
    position = escape(format_position(gate.position))
    return f"[ ] {name}, **{NOT_JUDGED}**{fails}: {escape(explain_unjudged(stage))} ({position})"


def _format_failure(result: RunResult, stage: StageResult) -> str:
    text = "\n".join(format_portable_failure(result, stage))
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"
