"""Functions for optimize/python."""

from __future__ import annotations

import onnx
import onnx_ir
from onnx_ir.passes.common import IdentityEliminationPass


def remove_transposes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Remove the pair of transposes of `WORDY`."""
    kept = [node for node in model.graph.node if node.op_type != "Transpose"]
    for node in kept:
        node.input[:] = ["same" if name == "back" else name for name in node.input]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def wrong_weight(model: onnx.ModelProto) -> onnx.ModelProto:
    """Make a weight twice as large."""
    weight = model.graph.initializer[0]
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 2, weight.name))
    return model


def eliminate_identity(model: onnx_ir.Model) -> onnx_ir.Model:
    """A pass of onnx-ir."""
    return IdentityEliminationPass()(model).model


def nothing(model: onnx.ModelProto) -> None:
    """Forgets to return it."""


def with_scores(model: onnx.ModelProto) -> onnx.ModelProto:
    """Yield the softmax of `y`, too."""
    model.graph.node.append(onnx.helper.make_node("Softmax", ["y"], ["scores"]))
    model.graph.output.append(onnx.helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["n", 4]))
    return model


def wrong_with_scores(model: onnx.ModelProto) -> onnx.ModelProto:
    """Yield more, and something else than before."""
    return with_scores(wrong_weight(model))


def from_bytes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Take bytes, which are scaled."""
    scaled = onnx.helper.make_node("Cast", ["pixels"], [model.graph.input[0].name], to=onnx.TensorProto.FLOAT)
    model.graph.node.insert(0, scaled)
    model.graph.input[0].name = "pixels"
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    return model
