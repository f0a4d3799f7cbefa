"""Notes of stages on their results."""

from __future__ import annotations

from orun.core.run_record import RunResult
from orun.report.terminal import Terminal


def said_notes(result: RunResult) -> list[tuple[str, str]]:
    """The id of a stage, and a sentence of it, in the order of the plan."""
    return [(stage.stage, note) for stage in result.stages for note in stage.notes]


def stage_notes(result: RunResult, terminal: Terminal) -> list[str]:
    """A line for each of them."""
    label = terminal.paint("note", "doubt")
    return [f"{label}: {stage}: {note}" for stage, note in said_notes(result)]
