"""An orun that a stage of another one starts: it must end, whatever that stage holds meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

import orun
from tests.faults.projects import write_model

INNER = """
stages:
  take: {uses: convert/onnx, with: {path: model.onnx}}
  time: {uses: measure/latency, needs: take}
"""
OUTER = """
stages:
  take: {uses: convert/onnx, with: {path: model.onnx}}
  around: {uses: "./around.py:around"}
  timed: {uses: measure/latency, needs: take, with: {inputs: "around.py:examples"}}
"""
AROUND = """
import subprocess
import sys
from pathlib import Path

from orun import stage

HERE = Path(__file__).parent


def run(last):
    store = str(Path.cwd() / "store")  # in the working folder of the stage
    command = [sys.executable, "-m", "orun", "run", "inner.yaml", "-q", "--to", last, "--store", store]
    ran = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=300, check=False)
    return f"{ran.returncode} {ran.stderr}"


@stage(inputs={}, output="files")
def around(context):
    for last in ("take", "time"):
        (context.output / last).write_text(run(last))


def examples():
    raise ValueError(run("take"))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in (("inner.yaml", INNER), ("outer.yaml", OUTER), ("around.py", AROUND)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    write_model(tmp_path)
    return tmp_path


def test_what_shares_the_machine_runs_within_what_shares_it_and_what_measures_is_refused(project: Path) -> None:
    result = orun.run(project / "outer.yaml", only=["around"], store=project / "store")
    assert result["around"].failure is None
    out = Path(result["around"].out)
    assert (out / "take").read_text(encoding="utf-8") == "0 "
    assert (out / "time").read_text(encoding="utf-8") == (
        "2 error: time would wait for ever: this orun runs in the stage around of another one\n"
        "  time measures, and needs the machine to itself, which around shares until it ends\n"
        "  hint: give around what it makes as an input, or run it outside of a stage\n"
    )


def test_nothing_runs_within_what_measures(project: Path) -> None:
    result = orun.run(project / "outer.yaml", to=["timed"], store=project / "store")
    failure = result["timed"].failure
    assert failure is not None
    assert f"{failure.what}\n{failure.why}".startswith(
        "timed raised ValueError: 2 error: take would wait for ever: this orun runs in the stage timed of another one\n"
        "  timed measures, and has the machine to itself until it ends\n"
        "  hint: give timed what it makes as an input, or run it outside of a stage\n"
    )
