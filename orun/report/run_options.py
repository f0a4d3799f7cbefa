"""Commands that go on from a run: the options that they need, on this machine and on another."""

from __future__ import annotations

from pathlib import Path

from orun.core.run_record import RunResult
from orun.fs.os_errors import quote
from orun.store.layout import format_command_options
from orun.text.suggestions import format_settings, show_path


def format_run_options(result: RunResult, *, portable: bool = False) -> str:
    """Return the options to append to a command about the pipeline file of a run.

    For readers on any machine they leave out the store of the run.
    """
    if portable:
        return format_settings(result.overrides)
    return format_command_options(result.overrides, find_store(result), Path(result.file).parent)


def format_repetition(result: RunResult, stage: str) -> str:
    """Return the command that brings a stage of a run up to date on any machine."""
    return f"orun {quote(show_path(result.file))} --to {quote(stage)}{format_run_options(result, portable=True)}"


def find_store(result: RunResult) -> Path:
    """Return the folder of the store that holds a run."""
    return result.folder.parent.parent
