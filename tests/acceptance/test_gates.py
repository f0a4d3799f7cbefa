"""Gates of a release by the command line: groups, slices, references, and a baseline of another machine."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from orun.cli.main import main

DATA = """
import numpy as np
from orun import Dataset


def digits() -> Dataset:
    labels = np.arange(90) % 3
    inputs = np.eye(3, dtype=np.float32)[labels] + 0.2 * np.random.default_rng(0).random((90, 3), dtype=np.float32)
    return Dataset({"x": inputs}, labels=labels, fields={"camera": ["front"] * 60 + ["rear"] * 30})
"""
PIPELINE = """
name: gated
stages:
  best: {uses: convert/onnx, with: {path: best.onnx}}
  model: {uses: convert/onnx, with: {path: model.onnx}}
  accuracy:
    uses: measure/accuracy
    needs: {model: model, reference: best, reference.same: model}
    with: {dataset: data.py:digits, metrics: [accuracy, cosine], slices: [label, camera]}
    gate: {}
"""
RELEASE = """
extends: gated.yaml
stages:
  accuracy:
    gate:
      accuracy: {min: 60%, by: camera}
      "accuracy[label=2]": {max: 10%}
      any:
        - accuracy: {max_drop: 1%, against: [reference, same]}
        - {cosine.min: {min: -1}, accuracy: {min: 0.5}}
      all:
        - accuracy: {min: 90%}
        - accuracy: {min: 60%, by: label}
"""
GIVEN = """
extends: gated.yaml
targets: {gpu: {providers: [CUDAExecutionProvider], missing: skip}}
stages:
  release: {uses: release/bundle, needs: model}
  publish: {uses: release/publish, needs: release, with: {to: there}}
  accuracy: {gate: {accuracy: {min: 90%}}}
  elsewhere: {uses: measure/latency, needs: model, with: {target: gpu}, gate: {p50: {max: 1s}}}
"""


def write(path: Path, third: float) -> None:
    """A product that tells three classes apart, of which the third counts for so much."""
    weights = np.diag([1, 1, third]).astype(np.float32)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "classes", [x], [y], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "data.py").write_text(DATA)
    (folder / "gated.yaml").write_text(PIPELINE)
    (folder / "release.yaml").write_text(RELEASE)
    write(folder / "best.onnx", 1)
    write(folder / "model.onnx", 0)
    return folder


def orun(project: Path, *arguments: str) -> tuple[int, str]:
    """Run a command line in this process; return its exit code and what it prints."""
    out = io.StringIO()
    with contextlib.chdir(project), contextlib.redirect_stdout(out):
        return main(arguments), out.getvalue()


def result(project: Path, *arguments: str) -> tuple[int, Mapping[str, Any]]:
    code, out = orun(project, *arguments, "--json", "--no-blame")
    return code, json.loads(out)


@pytest.mark.slow  # the checklist is quick, in tests/report
def test_a_release_checklist(project: Path) -> None:
    """Groups in words, slices by their names, and each reference: what passes is ticked."""
    code, _ = orun(project, "release.yaml", "--no-blame", "--markdown", "summary.md")
    assert code == 1
    lines = (project / "summary.md").read_text().splitlines()
    checklist = lines[lines.index("### Release checklist") + 2 : lines.index("### Stages") - 1]
    assert [line.partition(", **failed**")[0] for line in checklist] == [
        "- [x] **accuracy accuracy** min 60% by camera: 66.7 % (54.1 % to 77.3 %)",
        "- [x] **accuracy accuracy\\[label=2\\]** max 10%: 0 % (0 % to 11.4 %)",
        "- [x] **accuracy any of 2**",
        "  - [ ] **accuracy all of 2**, failed",
        "    - [ ] **accuracy accuracy** max\\_drop 1%: 33.3 % drop (24.5 % to 43.6 %), failed",
        "    - [ ] **accuracy accuracy** max\\_drop 1% against same: 0 % drop (-6.14 % to 6.14 %), undecided",
        "  - [x] **accuracy all of 2**",
        "    - [x] **accuracy cosine.min** min -1: 0.01488",
        "    - [x] **accuracy accuracy** min 0.5: 0.6667 (0.5642 to 0.7555)",
        "- [ ] **accuracy all of 2**",
        "  - [ ] **accuracy accuracy** min 90%: 66.7 % (56.4 % to 75.5 %)",
        "  - [ ] **accuracy accuracy** min 60% by label: 0 % (0 % to 11.4 %)",
    ]
    assert "2 of 3 slices passed, 1 failed; the smallest is 0 with 30 examples" in checklist[-1]


@pytest.mark.slow  # the rule is quick, in tests/runner/test_release_rule.py
@pytest.mark.usefixtures("probed_once")
def test_a_release_waits_for_the_gates_on_its_model(project: Path) -> None:
    """Its `needs` names none of them; the one of a target that this machine lacks keeps it from nothing."""
    (project / "given.yaml").write_text(GIVEN)
    kept, eased = (), ("--set=stages.accuracy.gate.accuracy.min=10%",)
    outcomes = []
    for options in (kept, eased, eased, kept):
        code, run = result(project, "given.yaml", *options)
        stages = {stage["stage"]: (stage["outcome"], *stage["reasons"][:1]) for stage in run["stages"]}
        outcomes.append((code, stages["release"], stages["publish"], (project / "there").is_dir()))
    blocked = ("blocked", "a gate of accuracy failed"), ("blocked", "release did not run")
    built = ("built", "never run before")
    assert outcomes == [
        (1, *blocked, False),
        (0, built, built, True),
        (0, ("cached", "up to date"), ("cached", "up to date"), True),
        (1, *blocked, True),
    ]


def test_whether_an_undecided_gate_may_pass_is_judged_again_and_measured_once(project: Path) -> None:
    judged = []
    for undecided in ("allow", "fail"):
        rules = {"max_drop": "40%", "undecided": undecided}
        gate = (f"--set=stages.accuracy.gate.accuracy.{name}={value}" for name, value in rules.items())
        code, run = result(project, "gated.yaml", "--set=stages.accuracy.with.samples=8", *gate)
        (verdict,) = run["verdicts"]
        outcomes = {stage["stage"]: stage["outcome"] for stage in run["stages"]}
        judged.append((code, verdict["outcome"], verdict["fails"], outcomes["accuracy"]))
    assert judged == [(0, "undecided", False, "built"), (4, "undecided", True, "cached")]


def test_the_accepted_release_on_another_machine(project: Path, tmp_path: Path) -> None:
    """The file is committed, the model comes by the remote, and both are measured side by side."""
    (project / "gated.yaml").write_text(PIPELINE.replace("gate: {}", "gate: {accuracy: {max_regression: 5%}}"))
    (project / "next.yaml").write_text("extends: gated.yaml\nname: next\n")
    remote, other = f"--remote={(tmp_path / 'remote').as_uri()}", tmp_path / "two"
    write(project / "model.onnx", 0.9)  # another than `best`, which both machines have
    code, first = result(project, "next.yaml", remote)
    assert (code, first["verdicts"][0]["outcome"]) == (0, "no baseline")
    assert first["verdicts"][0]["why"] == (
        "no baseline yet for `accuracy`; to accept this release: `orun baseline accept next.yaml`"
    )
    assert orun(project, "baseline", "accept", "next.yaml")[0] == 0
    (who,) = {stage["who"] for stage in json.loads((project / "next.baseline.json").read_text())["stages"].values()}
    shutil.copytree(project, other, ignore=shutil.ignore_patterns("artifacts"))
    write(other / "model.onnx", 0)
    outcomes = []
    for options in ((), (remote,)):
        code, run = result(other, "next.yaml", *options)
        outcomes.append((code, re.sub(r"\d{4}-\d\d-\d\d", "DAY", run["verdicts"][0]["why"])))
    start = "the regression of accuracy against the accepted baseline is 33.3 %"
    paired = "95 % interval 24.5 % to 43.6 %; McNemar's score interval over 90 examples, 0 better and 30 worse"
    stored = "figures stored on DAY, not example by example: the accepted model is not in the store"
    signed = f"; {who} accepted that baseline on DAY"
    assert outcomes == [
        (1, f"{start} (95 % interval 23.6 % to 43.6 %; {stored}): shown to be more than 5%{signed}"),
        (1, f"{start} ({paired}): shown to be more than 5%{signed}"),
    ]
