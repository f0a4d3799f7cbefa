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
LOCALES = {
    "utf-8": {"PYTHONUTF8": "1"},
    "ascii": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}
OPTIONS = {"utf-8": "utf8=1", "ascii": "utf8=0"}  # of the interpreter, whatever the environment says


def test_a_result_of_another_encoding_does_not_serve(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("read.py", CODE)
    (project.folder / "data.txt").write_bytes("Zürich".encode())
    outcomes = [run(project, name, LOCALES[name]) for name in ("utf-8", "ascii", "utf-8", "ascii")]
    assert outcomes == [
        ("utf-8", "built", "6"), ("ascii", "built", "7"), ("utf-8", "cached", "6"), ("ascii", "cached", "7"),
    ]  # fmt: skip


def test_stages_have_the_encoding_of_the_interpreter_that_runs_them(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("read.py", CODE)
    (project.folder / "data.txt").write_bytes("Zürich".encode())
    opposite = {"utf-8": LOCALES["ascii"], "ascii": {**LOCALES["ascii"], "PYTHONUTF8": "1"}}
    outcomes = [run(project, name, opposite[name], "-X", OPTIONS[name]) for name in ("utf-8", "ascii")]
    assert outcomes == [("utf-8", "built", "6"), ("ascii", "built", "7")]


def run(project: Project, name: str, variables: Mapping[str, str], *options: str) -> tuple[str, str, str]:
    """The name, what became of the stage in a process with these variables and options of Python, and its output."""
    command = [sys.executable, *options, "-c", RUN, str(project.folder / "pipeline.yaml"), str(project.store)]
    environment = {**os.environ, **variables}
    outcome = subprocess.check_output(command, cwd=Path(__file__).parents[2], env=environment, text=True, timeout=100)
    return name, outcome.strip(), project.text("read")
