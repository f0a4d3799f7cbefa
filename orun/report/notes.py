"""Notes of stages on their results, and on the files that they wrote beside their output."""

from __future__ import annotations

from orun.core.run_record import RunResult, StageResult
from orun.fs.os_errors import quote
from orun.report.run_options import format_run_options
from orun.report.terminal import Terminal
from orun.text.counts import count
from orun.text.suggestions import show_path

SHOWN = 3  # files of a stage; the record names them all


def format_stage_notes(result: RunResult, terminal: Terminal) -> list[str]:
    """Return a line for each note, in the order of the plan."""
    label = terminal.paint("note", "doubt")
    return [f"{label}: {stage.stage}: {note}" for stage in result.stages for note in stage.notes]


def format_undeclared_writes(result: RunResult, terminal: Terminal) -> list[str]:
    """Return a line for each stage that wrote beside its output, in the order of the plan."""
    label = terminal.paint("warning", "doubt")
    return [f"{label}: {describe_undeclared_write(result, stage)}" for stage in result.stages if stage.wrote]


def describe_undeclared_write(result: RunResult, stage: StageResult) -> str:
    """Return what a stage wrote beside its output, why that is no good, and what to do."""
    rest = len(stage.wrote) - SHOWN
    files = ", ".join(stage.wrote[:SHOWN]) + (f" and {count(rest, 'more file')}" if rest > 0 else "")
    again = f"orun {quote(show_path(result.file))} --force {quote(stage.stage)}{format_run_options(result)}"
    return (
        f"{stage.stage} wrote beside its output: {files}; that does not come back with its stored result, so write to "
        f"context.output; to have it written again: {again}"
    )
