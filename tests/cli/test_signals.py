"""SIGTERM at the verbs that run stages: they stop as by Ctrl-C and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest

from orun import api

CODE = """\
import os
import time

from orun import stage


@stage(inputs={}, output="metrics", metrics=["letters"])
def count(context, *, first: str = "a", second: str = "a"):
    with open("/proc/self/environ", "rb") as file:  # in a way that is not seen
        if b"ORUN_TEST_WAIT=1" in file.read():
            os.mkdir("FOLDER/started")
            time.sleep(600)
    return {"letters": len(first + second)}
"""
PIPELINE = """\
stages:
  count:
    uses: ./waiting.py:count
    with: {first: a, second: a}
    gate: {letters: {max: 2}}
"""


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a good run and a bad run."""
    folder = tmp_path_factory.mktemp("waiting")
    (folder / "temporary").mkdir()
    (folder / "waiting.py").write_text(CODE.replace("FOLDER", str(folder)))
    (folder / "waiting.yaml").write_text(PIPELINE)
    for changes in ({}, {"stages.count.with.first": "aa", "stages.count.with.second": "aa"}):
        api.run(folder / "waiting.yaml", set=changes, store=folder / "artifacts")
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("blame", "waiting.yaml", "--store", "empty"), marks=pytest.mark.slow),
        ("bisect", "last~1", "last"),
        pytest.param(("test", "./waiting.py:count"), marks=pytest.mark.slow),
        pytest.param(("verify", "waiting.yaml", "--rebuild"), marks=pytest.mark.slow),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_signal_while_a_stage_runs(waiting: Path, arguments: tuple[str, ...]) -> None:
    environment = {**os.environ, "ORUN_TEST_WAIT": "1", "TMPDIR": str(waiting / "temporary")}
    with subprocess.Popen(
        [sys.executable, "-m", "orun", *arguments],
        cwd=waiting,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not (waiting / "started").exists() and process.poll() is None:
            sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    (waiting / "started").rmdir()
    assert (process.returncode, out, err.splitlines()[-1]) == (130, "", "error: interrupted")
    assert [path.name for path in (waiting / "temporary").iterdir() if path.name.startswith("orun-")] == []
    assert list(waiting.glob("*/tmp/*")) == []
