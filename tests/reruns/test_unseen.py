"""Questions of a stage that nobody sees: a run that they led elsewhere does not pass for one of before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import built
from tests.reruns.expression_stages import make_expression_stages, texts

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


ASKS = {  # what each stage asks, and what it is told at first
    "reads": ("(context.root / 'data.txt').read_text()", "1"),
    "lists": ("sorted(os.listdir(context.root / 'data'))", "['1']"),
    "looks": ("(context.root / 'data' / '1').exists()", "True"),
    "measures": ("(context.root / 'data.txt').stat().st_size", "1"),
    "environment": ("os.environ['ORUN_TEST_MARK']", "1"),
}


def test_how_things_stood_when_a_stage_did_not_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_expression_stages(tmp_path, {name: CODE.replace("ASK", ask) for name, (ask, _) in ASKS.items()})
    first = {name: answer for name, (_, answer) in ASKS.items()}
    (project.folder / "data").mkdir()

    def toggle(text: str, *, on: bool) -> None:
        switch = project.write("switch", "")
        if not on:
            switch.unlink()
        project.write("data.txt", text)
        for path in (project.folder / "data").iterdir():
            path.unlink()
        project.write(f"data/{text}", "")
        monkeypatch.setenv("ORUN_TEST_MARK", text)

    toggle("1", on=True)
    assert built(project.run()) == [*ASKS]
    assert texts(project, ASKS) == first
    toggle("22", on=False)
    assert built(project.run()) == [*ASKS]
    assert texts(project, ASKS) == dict.fromkeys(ASKS, "off")
    toggle("1", on=True)
    assert built(project.run()) == []
    assert texts(project, ASKS) == first
