from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from orun.stages._graph.plain import hoist, inline, part_weights
from tests.stages.support import artifact, run_stage

BLOCKS = """
<ir_version: 9, opset_import: ["" : 20, "my" : 1]>
blocks (float[n, 64] x) => (float[n, 64] y) { h = my.block (x, w)  y = my.block (h, w) }
<domain: "my", opset_import: ["" : 20]>
block (a, w) => (o) { m = MatMul (a, w)  half = Constant <value = float {0.5}> ()  o = Mul (m, half) }
"""
CONSTANT = """
<ir_version: 9, opset_import: ["" : 20]>
layer (float[n, 64] x) => (float[n, 64] y) { y = MatMul (x, w) }
"""
WEIGHT = numpy_helper.from_array(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8, "w")


@pytest.fixture
def blocks() -> onnx.ModelProto:
    model = parser.parse_model(BLOCKS)
    model.graph.initializer.append(WEIGHT)
    return model


@pytest.fixture
def constant() -> onnx.ModelProto:
    """A layer whose weight is in a Constant node."""
    model = parser.parse_model(CONSTANT)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=WEIGHT))
    return model


@pytest.fixture
def old() -> onnx.ModelProto:
    """A layer of IR version 3, whose weight is an input too."""
    model = parser.parse_model(CONSTANT)
    model.ir_version = 3
    model.opset_import[0].version = 8
    model.graph.initializer.append(WEIGHT)
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [64, 64]))
    return model


def test_functions_are_put_where_they_are_called(blocks: onnx.ModelProto, constant: onnx.ModelProto) -> None:
    result = inline(blocks)
    assert [node.op_type for node in result.graph.node] == ["MatMul", "Constant", "Mul"] * 2
    assert not result.functions
    assert inline(constant) is constant


def test_constants_are_stored(constant: onnx.ModelProto) -> None:
    hoist(constant)
    assert [node.op_type for node in constant.graph.node] == ["MatMul"]
    assert [(tensor.name, tensor.raw_data) for tensor in constant.graph.initializer] == [("w", WEIGHT.raw_data)]


def test_weights_of_old_are_no_inputs(old: onnx.ModelProto, constant: onnx.ModelProto) -> None:
    assert part_weights(old) == 1
    assert (old.ir_version, [value.name for value in old.graph.input]) == (4, ["x"])
    assert part_weights(constant) == 0
    assert constant.ir_version == 9


def test_a_value_that_may_be_given_stays_an_input(old: onnx.ModelProto) -> None:
    """From IR version 4 on, an input with a stored value has a default."""
    old.ir_version = 4
    assert part_weights(old) == 0
    assert [value.name for value in old.graph.input] == ["x", "w"]


@pytest.mark.parametrize(
    ("kind", "operator"),
    [("optimize/float16", "MatMul"), ("quantize/weights", "MatMulNBits"), ("optimize/prune", "MatMul")],
)
def test_weights_within_functions_are_reached(
    tmp_path: Path, blocks: onnx.ModelProto, kind: str, operator: str
) -> None:
    result = run_stage(kind, tmp_path, inputs={"model": artifact(tmp_path, blocks)})
    model = onnx.load(result.model)
    assert not model.functions
    assert [node.op_type for node in model.graph.node].count(operator) == 2
    assert result.value("max_abs_error") < 1
    weights = [tensor for tensor in model.graph.initializer if tensor.dims and np.prod(tensor.dims) > 64]
    assert weights
    assert all(tensor.raw_data != WEIGHT.raw_data for tensor in weights)


def test_block_weights_of_a_constant_node(tmp_path: Path, constant: onnx.ModelProto) -> None:
    result = run_stage("quantize/weights", tmp_path, inputs={"model": artifact(tmp_path, constant)})
    assert result.value("quantized") == 1


def test_an_old_model_is_taken_and_converted(tmp_path: Path, old: onnx.ModelProto) -> None:
    onnx.save(old, tmp_path / "old.onnx")
    converted = run_stage("convert/onnx", tmp_path, {"path": "old.onnx"})
    assert converted.log == "1 weight: no longer an input too, as before IR version 4\n"
    result = run_stage("optimize/float16", tmp_path, inputs={"model": converted.output})
    assert result.value("half_weights") == 1
