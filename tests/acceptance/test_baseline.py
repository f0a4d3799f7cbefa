"""A release is accepted, the next one is slower: the gate measures both side by side and says so."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

PIPELINE = """
name: tiny
targets:
  one: {providers: [CPUExecutionProvider], session: {intra_op_num_threads: 1}}
stages:
  model: {uses: convert/onnx, with: {path: model.onnx}}
  latency:
    uses: measure/latency
    needs: model
    with: {target: one, time: 1s, samples: 6}
    gate: {p50: {max_regression: 20%}}
"""


def write_model(path: Path, layers: int) -> None:
    """As many products with the same weights as there are layers: time grows with their number."""
    weights = np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32) / 16
    nodes = [helper.make_node("MatMul", [f"x{i}", "w"], [f"x{i + 1}"]) for i in range(layers)]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 256]) for name in ("x0", f"x{layers}")]
    graph = helper.make_graph(nodes, "chain", value[:1], value[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tiny.yaml").write_text(PIPELINE)
    write_model(tmp_path / "model.onnx", 4)
    return tmp_path


def orun(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orun", *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=240)


def verdict(project: Path, *arguments: str) -> tuple[int, Mapping[str, Any]]:
    process = orun(project, "tiny.yaml", "--json", *arguments)
    (record,) = json.loads(process.stdout)["verdicts"]
    return process.returncode, record


@pytest.mark.slow  # the quick ones are in tests/gates and test_gates.py
def test_a_regression_against_the_accepted_release(project: Path) -> None:
    code, first = verdict(project)
    assert (code, first["outcome"]) == (0, "no baseline")
    assert first["why"] == "no baseline yet for `latency`; to accept this release: `orun baseline accept tiny.yaml`"

    process = orun(project, "baseline", "accept", "tiny.yaml")
    assert process.returncode == 0, process.stderr
    accepted = json.loads((project / "tiny.baseline.json").read_text())
    assert list(accepted["stages"]["latency"]["metrics"]) >= ["cpu"]

    code, same = verdict(project)
    assert (code, same["outcome"], same["measured"]) == (0, "passed", 0)
    assert "caveat" not in same

    code, otherwise = verdict(project, "--set", "targets.one.session.graph_optimization_level=disable")
    assert (code, otherwise["outcome"], otherwise["measured"]) == (0, "passed", 0)
    assert otherwise["caveat"].startswith("since the baseline was accepted on ")
    assert ': target.session.graph_optimization_level: not set -> "disable"; ' in otherwise["caveat"]

    write_model(project / "model.onnx", 12)
    code, slower = verdict(project)
    assert (code, slower["outcome"]) == (1, "failed")
    assert slower["measured"] > 1, "three times the work"

    # A few launches settled that it is slower; far off, as a limit that is near could ask for more of them.
    code, allowed = verdict(project, "--set", "stages.latency.gate.p50.max_regression=100000%")
    assert (code, allowed["outcome"]) == (0, "passed")
