"""The canonical form of a graph: the same for every way of writing it down."""

from __future__ import annotations

import numpy as np
import onnx
from onnxruntime import InferenceSession

from orun.stages._graph.canonical import canonicalize
from tests.stages.models import parse

ONE = """
<ir_version: 9, opset_import: ["" : 18]>
g (float[n, 2] x) => (float[n, 2] y, float[n, 2] z)
<float[2, 2] w__7 = {1, 2, 3, 4}, float[2] one__3 = {1, 1}, float[2] two__9 = {1, 1}>
{
  dead = Abs(x)
  a__12 = Add(x, one__3)
  b__4 = MatMul(a__12, w__7)
  y = Add(b__4, two__9)
  z = Relu(a__12)
}
"""
OTHER = """
<ir_version: 9, opset_import: ["" : 18]>
h (float[n, 2] x) => (float[n, 2] y, float[n, 2] z)
<float[2] ones = {1, 1}, float[2, 2] weight = {1, 2, 3, 4}>
{
  sum = Add(x, ones)
  z = Relu(sum)
  product = MatMul(sum, weight)
  y = Add(product, ones)
}
"""
LOOP = """
<ir_version: 9, opset_import: ["" : 18]>
g (float[2] x) => (float[2] y)
<int64 times__8 = {3}, float[2] step__5 = {1, 2}>
{
  y = Loop <body = b (int64 i__1, bool c__2, float[unk__3] s__4) => (bool d, float[unk__6] t, float[unk__7] u)
    { d = Identity(c__2) sum__9 = Add(s__4, step__5) t = Identity(sum__9) u = Identity(sum__9) }>
    (times__8, , x)
}
"""


def brought(text: str, layers: dict[str, str] | None = None) -> onnx.ModelProto:
    model = parse(text)
    for node in model.graph.node:
        node.name = (layers or {}).get(node.op_type, "")
    canonicalize(model)
    onnx.checker.check_model(model)
    return model


def test_two_ways_to_write_one_graph() -> None:
    first = brought(ONE, {"MatMul": "StatefulPartitionedCall/net/dense/MatMul__31", "Relu": "net/Relu__5"})
    other = brought(OTHER, {"MatMul": "net/dense/MatMul", "Relu": "net/Relu_1"})
    assert first.SerializeToString() == other.SerializeToString()
    assert [node.name for node in first.graph.node] == ["Add", "net/dense/MatMul", "Add_1", "Relu"]
    assert [tensor.name for tensor in first.graph.initializer] == ["Add.1", "net/dense/MatMul.1"]


def test_it_computes_the_same() -> None:
    x = np.array([[1, -2], [3, 4]], np.float32)
    before, after = (
        InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
        for model in (parse(ONE), brought(ONE))
    )
    assert all(np.array_equal(first, other) for first, other in zip(before, after, strict=True))


def test_graphs_inside_nodes() -> None:
    text = LOOP.replace("y = Loop", "y, all = Loop")
    model = brought(text)
    swapped = brought(text.replace("t = Identity(sum__9) u = Identity(sum__9)", "u = Identity(sum__9) t = Identity(u)"))
    assert model.SerializeToString() == swapped.SerializeToString()
    assert "__" not in str(model)
    x = np.array([1, 2], np.float32)
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": x})[0].tolist() == [4.0, 8.0]
