"""Workflows of CI systems that run a pipeline."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Literal

from orun.fs.observed_state import project_of
from orun.fs.os_errors import quoted

System = Literal["github", "gitlab"]
FILE = "PIPELINE_FILE"  # placeholder of the pipeline file's path in a template
NAME = "PIPELINE_NAME"
GITLAB_MAIN = ".gitlab-ci.yml"


def workflow_path(system: System, file: Path, name: str) -> Path:
    """Return where the workflow of a pipeline file belongs, in the project around it."""
    project = project_of(file.absolute().parent)
    if system == "github":
        return project / ".github" / "workflows" / f"{name}.yml"
    main = project / GITLAB_MAIN
    return project / f"{name}{GITLAB_MAIN}" if os.path.lexists(main) else main


def missing_requirements(file: Path) -> Path | None:
    """Return the path of the requirements that a workflow installs, if there is no such file yet."""
    path = project_of(file.absolute().parent) / "requirements.txt"
    return None if os.path.lexists(path) else path


def workflow_text(system: System, file: Path, name: str) -> str:
    """Return the text of a workflow that runs a pipeline from the top of its project."""
    path = Path(os.path.relpath(file.absolute(), project_of(file.absolute().parent))).as_posix()
    text = files("orun.scaffold").joinpath(f"{system}.yml").read_text("utf-8")
    return text.replace(FILE, quoted(path)).replace(NAME, name)
