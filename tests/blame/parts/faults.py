"""Functions for optimize/python that plant a fault each."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper


def fuse_wrongly(model: onnx.ModelProto) -> onnx.ModelProto:
    """Put a product and its Relu into one operator, with another activation: a fusion that takes a pattern for one."""
    kept = [node for node in model.graph.node if node.name not in ("first", "bend")]
    fused = helper.make_node(
        "FusedGemm",
        ["x", "w1", ""],
        ["b"],
        name="fused_gemm",
        domain="com.microsoft",
        activation="LeakyRelu",
        activation_alpha=0.4,
    )
    del model.graph.node[:]
    model.graph.node.extend([fused, *kept])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def make_slow(model: onnx.ModelProto) -> onnx.ModelProto:
    """Make the layer after `bend` slow: products with the identity, which change no value."""
    nodes = list(model.graph.node)
    place = next(number for number, node in enumerate(nodes) if node.name == "bend")
    width = next(tensor.dims[0] for tensor in model.graph.initializer if tensor.name == "w2")
    last = nodes[place].output[0]
    steps = [
        helper.make_node("MatMul", [last if n == 0 else f"slow{n}", f"same{n}"], [f"slow{n + 1}"], name=f"slow_{n}")
        for n in range(6)
    ]
    for n in range(6):
        model.graph.initializer.append(numpy_helper.from_array(np.eye(width, dtype=np.float32), f"same{n}"))
    for node in nodes[place + 1 :]:
        node.input[:] = ["slow6" if name == last else name for name in node.input]
    del model.graph.node[:]
    model.graph.node.extend([*nodes[: place + 1], *steps, *nodes[place + 1 :]])
    return model


def turn_round(model: onnx.ModelProto) -> onnx.ModelProto:
    """Change the sign of what `bend` yields."""
    (bend,) = (node for node in model.graph.node if node.name == "bend")
    last = bend.output[0]
    bend.output[0] = "bent"
    model.graph.node.insert(1, helper.make_node("Neg", ["bent"], [last], name="turn"))
    return model


def leave_alone(model: onnx.ModelProto) -> onnx.ModelProto:
    """No fault."""
    return model


def note(model: onnx.ModelProto) -> onnx.ModelProto:
    """No fault, in another file."""
    model.graph.doc_string = "noted"
    return model
