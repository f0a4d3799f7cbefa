from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from orun.errors import StageFailed
from tests.stages.models import ADD, WORDY, parse
from tests.stages.support import StageRun, artifact, run_stage

CUSTOM = """
<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]>
custom (float[n, 3] x) => (float[n, 3] y) { a = com.microsoft.FastGelu (x) y = com.microsoft.Gelu (a) }
"""
DATA_DEPENDENT = """
<ir_version: 9, opset_import: ["" : 20]>
places (float[n, 3] x) => (int64[2, m] y) { y = NonZero (x) }
"""
FOREST = """
<ir_version: 9, opset_import: ["" : 20, "ai.onnx.ml" : 1]>
forest (float[n, 2] x) => (int64[n] label, float[n, 2] scores) {
    label, found = ai.onnx.ml.TreeEnsembleClassifier <
        nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0],
        nodes_values = [0.5, 0.0, 0.0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], nodes_missing_value_tracks_true = [0, 0, 0],
        class_treeids = [0, 0], class_nodeids = [1, 2], class_ids = [0, 1], class_weights = [1.0, 1.0],
        classlabels_int64s = [0, 1], post_transform = "NONE"
    > (x)
    scores = Identity (found)
}
"""


def check(folder: Path, model: onnx.ModelProto, **params: Any) -> StageRun:
    return run_stage("check/model", folder, params, inputs={"model": artifact(folder, model)})


def refusal(folder: Path, model: onnx.ModelProto, **params: Any) -> str:
    with pytest.raises(StageFailed) as caught:
        check(folder, model, **params)
    return str(caught.value)


def test_a_good_model(tmp_path: Path) -> None:
    result = check(tmp_path, parse(WORDY), max_opset=20, min_opset=20, max_ir=9, domains=[])
    assert {name: metric.value for name, metric in result.metrics.items()} == {
        "opset": 20,
        "ir_version": 9,
        "custom_nodes": 0,
        "unknown_shapes": 0,
    }
    assert json.loads((result.output / "model.json").read_text()) == {
        "custom_operators": {},
        "ir_version": 9,
        "opsets": {"ai.onnx": 20},
        "unknown_shapes": [],
    }


def test_every_limit_that_is_passed_is_told(tmp_path: Path) -> None:
    assert refusal(tmp_path, onnx.parser.parse_model(CUSTOM), max_opset=17, max_ir=8, domains=["com.mine"]) == (
        "the model has 4 problems\n"
        "  operator set 20 is newer than max_opset 17\n"
        "  IR version 9 is newer than max_ir 8\n"
        "  1 x com.microsoft.FastGelu: its domain is none of com.mine\n"
        "  1 x com.microsoft.Gelu: its domain is none of com.mine\n"
        "  hint: fix it where it is exported; `convert/opset` changes the operator set"
    )
    assert refusal(tmp_path, parse(ADD), min_opset=21) == (
        "the model has 1 problem\n"
        "  operator set 20 is older than min_opset 21\n"
        "  hint: fix it where it is exported; `convert/opset` changes the operator set"
    )
    assert refusal(tmp_path, onnx.parser.parse_model(CUSTOM), domains=[]).splitlines()[1:3] == [
        "  1 x com.microsoft.FastGelu: its domain is not the standard's",
        "  1 x com.microsoft.Gelu: its domain is not the standard's",
    ]


def test_operators_outside_the_standard_count(tmp_path: Path) -> None:
    result = check(tmp_path, onnx.parser.parse_model(CUSTOM))
    assert result.value("custom_nodes") == 2
    assert json.loads((result.output / "model.json").read_text())["custom_operators"] == {
        "com.microsoft.FastGelu": 1,
        "com.microsoft.Gelu": 1,
    }


def test_a_shape_that_only_the_data_tells(tmp_path: Path) -> None:
    model = parse(DATA_DEPENDENT)
    model.graph.output[0].type.tensor_type.shape.dim[1].ClearField("dim_param")
    result = check(tmp_path, model)
    assert result.value("unknown_shapes") == 1
    assert json.loads((result.output / "model.json").read_text())["unknown_shapes"] == ["y"]


def test_an_operator_of_which_shape_inference_knows_nothing(tmp_path: Path) -> None:
    result = check(tmp_path, onnx.parser.parse_model(FOREST))
    assert json.loads((result.output / "model.json").read_text())["unknown_shapes"] == ["found"]


def test_a_type_that_cannot_be(tmp_path: Path) -> None:
    model = parse(ADD)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    assert "Inferred elem type differs from existing elem type" in refusal(tmp_path, model)


def test_an_operator_that_nothing_runs(tmp_path: Path) -> None:
    model = parse(ADD)
    model.graph.node[0].domain = "com.nobody"
    model.opset_import.append(helper.make_opsetid("com.nobody", 1))
    text = refusal(tmp_path, model)
    assert text.startswith("the model has 1 problem\n  ONNX Runtime cannot open model.onnx for target 'cpu'")
    assert (
        "com.nobody:Add(-1) is not a registered function/op\n"
        "    hint: operators of com.microsoft need a newer ONNX Runtime, others the library that defines them: name it "
        "in the target, `session: {custom_op_libraries: [FILE]}`, and leave out stages without a target"
    ) in text
