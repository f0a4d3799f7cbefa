"""Workflow of a CI system that orun init writes, beside a new pipeline or for one that exists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from orun.cli import options
from orun.cli.outputs import look_at, write_file
from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.scaffold.paths import require_free
from orun.text.suggestions import show_path

if TYPE_CHECKING:
    from orun.scaffold.ci import System

OF_WORKFLOW = ("model", "ci", "yes", "dry_run")  # what a workflow for a pipeline that exists depends on


def write_workflow_alone(name: str, system: System | None, *, dry_run: bool) -> int:
    """Write the workflow of a pipeline file that exists, and nothing else."""
    from orun.pipeline import load
    from orun.scaffold.paths import derive_name

    if system is None:
        hint = f"its workflow: orun init {quote(name)} --ci github; to run it: orun {quote(name)}"
        raise UsageError(f"{name} is a pipeline file, and init writes one for a model", hint=hint)
    if useless := _list_useless_options():
        problem = f"{', '.join(useless)}: of no use for a workflow, and {name} stays as it is"
        raise UsageError(problem, hint=f"orun init {quote(name)} --ci {system}")
    file = Path(name)
    path, text = _format_workflow(system, file, derive_name(Path(f"{load(file).name}.yaml")))
    if dry_run:
        options.show(text.splitlines())
        return 0
    _require_workflow_place(path, "move it away")
    options.show(write_workflow(file, path, text))
    return 0


def _list_useless_options() -> list[str]:
    """Return the options of the command line that mean nothing for a workflow alone."""
    context = click.get_current_context()
    return [
        parameter.opts[-1]
        for parameter in context.command.params
        if parameter.name not in OF_WORKFLOW
        and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    ]


def plan_workflow(system: System | None, file: Path) -> tuple[Path, str] | None:
    """Return the workflow to write: its path, which must be free, and its text."""
    if system is None:
        return None
    from orun.scaffold.paths import derive_name

    path, text = _format_workflow(system, file, derive_name(file))
    _require_workflow_place(path, "move it away, or leave out --ci")
    return path, text


def _format_workflow(system: System, file: Path, name: str) -> tuple[Path, str]:
    from orun.scaffold.ci import format_workflow, locate_workflow

    return locate_workflow(system, file, name), format_workflow(system, file, name)


def _require_workflow_place(path: Path, hint: str) -> None:
    require_free(path, hint)
    look_at(path)


def write_workflow(file: Path, path: Path, text: str) -> list[str]:
    """Write the workflow of a pipeline file; return what was written, and what it lacks."""
    from orun.scaffold.ci import list_workflow_notes

    write_file(path, text)
    return [f"wrote {show_path(str(path))}", *list_workflow_notes(file, path)]
