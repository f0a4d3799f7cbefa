"""The encoding that Python takes for texts where it is told none: it is the locale's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.project import Project

PIPELINE = """
name: text
stages:
  read: {uses: ./read.py:read}
"""
CODE = """
from orun import stage


@stage(inputs={}, output="files")
def read(context):
    text = (context.root / "data.txt").open(errors="replace").read()
    (context.output / "text").write_text(str(len(text)))
"""
RUN = "import sys, orun; print(*(s.outcome for s in orun.run(sys.argv[1], store=sys.argv[2]).stages))"
UTF_8 = {"PYTHONUTF8": "1"}
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
# The interpreter's own option goes before what the environment says.
OPTION_OF_UTF_8, OPTION_OF_ASCII = ("-X", "utf8=1"), ("-X", "utf8=0")


def test_stages_have_the_encoding_of_the_interpreter_and_results_of_another_do_not_serve(tmp_path: Path) -> None:
    """A character of two bytes is two where each byte is a character."""
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("read.py", CODE)
    (project.folder / "data.txt").write_bytes("Zürich".encode())
    assert run(project, ASCII, *OPTION_OF_UTF_8) == ("built", "6")
    assert run(project, ASCII | UTF_8, *OPTION_OF_ASCII) == ("built", "7")
    assert run(project, UTF_8) == ("cached", "6")
    assert run(project, ASCII) == ("cached", "7")


def run(project: Project, variables: Mapping[str, str], *options: str) -> tuple[str, str]:
    """What became of the stage in a process with these variables and options of Python, and its output."""
    command = [sys.executable, *options, "-c", RUN, str(project.folder / "pipeline.yaml"), str(project.store)]
    environment = {**os.environ, **variables}
    outcome = subprocess.check_output(command, cwd=Path(__file__).parents[2], env=environment, text=True, timeout=100)
    return outcome.strip(), project.text("read")
