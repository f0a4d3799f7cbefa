"""Options of a command that goes on from a run: its values and its store."""

from __future__ import annotations

from pathlib import Path

from orun.core.run_record import RunResult
from orun.store.layout import format_command_options


def format_run_options(result: RunResult) -> str:
    """Return the options to append to a command about the pipeline file of a run."""
    return format_command_options(result.overrides, find_store(result), Path(result.file).parent)


def find_store(result: RunResult) -> Path:
    """Return the folder of the store that holds a run."""
    return result.folder.parent.parent
