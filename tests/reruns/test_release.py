"""A release carries what led to it: it is made again when that changes, and says of which stage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import orun
from orun.core.run_record import RunResult
from tests.facts import describe_reasons
from tests.project import Project
from tests.reruns.test_model import write_model

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
GUARDED = """
name: release
stages:
  take: {uses: convert/onnx, with: {path: net.onnx}}
  size: {uses: measure/size, needs: take, gate: {size: {max: 1kB}}}
  card: {uses: release/card, needs: take}
  release: {uses: release/bundle, needs: {model: take, card: card}}
"""
SKIPPED = """
  there: {uses: measure/latency, needs: take, with: {target: gpu}, gate: {p50: {max: 1s}}}
targets:
  gpu: {providers: [CUDAExecutionProvider], missing: skip}
"""
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


def test_it_says_what_changed_before_it(tmp_path: Path) -> None:
    project = started(tmp_path, PIPELINE)
    assert outcome(project.run()) == ("built", "never run before")
    assert outcome(project.run()) == ("cached", "up to date")
    project.edit("pipeline.yaml", "1kB}}", "1kB}} # a comment")
    assert outcome(project.run()) == ("cached", "up to date")
    project.edit("pipeline.yaml", "1kB", "2kB")
    assert outcome(project.run()) == ("built", "the verdicts of size changed")
    for old, new in RENAMED:
        project.edit("pipeline.yaml", old, new)
    assert outcome(project.run()) == ("built", "history: without take; with net", "the history of size changed")
    project.edit("pipeline.yaml", "    gate: {size: {max: 2kB}} # a comment\n", "")
    assert outcome(project.run()) == ("built", "the verdicts of size changed")


def started(folder: Path, pipeline: str) -> Project:
    """A project whose store is not in its own folder."""
    (folder / "work").mkdir()
    write_model(folder / "work")
    project = Project(folder / "work", folder / "store")
    project.write("pipeline.yaml", pipeline)
    return project


def test_its_measurements_name_the_model_that_was_measured(tmp_path: Path) -> None:
    project = started(tmp_path, PIPELINE)
    assert outcome(project.run()) == ("built", "never run before")
    provenance, measured = (
        json.loads((project.store / "out" / "release" / "release" / f"{name}.json").read_bytes())
        for name in ("provenance", "measurements")
    )
    trees = {entry["stage"]: entry["tree"] for entry in provenance["stages"]}
    assert measured["models"] == {"model.onnx": trees["take"]}
    assert {entry["stage"]: (entry["tree"], entry["inputs"]) for entry in measured["stages"]} == {
        "take": (trees["take"], {}),
        "size": (trees["size"], {"model": trees["take"]}),
    }


@pytest.mark.slow
def test_it_carries_what_guards_it_and_is_made_again_when_that_changes(tmp_path: Path) -> None:
    """A stage that is skipped says nothing of the release, and does not keep it from being up to date."""
    project = started(tmp_path, GUARDED + SKIPPED)
    assert outcome(project.run()) == ("built", "never run before")
    assert stated(project) == [("size", "1kB", "passed")]
    assert outcome(project.run()) == ("cached", "up to date")
    project.edit("pipeline.yaml", "1kB", "2kB")
    assert outcome(project.run()) == (
        "built",
        "input card changed (from card)",
        "the verdicts of size changed",
        "the history of card changed",
    )
    assert stated(project) == [("size", "2kB", "passed")]
    project.edit("pipeline.yaml", ", gate: {size: {max: 2kB}}", "")
    assert outcome(project.run())[:2] == ("built", "input card changed (from card)")
    assert stated(project) == []


def stated(project: Project) -> list[tuple[str, str, str]]:
    """The verdicts in a bundle, which are those of its card."""
    folder = project.store / "out" / "release" / "release"
    stages = json.loads((folder / "measurements.json").read_bytes())["stages"]
    verdicts = [verdict for stage in stages for verdict in stage["verdicts"]]
    lines = (folder / "README.md").read_text("utf-8").splitlines()
    assert [line for line in lines if "passed" in line] == [
        f"| size size | max {verdict['threshold']} | {verdict['measured']:.0f} B | passed |" for verdict in verdicts
    ]
    assert [verdict["why"] for verdict in verdicts] == [
        f"size is {verdict['measured']:.0f} B, within the maximum of {verdict['threshold']}" for verdict in verdicts
    ]
    return [(verdict["stage"], verdict["threshold"], verdict["outcome"]) for verdict in verdicts]


def outcome(result: RunResult) -> tuple[str, ...]:
    """How the release fared, and why."""
    assert result.exit_code == 0
    return result["release"].outcome, *describe_reasons(result["release"].reasons)


def test_a_file_that_two_parameters_name_is_told_once(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "work", TWICE)
    project.write("judge.py", JUDGE)
    write_model(project.folder)
    assert project.run().exit_code == 0
    project.edit("judge.py", "return 1.0", "return 2.0")
    steps = orun.plan(project.folder / "pipeline.yaml", store=project.store).steps
    assert {step.stage.id: describe_reasons(step.reasons) for step in steps} == {
        "take": ("up to date",),
        "judge": ("judge.py changed",),
    }
