"""Models of a node or two."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def affine(weights: int = 4, dim: str | int = "batch") -> onnx.ModelProto:
    """Adds w to x of shape [dim, weights]."""
    shape = [dim, weights]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "affine",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.ones(weights, np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
