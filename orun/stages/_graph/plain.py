"""Normalization of a model, for converters that do not understand every way of writing it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from onnx import ModelProto, NodeProto, helper, inliner, numpy_helper, shape_inference

from orun.stages._graph.domains import find_standard_opset
from orun.stages._graph.io import STORED_FREELY, iter_graphs, store_freely
from orun.stages._graph.names import list_scopes, make_unique
from orun.stages._graph.nodes import attribute, list_needed, set_items
from orun.stages._graph.signature import list_inputs

ADD_BROADCASTS = 7  # operator set since which Add broadcasts as Gemm does


def inline(model: ModelProto) -> ModelProto:
    """Return the model with its functions inlined; names of inner nodes begin with the caller's name."""
    if not model.functions:
        return model
    inlined: ModelProto = inliner.inline_local_functions(model)
    return inlined


def hoist(model: ModelProto) -> None:
    """Turn Constant nodes into initializers, in place, so that all weights are found the same way."""
    store_freely(model)
    kept = []
    for node in model.graph.node:
        value = next((item.t for item in node.attribute if item.name == "value"), None)
        if node.op_type != "Constant" or value is None:
            kept.append(node)
            continue
        model.graph.initializer.add().CopyFrom(value)
        model.graph.initializer[-1].name = node.output[0]
    set_items(model.graph.node, kept)


def split_gemm(model: ModelProto, exclude: Collection[str]) -> None:
    """Replace Gemm of a stored matrix by the MatMul and the Add that it computes, in place.

    Nodes named in `exclude` stay, Gemm that scales or transposes its left matrix stays, and so does every Gemm of
    operator sets before 7, in which Add broadcasts otherwise.
    """
    if find_standard_opset(model) < ADD_BROADCASTS:
        return
    stored = {tensor.name for tensor in model.graph.initializer}
    used = {name for graph in list_scopes(model) for node in graph.node for name in (*node.input, *node.output)}
    kept: list[NodeProto] = []
    for node in model.graph.node:
        scaled = [attribute(node, name, default) != default for name, default in (("alpha", 1.0), ("beta", 1.0))]
        stays = node.name in exclude or any(scaled) or attribute(node, "transA", 0)
        if node.op_type != "Gemm" or stays or node.input[1] not in stored:
            kept.append(node)
            continue
        left, matrix, bias = (*node.input, "")[:3]
        if attribute(node, "transB", 0):
            transposed = make_unique(f"{matrix}/transposed", used)
            kept.append(helper.make_node("Transpose", [matrix], [transposed], perm=[1, 0]))
            matrix = transposed
        product = make_unique(f"{node.output[0]}/product", used) if bias else node.output[0]
        kept.append(helper.make_node("MatMul", [left, matrix], [product], node.name))
        if bias:
            kept.append(helper.make_node("Add", [product, bias], [node.output[0]]))
    set_items(model.graph.node, kept)


def fold_transposes(model: ModelProto) -> None:
    """Store the transposed matrices that products read, in place of Transpose nodes.

    One example is an embedding table that is also the last product. Quantizers of products only find stored matrices.
    """
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    matrices = {node.input[1] for node in model.graph.node if node.op_type == "MatMul"}
    transposes = [
        node
        for node in model.graph.node
        if node.op_type == "Transpose" and node.output[0] in matrices and node.input[0] in stored
    ]
    for node in transposes:
        order = attribute(node, "perm", None)
        values = numpy_helper.to_array(stored[node.input[0]]).transpose(order)
        model.graph.initializer.append(numpy_helper.from_array(values.copy(), node.output[0]))
        model.graph.node.remove(node)
    for name in {node.input[0] for node in transposes} - list_needed(model.graph):
        model.graph.initializer.remove(stored[name])


def fill(model: ModelProto) -> int:
    """Store sparse tensors as dense ones, in place, and return their number: only ONNX Runtime reads sparse ones."""
    count = 0
    for graph in list_scopes(model):
        for sparse in graph.sparse_initializer:
            values, places = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
            full = np.zeros(tuple(sparse.dims), values.dtype)
            full[np.unravel_index(places, full.shape) if places.ndim == 1 else tuple(places.T)] = values
            graph.initializer.append(numpy_helper.from_array(full, sparse.values.name))
            count += 1
        del graph.sparse_initializer[:]
    return count


def tell_apart(model: ModelProto) -> int:
    """Rename nodes that share a name, in place, and return their number: ONNX Runtime refuses such a graph."""
    renamed = 0
    for graph in iter_graphs(model):
        used: set[str] = set()
        names = {node.name for node in graph.node}
        for node in graph.node:
            if node.name in used:
                node.name = make_unique(node.name, names)
                renamed += 1
            elif node.name:
                used.add(node.name)
    return renamed


def complete_outputs(model: ModelProto, light: ModelProto) -> None:
    """Give outputs without a shape the one that ONNX infers, in place: its checker requires a shape.

    `light` is the same model without its weights.
    """
    bare = {
        value.name: value.type.tensor_type
        for value in model.graph.output
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")
    }
    if not bare:
        return
    for value in shape_inference.infer_shapes(light).graph.output:
        if value.name in bare and value.type.tensor_type.HasField("shape"):
            bare[value.name].shape.CopyFrom(value.type.tensor_type.shape)


def part_weights(model: ModelProto) -> int:
    """Remove the weights of an old model from its inputs, in place, and return their number.

    Before IR version 4 every weight had to be an input. A caller might pass other values for an input, so ONNX Runtime
    and converters do not optimize such weights. From version 4 on, a weight is an input only on purpose.
    """
    if model.ir_version >= STORED_FREELY:
        return 0
    inputs = list_inputs(model)
    parted = len(model.graph.input) - len(inputs)
    set_items(model.graph.input, inputs)
    if parted:
        store_freely(model)
    return parted
