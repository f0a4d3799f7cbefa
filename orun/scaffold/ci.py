"""Workflows of CI systems that run a pipeline."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Literal

from orun.fs.observed_state import find_project
from orun.fs.os_errors import quote
from orun.text.suggestions import show_path

System = Literal["github", "gitlab"]
FILE = "PIPELINE_FILE"  # placeholder of the pipeline file's path in a template
NAME = "PIPELINE_NAME"
REQUIREMENT = "orun[cpu] @ git+https://github.com/OWNER/orun"  # it is not on the index
GITLAB_MAIN = ".gitlab-ci.yml"


def locate_workflow(system: System, file: Path, name: str) -> Path:
    """Return where the workflow of a pipeline file belongs, in the project around it."""
    project = find_project(file.absolute().parent)
    if system == "github":
        return project / ".github" / "workflows" / f"{name}.yml"
    main = project / GITLAB_MAIN
    return project / f"{name}{GITLAB_MAIN}" if os.path.lexists(main) else main


def format_workflow(system: System, file: Path, name: str) -> str:
    """Return the text of a workflow that runs a pipeline from the top of its project."""
    path = Path(os.path.relpath(file.absolute(), find_project(file.absolute().parent))).as_posix()
    text = files("orun.scaffold").joinpath(f"{system}.yml").read_text("utf-8")
    note = _explain_inclusion(locate_workflow(system, file, name))
    return "".join(f"# {line}\n" for line in note) + text.replace(FILE, quote(path)).replace(NAME, name)


def list_workflow_notes(file: Path, path: Path) -> list[str]:
    """Return what the workflow of a pipeline file lacks before its CI system can run it."""
    notes = _explain_inclusion(path)
    requirements = find_project(file.absolute().parent) / "requirements.txt"
    if not os.path.lexists(requirements):
        install = f"it installs {show_path(str(requirements))}, which is not there yet"
        notes.append(f"{install}: `{REQUIREMENT}`, or a wheel of it; and what `orun doctor {quote(file)}` lists")
    return notes


def _explain_inclusion(path: Path) -> list[str]:
    """Return how GitLab gets to know a workflow that is not in its main file; empty for others."""
    if path.name == GITLAB_MAIN or not path.name.endswith(GITLAB_MAIN):
        return []
    return [f"GitLab runs it once {GITLAB_MAIN} has: include: [{{local: {path.name}}}]"]
