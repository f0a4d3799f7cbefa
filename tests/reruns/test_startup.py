"""Code of the project's that Python imports at its start, because `PYTHONPATH` leads to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.projects import write_model
from tests.project import Project, built

PIPELINE = """
name: text
stages:
  tell: {uses: ./tell.py:tell}
  take: {uses: convert/onnx, with: {path: model.onnx}}
"""
CODE = """
import builtins

from orun import stage


@stage(inputs={}, output="files")
def tell(context):
    (context.output / "text").write_text(getattr(builtins, "ORUN_TEST", "none"))
"""
PATCH = "import builtins\nimport patch_of_test\nbuiltins.ORUN_TEST = patch_of_test.VALUE\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    (tmp_path / "project").mkdir()
    write_model(tmp_path / "project")
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("tell.py", CODE)
    (project.folder / "hooks").mkdir()
    project.write("hooks/patch_of_test.py", "VALUE = 'one'")
    project.write("hooks/other.py", "")
    path = os.pathsep.join([str(project.folder / "hooks"), str(Path(__file__).parents[1])])
    monkeypatch.setenv("PYTHONPATH", path)
    return project


def test_it_counts_for_every_stage(project: Project) -> None:
    """A result of before a patch was up to date after it, in stages of every kind."""
    assert built(project.run()) == ["tell", "take"]
    assert project.text("tell") == "none"
    assert project.run().repeats
    project.write("hooks/sitecustomize.py", PATCH)
    assert built(project.run()) == ["tell", "take"]
    assert project.text("tell") == "one"
    assert project.run().repeats
    project.write("hooks/patch_of_test.py", "VALUE = 'three'")
    assert built(project.run()) == ["tell", "take"]
    assert project.text("tell") == "three"
    (project.folder / "hooks" / "sitecustomize.py").unlink()
    assert built(project.run()) == []
    assert project.text("tell") == "none"


def test_without_the_path_to_it_it_does_not(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "hooks" / "other.py").unlink()
    (project.folder / "hooks" / "patch_of_test.py").unlink()
    project.write("hooks/sitecustomize.py", "import builtins; builtins.ORUN_TEST = 'one'")  # and nothing beside it
    assert built(project.run()) == ["tell", "take"]
    assert project.text("tell") == "one"
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    assert built(project.run()) == ["tell", "take"]
    assert project.text("tell") == "none"
