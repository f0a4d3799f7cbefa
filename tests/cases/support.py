"""The bad and good pipeline files that lie here, and what orun says of a bad one."""

from __future__ import annotations

import contextlib
from pathlib import Path

from orun.errors import PipelineError
from orun.pipeline import load
from orun.pipeline.graph import render_text
from orun.pipeline.problems import render

HERE = Path(__file__).parent
INVALID = HERE / "invalid"
VALID = HERE / "valid"
SET = "# --set "  # a line of a case that stands for an option of the command line


def cases(folder: Path) -> list[Path]:
    """The pipeline files of a folder; what they are made of lies in `parts/` below it."""
    return sorted(folder.glob("*.yaml"))


def overrides(file: Path) -> dict[str, str]:
    """The `--set` options of a case."""
    lines = file.read_bytes().decode(errors="replace").splitlines()
    pairs = [line.removeprefix(SET).partition("=") for line in lines if line.startswith(SET)]
    return {path: value for path, _, value in pairs}


def drawn(file: Path) -> str:
    """The graph of a good file as text."""
    return render_text(load(file, overrides(file))) + "\n"


def message(file: Path) -> str:
    """What orun says of a bad file, with paths relative to its folder; raises AssertionError for a good one."""
    with contextlib.chdir(file.parent):
        try:
            load(file, overrides(file))
        except PipelineError as error:
            return render(error.problems) + "\n"
    raise AssertionError(f"{file.name} is good")
