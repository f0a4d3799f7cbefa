"""`check/coverage` on the CPU only; tests/acceptance/test_openvino.py has a provider with fallback."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from orun.core.targets import Provider, Target
from orun.errors import UsageError
from tests.stages.support import artifact, run_stage

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 2] x) => (float[2, 2] y) { m = Sigmoid(x)
y = Add(m, x) }
"""


def test_everything_on_the_only_provider(tmp_path: Path) -> None:
    model = artifact(tmp_path, onnx.parser.parse_model(MODEL))
    run = run_stage("check/coverage", tmp_path, {"target": "cpu"}, inputs={"model": model}, target=Target("cpu"))
    values = {name: metric.value for name, metric in run.metrics.items()}
    assert values == {"coverage": 1.0, "fallback": 0, "nodes": 2, "subgraphs": 2, "share.CPU": 1.0}
    assert "nothing fell back to the CPU" in run.log
    document = json.loads((run.output / "coverage.json").read_text())
    assert document["nodes"] == {"CPUExecutionProvider": 2}
    assert document["fallback"] == {}
    assert sorted(node["operator"] for subgraph in document["subgraphs"] for node in subgraph["nodes"]) == [
        "Add",
        "Sigmoid",
    ]


def test_a_provider_that_is_not_there_is_no_coverage_of_the_cpu(tmp_path: Path) -> None:
    model = artifact(tmp_path, onnx.parser.parse_model(MODEL))
    target = Target("npu", (Provider("NonsenseExecutionProvider"), Provider("CPUExecutionProvider")))
    with pytest.raises(UsageError, match="NonsenseExecutionProvider is not in this build of ONNX Runtime"):
        run_stage("check/coverage", tmp_path, {"target": "npu"}, inputs={"model": model}, target=target)
