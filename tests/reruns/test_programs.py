"""Programs and libraries that a stage uses by their names: which one that is, the folders of a variable say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.facts import describe_reasons
from tests.project import Project, built

PIPELINE = """
name: text
stages:
  tell: {uses: ./tell.py:tell}
  neither: {uses: ./stages.py:make}
"""
CODE = """
import os
import subprocess

from orun import stage


@stage(inputs={}, output="files")
def tell(context):
    os.environ["ORUN_TEST_OWN"] = "1"
    (context.output / "text").write_text(subprocess.check_output(COMMAND, text=True))
"""
LOADS = """
import ctypes

from orun import stage


@stage(inputs={}, output="files")
def tell(context):
    try:
        ctypes.CDLL("liborun-test.so")
    except OSError as error:
        (context.output / "text").write_text(str(error))
"""


def teller(folder: Path) -> Path:
    folder.mkdir()
    program = folder / "orun-test-teller"
    program.write_text(f"#!/bin/sh\nprintf {folder.name}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("tell.py", CODE.replace("COMMAND", "['orun-test-teller']"))
    return project


def on_the_path(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (*folders, "/usr/bin", "/bin"))))


def test_another_folder_of_path_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    first, second = (teller(tmp_path / name) for name in ("first", "second"))
    on_the_path(monkeypatch, first.parent)
    assert built(project.run()) == ["tell", "neither"]
    on_the_path(monkeypatch, tmp_path / "none", first.parent, second.parent)
    assert built(project.run()) == [], "it is the same one"
    on_the_path(monkeypatch, second.parent, first.parent)
    result = project.run()
    assert built(result) == ["tell"]
    assert describe_reasons(result["tell"].reasons) == (f"{first} is not first on PATH now (used by the stage)",)
    assert project.text("tell") == "second"
    assert built(project.run()) == []
    on_the_path(monkeypatch, first.parent)
    assert built(project.run()) == []
    assert project.text("tell") == "first"


@pytest.mark.slow
@pytest.mark.usefixtures("native_reads")
def test_one_that_a_shell_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    project.write("tell.py", CODE.replace("COMMAND", "'orun-test-teller', shell=True"))
    first, second = (teller(tmp_path / name) for name in ("first", "second"))
    on_the_path(monkeypatch, first.parent)
    assert built(project.run()) == ["tell", "neither"]
    assert built(project.run()) == []
    on_the_path(monkeypatch, second.parent, first.parent)
    assert describe_reasons(project.run()["tell"].reasons) == (f"{first} is not first on PATH now (used by the stage)",)
    assert project.text("tell") == "second"


@pytest.mark.slow
@pytest.mark.usefixtures("native_reads")
def test_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    """As `module load` and the `setvars.sh` of vendors choose them: any file tells which one is looked at first."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "liborun-test.so").write_text(name)
    project.write("tell.py", LOADS)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "first"))
    assert built(project.run()) == ["tell", "neither"]
    assert f"{tmp_path}/first/liborun-test.so" in project.text("tell")
    assert built(project.run()) == []
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/second:{tmp_path}/first")
    result = project.run()
    assert built(result) == ["tell"]
    why = f"{tmp_path}/first/liborun-test.so is not first on LD_LIBRARY_PATH now (used by the stage)"
    assert describe_reasons(result["tell"].reasons) == (why,)
    assert f"{tmp_path}/second/liborun-test.so" in project.text("tell")
    assert built(project.run()) == []


def test_one_that_comes_to_lie_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    later = teller(tmp_path / "later")
    on_the_path(monkeypatch, tmp_path / "earlier", later.parent)
    assert built(project.run()) == ["tell", "neither"]
    assert built(project.run()) == []
    teller(tmp_path / "earlier")
    result = project.run()
    assert built(result) == ["tell"]
    assert describe_reasons(result["tell"].reasons) == (f"{later} is not first on PATH now (used by the stage)",)
    assert project.text("tell") == "earlier"
