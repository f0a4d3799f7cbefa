"""The command line, run in this process."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from orun.cli.main import main
from orun.environment import providers


@dataclass(frozen=True)
class Outcome:
    """What a command line did."""

    code: int
    out: str
    err: str


CommandLine = Callable[..., Outcome]


@pytest.fixture
def orun(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Run a command line; colours and width are those of a log, whatever the tests run in."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "ORUN_STORE"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = main(arguments)
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return call


CODE = '''\
import time

from orun import Context, Metric, stage


@stage(inputs={}, output="files", metrics=["length"])
def write(context: Context, *, text: str = "one two three") -> dict[str, float]:
    """Write a text."""
    (context.output / "text.txt").write_text(text)
    return {"length": len(text)}


@stage(inputs={"text": "files"}, output="metrics", metrics=["words"])
def count(context: Context) -> dict[str, Metric]:
    """Count the words of a text."""
    words = (context.inputs["text"] / "text.txt").read_text().split()
    if "boom" in words:
        raise ValueError("boom is no word")
    if "wait" in words:
        time.sleep(600)
    return {"words": Metric(len(words), better="higher")}
'''
PIPELINE = """\
stages:
  write: {uses: ./words.py:write, with: {text: one two three}}
  count:
    uses: ./words.py:count
    needs: {text: write}
    gate:
      words: {min: 3}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a pipeline `words.yaml` of two stages that need no framework."""
    write_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `orun doctor` try no providers: each takes a process, and one test of it tries them."""
    monkeypatch.setattr(providers, "list_compiled_in", tuple)


def write_project(folder: Path) -> None:
    """Write that pipeline and its code."""
    (folder / "words.py").write_text(CODE, encoding="utf-8")
    (folder / "words.yaml").write_text(PIPELINE, encoding="utf-8")


def steady(text: str) -> str:
    """A report without what differs from run to run: times, run ids, and the spaces that they take in a table."""
    text = re.sub(r"\d+(\.\d+)? (ns|µs|ms|s)\b", "TIME", text)
    text = re.sub(r"\d{8}-\d{6}-\d{6}-", "RUN-", text)
    return re.sub(r"(?<=\S) {2,}", "  ", text)
