"""`measure/size`: figures counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

from orun.core.metrics import Metric
from orun.measure.metrics.paired import compare_exact
from tests.stages.support import artifact, run_stage


def model(width: int) -> onnx.ModelProto:
    """`y = gelu(x @ w) + c`: weights of 4 x width, a constant of one element, one node of another domain."""
    parsed = parser.parse_model(f"""
    <ir_version: 9, opset_import: ["": 20, "com.microsoft": 1]>
    g (float[batch, 4] x) => (float[batch, {width}] y)
    {{
      a = MatMul (x, w)  b = com.microsoft.Gelu (a)  c = Constant <value = float[1] {{1}}> ()  y = Add (b, c)
    }}
    """)
    parsed.graph.initializer.append(numpy_helper.from_array(np.ones((4, width), np.float32), "w"))
    return parsed


def test_alone(tmp_path: Path) -> None:
    folder = artifact(tmp_path, model(8))
    (folder / "model.onnx.data").write_bytes(bytes(1000))
    run = run_stage("measure/size", tmp_path, inputs={"model": folder})
    assert run.metrics == {
        "size": Metric((folder / "model.onnx").stat().st_size + 1000, "B", "lower"),
        "parameters": Metric(33, better="lower"),
        "nodes": Metric(4, better="lower"),
    }
    assert json.loads((run.output / "operators.json").read_text("utf-8")) == {
        "model": {"Add": 1, "Constant": 1, "MatMul": 1, "com.microsoft.Gelu": 1}
    }


def test_against_others(tmp_path: Path) -> None:
    inputs = {
        role: artifact(tmp_path, model(width)) for role, width in (("model", 8), ("reference", 16), ("baseline", 4))
    }
    parameters = run_stage("measure/size", tmp_path, inputs=inputs).metrics["parameters"]
    assert parameters.reference == compare_exact(33, 65)
    assert parameters.baseline == compare_exact(33, 17)


def test_parameters_in_attributes(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]>
    g (float[n, 3] x) => (float[n, 1] y) <float one = {1}>
    {
      a = ai.onnx.ml.Scaler <offset = [0.0, 1.0, 2.0], scale = [1.0, 2.0, 3.0]> (x)
      b = ai.onnx.ml.LinearRegressor <coefficients = [0.1, 0.2, 0.3], intercepts = [1.0]> (a)
      c = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],
        nodes_featureids = [0, 0, 0], nodes_values = [0.5, 0.0, 0.0], nodes_hitrates = [1.0, 1.0, 1.0],
        nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0],
        target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]> (a)
      y = Sum (b, c, one)
    }
    """
    parsed = parser.parse_model(text)
    run = run_stage("measure/size", tmp_path, inputs={"model": artifact(tmp_path, parsed)})
    assert run.metrics["parameters"].value == 6 + 4 + 5 + 1  # the rates of a tree are no parameters
