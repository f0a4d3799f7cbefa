"""`optimize/float16` with `to: bfloat16`: what ONNX's own reference computes of it, and what stays float32."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from benchmarks.families import FAMILIES
from orun.errors import StageFailed
from tests.stages.conftest import Exports
from tests.stages.models import TWO_PRODUCTS, WORDY, convolution, parse
from tests.stages.support import StageRun, artifact, run_stage

FLOAT, NARROW = TensorProto.FLOAT, TensorProto.BFLOAT16


def convert(folder: Path, model: Path, **params: Any) -> StageRun:
    return run_stage("optimize/float16", folder, {"to": "bfloat16", **params}, inputs={"model": model})


def types(run: StageRun) -> dict[str, int]:
    """The element type of each value and stored tensor; every node checked against the standard."""
    model = onnx.load(run.model)
    onnx.checker.check_model(model, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    values = {
        value.name: value.type.tensor_type.elem_type
        for value in (*inferred.input, *inferred.value_info, *inferred.output)
    }
    return values | {tensor.name: tensor.data_type for tensor in inferred.initializer}


def operators(run: StageRun) -> Counter[str]:
    return Counter(run.operators)


def nearest(values: Any) -> NDArray[np.float32]:
    return np.asarray(values, np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)


def test_each_value_is_rounded_once(tmp_path: Path) -> None:
    """By hand, by ONNX's reference on the model itself, and by the stage, which runs it in float32."""
    run = convert(tmp_path, artifact(tmp_path, parse(TWO_PRODUCTS)))
    assert types(run) == {
        "x": FLOAT, "x_bfloat16": NARROW, "h": NARROW, "y_bfloat16": NARROW, "y": FLOAT, "w": NARROW, "v": NARROW,
    }  # fmt: skip
    x = np.random.default_rng(0).standard_normal((20, 2)).astype(np.float32)
    w, v = ([[0.1, 0.2], [0.3, 0.4]], [[0.5, 0.6], [0.7, 0.8]])
    expected = nearest(nearest(nearest(x) @ nearest(w)) @ nearest(v))
    outputs: Any = ReferenceEvaluator(str(run.model)).run(None, {"x": x})
    np.testing.assert_allclose(outputs[0], expected.tolist(), rtol=2**-7)  # it may round sums on the way
    assert 1e-4 < run.value("max_abs_error") < 1e-2
    assert run.value("half_weights") == 2
    right = x @ np.array(w, np.float32) @ np.array(v, np.float32)
    np.save(tmp_path / "x.npy", x)
    again = convert(tmp_path, artifact(tmp_path, parse(TWO_PRODUCTS)), inputs="x.npy")
    assert again.value("max_abs_error") == pytest.approx(np.abs(expected - right)[:16].max(), rel=1e-5)


def test_a_transformer(tmp_path: Path, tiny_bert: Path) -> None:
    run = convert(tmp_path, tiny_bert, atol=0.05, rtol=0.05)
    assert run.value("size") < 0.7 * (tiny_bert / "model.onnx").stat().st_size
    assert 1e-3 < run.value("max_abs_error") < 0.2
    element_types = types(run)
    graph = onnx.load(run.model).graph
    assert {
        element_types[name]
        for node in graph.node
        if node.op_type in ("MatMul", "LayerNormalization")
        for name in node.input
    } == {NARROW}
    assert {element_types[value.name] for value in graph.output} == {FLOAT}
    assert run.value("half_weights") > 30


def test_what_float16_cannot_hold(tmp_path: Path) -> None:
    model = parse(WORDY)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full((4, 4), 1e6, np.float32), "w"))
    run = convert(tmp_path, artifact(tmp_path, model), atol=2e5)  # of sums of 1e6
    assert run.value("half_weights") == 2  # one was a constant
    lowest = np.finfo(np.float32).min
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full((4, 4), lowest, np.float32), "w"))
    run = convert(tmp_path, artifact(tmp_path, model), atol=np.inf)
    (stored,) = [tensor for tensor in onnx.load(run.model).graph.initializer if tensor.name == "w"]
    assert set(numpy_helper.to_array(stored).astype(float).ravel()) == {-(2.0**128 - 2.0**120)}  # not infinite


def test_inputs_and_outputs_too(tmp_path: Path) -> None:
    run = convert(tmp_path, artifact(tmp_path, parse(TWO_PRODUCTS)), keep_io_types=False)
    assert operators(run) == {"MatMul": 2}
    assert set(types(run).values()) == {NARROW}
    assert 1e-4 < run.value("max_abs_error") < 1e-2


def test_operators_that_the_set_does_not_have_in_it(tmp_path: Path) -> None:
    before = artifact(tmp_path, convolution())
    old = types(convert(tmp_path, before, atol=0.1))
    assert [old[name] for name in ("kernel", "b", "weight")] == [FLOAT, NARROW, NARROW]
    newer = run_stage("convert/opset", tmp_path, {"version": 22}, inputs={"model": before})
    new = types(convert(tmp_path, newer.output, atol=0.1))
    assert [new[name] for name in ("kernel", "b", "weight")] == [NARROW, NARROW, NARROW]


def test_nodes_that_stay_share_a_weight_and_read_one_another(tmp_path: Path) -> None:
    text = TWO_PRODUCTS.replace("MatMul (h, v)", "MatMul (h, w)").replace(", float[2, 2] v = {0.5, 0.6, 0.7, 0.8}", "")
    run = convert(tmp_path, artifact(tmp_path, parse(text)), block_nodes=["first"])
    assert types(run) == {
        "x": FLOAT, "h": FLOAT, "h_bfloat16": NARROW, "y_bfloat16": NARROW, "y": FLOAT, "w": FLOAT,
        "w_bfloat16": NARROW,
    }  # fmt: skip


DIFFERENCE = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 2] x) => (float[n, 2] y) <float far = {4096.0}, float[2, 2] w = {0.1, 0.2, 0.3, 0.4}>
{
  p = MatMul (x, w)
  away = Add (p, far)
  back = Sub (away, far)
  y = MatMul (back, w)
}
"""


def test_what_must_stay_float32_is_found(tmp_path: Path) -> None:
    model = artifact(tmp_path, parse(DIFFERENCE))
    with pytest.raises(StageFailed, match=r"^the bfloat16 model disagrees with the model before it in output 'y'\n"):
        convert(tmp_path, model)
    run = convert(tmp_path, model, mixed=True)
    assert "stay float32:\n  away\n" in run.log
    element_types = types(run)
    assert (element_types["away"], element_types["p"]) == (FLOAT, NARROW)


MIXED = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 4] x, bool c) => (float[n, 4] y, float[n, 1] mean, bool[n, 4] above, float[n, 4] x)
<float[4] scale = {1, 2, 3, 4}, float[4, 4] w = WEIGHTS, float half = {0.5}>
{
  product = MatMul (x, w)
  normal, mean = LayerNormalization (product, scale)
  above = Greater (x, half)
  y = If (c) <
    then_branch = yes () => (float[n, 4] u) <float[4] one = {0.1, 0.1, 0.1, 0.1}> { u = Add (normal, one) },
    else_branch = no () => (float[n, 4] k) { k = Neg (product) }
  >
}
"""


@pytest.mark.parametrize("keep", [True, False])
def test_branches_a_mean_a_question_and_an_output_that_is_an_input(tmp_path: Path, *, keep: bool) -> None:
    """The mean stays float32 as an attribute has it; of the input is asked what it is, not what it is rounded to."""
    text = MIXED.replace("WEIGHTS", f"{{{', '.join(f'{number / 10}' for number in range(16))}}}")
    run = convert(tmp_path, artifact(tmp_path, parse(text)), keep_io_types=keep, atol=1.0)
    element_types, outside = types(run), FLOAT if keep else NARROW
    assert [element_types[name] for name in ("x", "y", "mean", "above")] == [
        outside,
        outside,
        outside,
        TensorProto.BOOL,
    ]
    assert [element_types[name] for name in ("product", "normal", "w", "scale")] == [NARROW] * 4
    (question,) = [node for node in onnx.load(run.model).graph.node if node.op_type == "Greater"]
    assert list(question.input) == ["x", "half"]
    assert element_types["half"] == outside


RMS = """
<ir_version: 11, opset_import: ["" : 23]>
g (float[n, 4] x) => (float[n, 4] y) <float[4] scale = {1, 2, 3, 4}> { y = RMSNormalization (x, scale) }
"""


def test_an_operator_whose_input_may_be_of_another_type_than_what_it_yields(tmp_path: Path) -> None:
    """The standard lets it take float32 and yield bfloat16, which its own shape inference refuses."""
    run = convert(tmp_path, artifact(tmp_path, parse(RMS)), atol=0.05)
    element_types = types(run)
    (node,) = [node for node in onnx.load(run.model).graph.node if node.op_type == "RMSNormalization"]
    assert {element_types[name] for name in (*node.input, *node.output)} == {NARROW}


SLOW = ("llama",)  # as test_transformer_families.py exports it; a small BERT is quick, above


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else pytest.mark.table) for name in FAMILIES]
)
def test_fused_operators_stay_float32(tmp_path: Path, exports: Exports, family: str) -> None:
    """ONNX Runtime puts SimplifiedLayerNormalization into the standard's domain, which does not know it."""
    dims = FAMILIES[family].dims
    fused = run_stage("optimize/transformer", tmp_path, {"dims": dims}, inputs={"model": exports(family)})
    atol = 200.0 if family == "mobilebert" else 0.3  # whose values reach thousands
    converted = convert(tmp_path, fused.output, dims=dims, atol=atol, rtol=0.3)
    model = onnx.load(converted.model)
    stored = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert operators(converted).keys() >= operators(fused).keys()
    read = [
        (node.op_type, stored.get(name))
        for node in model.graph.node
        if node.domain == "com.microsoft" or node.op_type == "SimplifiedLayerNormalization"
        for name in node.input
    ]
    assert read
    assert not [operator for operator, kind in read if kind == NARROW]


FOREST = """
<ir_version: 9, opset_import: ["ai.onnx.ml" : 3]>
g (float[n, 4] x) => (float[n, 4] y) { y = ai.onnx.ml.Normalizer <norm = "MAX"> (x) }
"""


def test_a_model_without_the_standard_operators(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match=r"^nothing in the model could be converted\n"):
        convert(tmp_path, artifact(tmp_path, parse(FOREST)))
