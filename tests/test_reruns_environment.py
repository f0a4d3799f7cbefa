"""Variables that orun sets for stages, or keeps from them, are to code of the user's what any other variable is."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.events import RunStarted
from tests.project import Project, built

PIPELINE = """
name: text
stages:
  tell: {uses: ./tell.py:tell}
"""
CODE = """
import os

from orun import stage


@stage(inputs={}, output="files")
def tell(context):
    (context.output / "text").write_text(str(ASK))
"""


@pytest.fixture(autouse=True)
def none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TF_CPP_MIN_LOG_LEVEL", "PYTHONHASHSEED", "ORT_DISABLE_TELEMETRY", "ORUN_REMOTE_KEY"):
        monkeypatch.delenv(name, raising=False)


def recalled(project: Project) -> bool:
    """Whether the last run was recognised without a look at its stages."""
    return any(isinstance(event, RunStarted) and event.repeats for event in project.events)


@pytest.mark.parametrize(
    ("ask", "name", "first", "second"),
    [
        ('os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")', "TF_CPP_MIN_LOG_LEVEL", "2", "1"),
        ('os.environ.get("PYTHONHASHSEED")', "PYTHONHASHSEED", "0", "7"),
        ('os.environ["ORT_DISABLE_TELEMETRY"]', "ORT_DISABLE_TELEMETRY", "1", None),
        ('os.environ.get("ORUN_REMOTE_KEY")', "ORUN_REMOTE_KEY", "None", None),
        ('dict(os.environ.items())["TF_CPP_MIN_LOG_LEVEL"]', "TF_CPP_MIN_LOG_LEVEL", "2", "1"),
    ],
)
def test_a_stage_that_looks_one_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str, name: str, first: str, second: str | None
) -> None:
    """It was run anew each time, because the value that it had found was not the one of the process that looks."""
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("tell.py", CODE.replace("ASK", ask))
    assert built(project.run()) == ["tell"]
    assert project.text("tell") == first
    assert built(project.run()) == []
    assert recalled(project)
    monkeypatch.setenv(name, second or "any")
    assert built(project.run()) == ([] if second is None else ["tell"])
    assert project.text("tell") == (first if second is None else second)
