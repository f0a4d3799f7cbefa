"""A release carries what led to it: it is made again when that changes, and says of which stage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from orun.record import RunResult
from tests.project import Project
from tests.test_reruns_model import write_model

PIPELINE = """
name: release
stages:
  take: {uses: convert/onnx, with: {path: net.onnx}}
  size:
    uses: measure/size
    needs: take
    gate: {size: {max: 1kB}}
  release: {uses: release/bundle, needs: [take, size]}
"""
RENAMED = [("take:", "net:"), ("needs: take", "needs: net"), ("[take, size]", "[net, size]")]
TWICE = """
name: twice
stages:
  take: {uses: convert/onnx, with: {path: net.onnx}}
  judge: {uses: measure/accuracy, needs: take, with: {dataset: judge.py:examples, metrics: [judge.py:mark]}}
"""
JUDGE = """
import numpy as np

import orun


def examples():
    return orun.Dataset({"x": np.ones((2, 8), dtype=np.float32)})


def mark(outputs, dataset):
    return 1.0
"""


@pytest.mark.parametrize(
    ("edits", "reasons"),
    [
        ([("1kB", "2kB")], ["the verdicts of size changed"]),
        ([("    gate: {size: {max: 1kB}}\n", "")], ["the verdicts of size changed"]),
        (RENAMED, ["history: take, size -> net, size", "the history of size changed"]),
        ([("1kB}}", "1kB}} # a comment")], []),
    ],
)
def test_it_says_what_changed_before_it(
    edits: Sequence[tuple[str, str]], reasons: Sequence[str], tmp_path: Path
) -> None:
    project = Project(tmp_path / "work", tmp_path / "store")
    (tmp_path / "work").mkdir()
    write_model(tmp_path / "work")
    project.write("pipeline.yaml", PIPELINE)
    assert outcome(project.run()) == ("built", "never run before")
    assert outcome(project.run()) == ("cached", "up to date")
    for old, new in edits:
        project.edit("pipeline.yaml", old, new)
    assert outcome(project.run()) == (("built", *reasons) if reasons else ("cached", "up to date"))


def outcome(result: RunResult) -> tuple[str, ...]:
    """How the release fared, and why."""
    assert result.exit_code == 0
    return result["release"].outcome, *result["release"].reasons


def test_a_file_that_two_parameters_name_is_told_once(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "work", TWICE)
    project.write("judge.py", JUDGE)
    write_model(project.folder)
    assert project.run().exit_code == 0
    project.edit("judge.py", "return 1.0", "return 2.0")
    assert project.run()["judge"].reasons == ("judge.py changed",)
