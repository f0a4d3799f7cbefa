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
