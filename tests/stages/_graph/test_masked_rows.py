"""Values that depend on attention rows that see nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from orun.stages._graph.limits import find_arbitrary
from orun.stages._graph.masked_rows import open_filled
from tests.stages.support import artifact

Array = NDArray[Any]
LENGTH = 4
HEAD = '<ir_version: 9, opset_import: ["" : %d, "com.microsoft" : 1]>'
SOFTMAX = """
g (float[b, 4, 8] x, float[b, 1, 4, 4] bias) => (float[b, 4, 8] y, float[b, 8] pooled, float[b, 8] first)
{
  wide = Unsqueeze (x, one)
  turned = Transpose <perm = [0, 1, 3, 2]> (wide)
  scores = MatMul (wide, turned)
  hidden = Add (scores, bias)
  shares = Softmax <axis = -1> (hidden)
  mixed = MatMul (shares, wide)
  narrow = Squeeze (mixed, one)
  y = Add (narrow, x)
  pooled = ReduceMax <keepdims = 0> (y, one)
  first = Gather <axis = 1> (y, zero)
}
"""
FUSED = {
    "bias": "y = com.microsoft.MultiHeadAttention <num_heads = 2> (x, x, x, none, none, bias)",
    "causal bias": "y = com.microsoft.MultiHeadAttention <num_heads = 2, unidirectional = 1> (x, x, x, none, none, "
    "bias)",
    "causal mask": "y = com.microsoft.MultiHeadAttention <num_heads = 2, unidirectional = 1> (x, x, x, none, mask)",
    "packed": "y = com.microsoft.Attention <num_heads = 2, unidirectional = 1> (x, weights, offsets, mask)",
}
STANDARD = """
g (float[b, 4, 8] x, bool[b, 1, 4, 4] shown) => (float[b, 4, 8] y)
{ y = Attention <q_num_heads = 2, kv_num_heads = 2> (x, x, x, shown) }
"""


def parse(text: str, opset: int = 20) -> onnx.ModelProto:
    model = onnx.parser.parse_model(HEAD % opset + text.replace("none", ""))
    weights = np.random.default_rng(1).standard_normal((8, 24)).astype(np.float32)
    stored = {"one": np.array([1]), "zero": np.array(0), "weights": weights, "offsets": weights[0]}
    read = {name for node in model.graph.node for name in node.input}
    for name, value in stored.items():
        if name in read:
            model.graph.initializer.append(numpy_helper.from_array(value, name))
    return model


def arbitrary_values(folder: Path, model: onnx.ModelProto, feed: dict[str, Array]) -> list[Array]:
    path = artifact(folder, model) / "model.onnx"
    with contextlib.chdir(folder):
        function = open_filled(path, [value.name for value in model.graph.output], None)
    values = find_arbitrary(function, feed)
    assert values is not None
    return list(values)


def numbers(batch: int = 2) -> Array:
    return np.random.default_rng(0).standard_normal((batch, LENGTH, 8)).astype(np.float32)


def causal(shown: Array, low: float) -> Array:
    """Return the bias of a decoder: a query sees keys that are shown and not later."""
    seen = shown[:, None, None, :].astype(bool) & np.tril(np.ones((LENGTH, LENGTH), bool))
    return np.where(seen, 0, low).astype(np.float32)


SHOWN = np.array([[0, 0, 1, 1], [1, 0, 1, 1]])  # rows 0 and 1 of the first text see nothing
BLIND = np.array([[True, True, False, False], [False] * 4])


@pytest.mark.parametrize("low", [-np.inf, float(np.finfo(np.float32).min), -1e9, -1e4])
@pytest.mark.parametrize("opset", [13, 17, 20])
def test_a_softmax(tmp_path: Path, low: float, opset: int) -> None:
    model = parse(
        SOFTMAX if opset > 17 else SOFTMAX.replace("(y, one)", "(y)").replace("keepdims", "axes = [1], keepdims"), opset
    )
    y, pooled, first = arbitrary_values(tmp_path, model, {"x": numbers(), "bias": causal(SHOWN, low)})
    assert np.array_equal(y.all(-1), BLIND)
    assert np.array_equal(y.any(-1), BLIND)
    assert pooled[0].any()
    assert not pooled[1].any()
    assert np.array_equal(first.all(-1), [True, False])


def test_scores_that_are_low_and_seen(tmp_path: Path) -> None:
    bias = causal(SHOWN, -np.inf) - 1000
    y, _, _ = arbitrary_values(tmp_path, parse(SOFTMAX), {"x": numbers(), "bias": bias.astype(np.float32)})
    assert np.array_equal(y.any(-1), BLIND)


@pytest.mark.parametrize("form", FUSED)
def test_a_fused_attention(tmp_path: Path, form: str) -> None:
    mask = "float[b, 1, 4, 4] bias" if "bias" in form else "int32[b, 4] mask"
    model = parse(f"g (float[b, 4, 8] x, {mask}) => (float[b, 4, 8] y) {{ {FUSED[form]} }}")
    feed = {"x": numbers(), "bias": causal(SHOWN, -1e4), "mask": SHOWN.astype(np.int32)}
    (y,) = arbitrary_values(tmp_path, model, {name: feed[name] for name in ("x", mask.rpartition(" ")[2])})
    assert np.array_equal(y.all(-1), BLIND)
    assert np.array_equal(y.any(-1), BLIND)


def test_a_mask_of_lengths_hides_no_row(tmp_path: Path) -> None:
    model = parse(f"g (float[b, 4, 8] x, int32[b] mask) => (float[b, 4, 8] y) {{ {FUSED['packed']} }}")
    path = artifact(tmp_path, model) / "model.onnx"
    with contextlib.chdir(tmp_path):
        assert open_filled(path, ["y"], None) is None


def test_an_attention_of_the_standard(tmp_path: Path) -> None:
    (y,) = arbitrary_values(tmp_path, parse(STANDARD, 23), {"x": numbers(), "shown": causal(SHOWN, 1.0) == 0})
    assert np.array_equal(y.any(-1), BLIND)


def test_a_model_without_attention(tmp_path: Path) -> None:
    path = artifact(tmp_path, parse("g (float[b, 4] x) => (float[b, 4] y) { y = Neg (x) }")) / "model.onnx"
    with contextlib.chdir(tmp_path):
        assert open_filled(path, ["y"], None) is None
