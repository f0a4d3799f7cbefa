"""What a stage asks and nobody sees: a run that it led elsewhere does not pass for one of how things were before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import Project, built

PIPELINE = """
name: text
stages:
  tell: {uses: ./tell.py:tell}
"""
CODE = """
import os
import subprocess

from orun import stage


@stage(inputs={}, output="files")
def tell(context):
    asks = ["test", "-e", str(context.root / "switch")]  # what a program asks is not seen
    text = str(ASK) if subprocess.run(asks).returncode == 0 else "off"
    (context.output / "text").write_text(text)
"""


@pytest.mark.parametrize(
    ("ask", "first"),
    [
        ("(context.root / 'data.txt').read_text()", "1"),
        ("sorted(os.listdir(context.root / 'data'))", "['1']"),
        ("(context.root / 'data' / '1').exists()", "True"),
        ("(context.root / 'data.txt').stat().st_size", "1"),
        ("os.environ['ORUN_TEST_MARK']", "1"),
    ],
)
def test_how_things_stood_when_a_stage_did_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str, first: str
) -> None:
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("tell.py", CODE.replace("ASK", ask))
    (project.folder / "data").mkdir()

    def turn(text: str, *, on: bool) -> None:
        project.write("switch", "").unlink() if not on else project.write("switch", "")
        project.write("data.txt", text)
        for path in (project.folder / "data").iterdir():
            path.unlink()
        project.write(f"data/{text}", "")
        monkeypatch.setenv("ORUN_TEST_MARK", text)

    turn("1", on=True)
    assert built(project.run()) == ["tell"]
    assert project.text("tell") == first
    turn("22", on=False)
    assert built(project.run()) == ["tell"]
    assert project.text("tell") == "off"
    turn("1", on=True)
    assert built(project.run()) == []
    assert project.text("tell") == first
