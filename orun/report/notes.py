"""Notes of stages on their results."""

from __future__ import annotations

from orun.core.run_record import RunResult
from orun.report.terminal import Terminal


def stage_notes(result: RunResult, terminal: Terminal) -> list[str]:
    """A line for each note, in the order of the plan."""
    label = terminal.paint("note", "doubt")
    return [f"{label}: {stage.stage}: {note}" for stage in result.stages for note in stage.notes]
