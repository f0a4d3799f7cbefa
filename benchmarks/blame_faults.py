"""Functions that plant faults into MiniLM, and its examples; `benchmarks/blame.py` copies this file."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import onnx
from onnx import helper, numpy_helper

from orun import Dataset

UNEVEN = "/bert/encoder/layer.2/attention/output/dense/MatMul"
WRONG = "/bert/encoder/layer.4/attention/output/LayerNorm/LayerNormalization"
SLOW = "/bert/encoder/layer.1/intermediate/dense/MatMul"
FACTOR = 300.0
PRODUCTS = 24


def texts() -> Dataset:
    """Return sentences without retrieval candidates."""
    pairs: Dataset = import_module("docs").pairs()  # next to the copy of this file
    return Dataset(pairs.inputs)


def uneven(model: onnx.ModelProto) -> onnx.ModelProto:
    """Move a factor from the values of an attention head to its output: the same function, but bad for int8."""
    value = _node(model, UNEVEN.replace("/output/dense/", "/self/value/"))
    bias = next(node for node in model.graph.node if value.output[0] in node.input)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    _scale(stored[value.input[1]], (slice(None), slice(0, 8)), 1 / FACTOR)
    _scale(stored[next(name for name in bias.input if name in stored)], (slice(0, 8),), 1 / FACTOR)
    _scale(stored[_node(model, UNEVEN).input[1]], (slice(0, 8),), FACTOR)
    return model


def fuse_wrongly(model: onnx.ModelProto) -> onnx.ModelProto:
    """Fuse a sum and its normalisation wrongly: one of the two summands counts twice."""
    norm = _node(model, WRONG)
    place = next(number for number, node in enumerate(model.graph.node) if norm.input[0] in node.output)
    total = model.graph.node[place]
    fused = helper.make_node(
        "SkipLayerNormalization",
        [total.input[0], total.input[0], *norm.input[1:]],
        list(norm.output),
        name="SkipLayerNorm_fused",
        domain="com.microsoft",
        epsilon=1e-12,
    )
    nodes = [fused if node.name == WRONG else node for node in model.graph.node if node.name != total.name]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def make_slow(model: onnx.ModelProto) -> onnx.ModelProto:
    """Insert products with the identity before a layer, which change no value."""
    layer = _node(model, SLOW)
    width = next(tensor.dims[0] for tensor in model.graph.initializer if tensor.name == layer.input[1])
    names = [layer.input[0], *(f"slow{number}" for number in range(PRODUCTS))]
    steps = []
    for number in range(PRODUCTS):
        weight = numpy_helper.from_array(np.eye(width, dtype=np.float32), f"same{number}")
        model.graph.initializer.append(weight)
        inputs = [names[number], weight.name]
        steps.append(helper.make_node("MatMul", inputs, [names[number + 1]], name=f"slow_{number}"))
    nodes = list(model.graph.node)
    place = next(number for number, node in enumerate(nodes) if node.name == SLOW)
    nodes[place].input[0] = names[-1]
    del model.graph.node[:]
    model.graph.node.extend([*nodes[:place], *steps, *nodes[place:]])
    return model


def _node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    match: onnx.NodeProto = next(node for node in model.graph.node if node.name == name)
    return match


def _scale(tensor: onnx.TensorProto, place: tuple[slice, ...], factor: float) -> None:
    values = numpy_helper.to_array(tensor).copy()
    values[place] *= factor
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
