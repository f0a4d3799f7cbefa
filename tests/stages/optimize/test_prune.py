from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper, parser

from orun.errors import StageFailed, UnknownName
from orun.stages._graph.sessions import open_model
from tests.stages.models import WORDY, convolution, parse, weights_of
from tests.stages.support import StageRun, artifact, run_stage

Array = NDArray[Any]

# A depthwise convolution, bounds as constants, and two places a channel that become neighbours.
DEEP = """
<ir_version: 9, opset_import: ["" : 20]>
deep (float[n, 2, 4, 4] x) => (float[n, 3] y)
{
  low = Constant <value = float {-1.0}> ()
  high = Constant <value = float {2.0}> ()
  [first] a = Conv (x, k1, b1)
  [deep] b = Conv <group = 4> (a, k2, b2)
  c = Clip (b, low, high)
  d = MaxPool <kernel_shape = [1, 2], strides = [1, 2]> (c)
  e = Flatten (d)
  [head] y = Gemm <transB = 1> (e, w, bias)
}
"""
SHAPES = {"k1": (4, 2, 2, 2), "b1": (4,), "k2": (4, 1, 2, 2), "b2": (4,), "w": (3, 8), "bias": (3,)}
# GELU as exporters spell it, and a residual that keeps the last layer's channels.
MLP = """
<ir_version: 9, opset_import: ["" : 20]>
mlp (float[n, s, 4] x) => (float[n, s, 4] y)
<float root = {1.4142135}, float one = {1.0}, float half = {0.5}>
{
  [up] a = MatMul (x, w1)
  b = Add (a, b1)
  c = Div (b, root)
  d = Erf (c)
  e = Add (d, one)
  f = Mul (b, e)
  g = Mul (f, half)
  [down] h = MatMul (g, w2)
  y = Add (h, x)
}
"""


def with_weights(text: str, shapes: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
    random = np.random.default_rng(0)
    model = parser.parse_model(text)
    for name, shape in shapes.items():
        array = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.checker.check_model(model, full_check=True)
    return model


def prune(folder: Path, model: onnx.ModelProto, **params: Any) -> StageRun:
    return run_stage("optimize/prune", folder, params, inputs={"model": artifact(folder, model)})


def change(model: onnx.ModelProto, **arrays: Array) -> onnx.ModelProto:
    for tensor in model.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    return model


def answer(folder: Path, model: onnx.ModelProto, shape: tuple[int, ...]) -> Array:
    value = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    run = open_model(artifact(folder, model) / "model.onnx", [model.graph.output[0].name])
    (output,) = run({model.graph.input[0].name: value})
    return output


def test_the_smallest_weights_become_zero(tmp_path: Path) -> None:
    run = prune(tmp_path, parse(WORDY), proportion=0.25)
    weights = weights_of(onnx.load(run.model))["w"]
    assert weights.ravel().tolist() == [0, 0, 0, 0, *np.arange(5, 17, dtype=np.float32) / np.float32(10)]
    assert [run.value(name) for name in ("parameters", "removed", "sparsity")] == [17, 0, 4 / 17]


def test_layers_together_or_each_by_itself(tmp_path: Path) -> None:
    model = with_weights(MLP, {"w1": (4, 6), "b1": (6,), "w2": (6, 4)})
    change(model, w1=weights_of(model)["w1"] * 100)

    def zeros(**params: Any) -> tuple[int, ...]:
        weights = weights_of(onnx.load(prune(tmp_path, model, **params).model))
        return tuple(int((weights[name] == 0).sum()) for name in ("w1", "w2"))

    assert zeros() == (12, 12)
    assert zeros(scope="global") == (0, 24)
    assert zeros(exclude=["up"]) == (0, 12)
    assert zeros(proportion=0.25) == (6, 6)


def test_channels_that_are_zero_go_without_a_trace(tmp_path: Path) -> None:
    model = convolution()
    before = weights_of(model)
    gone = [1, 4]
    silent = {name: before[name].copy() for name in ("kernel", "shift", "mean")}
    for array in silent.values():
        array[gone] = 0
    change(model, **silent)
    run = prune(tmp_path, model, method="structured", proportion=0.34)
    after = weights_of(onnx.load(run.model))
    assert {name: array.shape for name, array in after.items()} == {
        "kernel": (4, 3, 3, 3), "weight": (4, 5), "bias": (5,), "scale": (4,), "shift": (4,), "mean": (4,),
        "variance": (4,),
    }  # fmt: skip
    assert np.array_equal(after["weight"], np.delete(before["weight"], gone, 0))
    assert run.value("removed") == 2 * (27 + 5 + 4)
    assert run.value("nodes") == 6
    assert run.value("max_abs_error") < 1e-6


def test_a_depthwise_convolution_and_a_flatten_follow(tmp_path: Path) -> None:
    """What is left computes what the whole model does when the head does not look at the channels that are gone."""
    model = with_weights(DEEP, SHAPES)
    run = prune(tmp_path, model, method="structured", exclude=["head"])
    pruned = onnx.load(run.model)
    weights = weights_of(pruned)
    assert [weights[name].shape for name in SHAPES] == [(2, 2, 2, 2), (2,), (2, 1, 2, 2), (2,), (3, 4), (3,)]
    unpruned = weights_of(model)
    norms = np.abs(unpruned["k1"]).sum((1, 2, 3))
    gone = np.sort(np.argsort(norms)[:2])
    head = unpruned["w"].copy()
    for channel in gone:
        head[:, 2 * channel : 2 * channel + 2] = 0
    expected = answer(tmp_path, change(model, w=head), (5, 2, 4, 4))
    np.testing.assert_allclose(answer(tmp_path, pruned, (5, 2, 4, 4)), expected, rtol=1e-5, atol=1e-6)


def test_a_depthwise_convolution_that_is_left_out_keeps_its_channels(tmp_path: Path) -> None:
    text = DEEP.replace("[head]", "[middle] m = Gemm <transB = 1> (e, v)  [head]").replace("(e, w", "(m, w")
    model = with_weights(text, {**SHAPES, "v": (6, 8), "w": (3, 6)})
    run = prune(tmp_path, model, method="structured", exclude=["deep", "head"])
    assert [weights_of(onnx.load(run.model))[name].shape for name in ("k1", "k2", "v")] == [
        (4, 2, 2, 2),
        (4, 1, 2, 2),
        (3, 8),
    ]
    assert "Conv 'first' keeps its channels: they reach Conv 'deep', which is in `exclude`" in run.log


def test_matrix_products_around_a_gelu(tmp_path: Path) -> None:
    model = with_weights(MLP, {"w1": (4, 6), "b1": (6,), "w2": (6, 4)})
    run = prune(tmp_path, model, method="structured")
    pruned = onnx.load(run.model)
    assert [weights_of(pruned)[name].shape for name in ("w1", "b1", "w2")] == [(4, 3), (3,), (3, 4)]
    rows = weights_of(model)["w2"].copy()
    rows[np.argsort(np.abs(weights_of(model)["w1"]).sum(0))[:3]] = 0
    expected = answer(tmp_path, change(model, w2=rows), (2, 3, 4))
    np.testing.assert_allclose(answer(tmp_path, pruned, (2, 3, 4)), expected, rtol=1e-5, atol=1e-6)
    assert "MatMul 'down' keeps its channels: 'x' is neither stored nor of the same channels" in run.log


def test_nothing_that_could_go(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        prune(tmp_path, parse(WORDY), method="structured")
    assert str(caught.value) == (
        "nothing in the model could be pruned\n"
        "  MatMul 'product' keeps its channels: 'twice' is neither stored nor of the same channels\n"
        "  hint: `optimize/simplify` before it stores what the model computes from weights alone"
    )


def test_shared_weights_that_could_not_go(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]>
        g (float[n, 2] x) => (float[n, 2] y) <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}> {
            [left] a = MatMul (x, w) [right] y = MatMul (a, w)
        }"""
    with pytest.raises(StageFailed) as caught:
        prune(tmp_path, parse(text), method="structured")
    assert str(caught.value) == (
        "nothing in the model could be pruned\n"
        "  MatMul 'left' keeps its channels: 'w' is read in several places, or an input of the model\n"
        "  MatMul 'right' keeps its channels: 'w' is read in several places, or an input of the model\n"
        "  hint: `method: magnitude` sets weights to zero where a layer keeps its channels"
    )


def test_all_channels(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        prune(tmp_path, convolution(), method="structured", proportion=1.0)
    assert str(caught.value) == (
        "`method: structured` cannot remove 100 % of the channels\n"
        "  a layer without channels computes nothing\n"
        "  hint: lower `proportion`"
    )


def test_a_layer_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        prune(tmp_path, convolution(), exclude=["cnv"])
    assert str(caught.value) == (
        "exclude: the model has no 'cnv'\n"
        "  it has conv, flat, head, norm, pool and 1 more\n"
        "  hint: any ONNX viewer shows them"
    )
