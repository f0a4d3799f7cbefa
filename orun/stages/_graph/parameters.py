"""Parameters of a model: numbers in tensors, and in the attributes in which `ai.onnx.ml` keeps its weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from orun.stages._graph.io import iter_nodes, iter_tensors

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

DOMAIN = "ai.onnx.ml"
RATES = "nodes_hitrates"  # how often training came by a node of a tree: no part of the model


def count_parameters(model: ModelProto) -> int:
    """Return the number of elements in weights, constants and attributes of `ai.onnx.ml`."""
    in_tensors: int = sum(math.prod(tensor.dims) for tensor in iter_tensors(model))
    return in_tensors + sum(map(count_attributes, iter_nodes(model)))


def count_attributes(node: NodeProto) -> int:
    """Return the numbers in the attributes of a node of `ai.onnx.ml`: coefficients, thresholds, values of leaves."""
    if node.domain != DOMAIN:
        return 0
    return sum(len(attribute.floats) for attribute in node.attribute if attribute.name != RATES)
