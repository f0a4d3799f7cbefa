"""A model said plainly, in place of ways of writing it that converters do not look into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orun.stages._graph.io import STORED_FREELY, store_freely

if TYPE_CHECKING:
    from onnx import ModelProto


def inline(model: ModelProto) -> ModelProto:
    """The model with the functions of its own put where they are called, names of nodes inside made of the caller's."""
    if not model.functions:
        return model
    from onnx import inliner

    inlined: ModelProto = inliner.inline_local_functions(model)
    return inlined


def hoist(model: ModelProto) -> None:
    """Store what Constant nodes yield beside the other tensors, in place, so that weights are found in one way."""
    store_freely(model)
    left = []
    for node in model.graph.node:
        value = next((item.t for item in node.attribute if item.name == "value"), None)
        if node.op_type != "Constant" or value is None:
            left.append(node)
            continue
        model.graph.initializer.add().CopyFrom(value)
        model.graph.initializer[-1].name = node.output[0]
    del model.graph.node[:]
    model.graph.node.extend(left)


def turn(model: ModelProto) -> None:
    """Store the matrices that products read as Transpose nodes make them of stored ones, in place.

    Such is a table of words that is the last product as well: what quantizes products finds stored matrices alone.
    """
    from onnx import numpy_helper

    from orun.stages._graph.order import reads

    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    wanted = {node.input[1] for node in model.graph.node if node.op_type == "MatMul"}
    turned = [
        node
        for node in model.graph.node
        if node.op_type == "Transpose" and node.output[0] in wanted and node.input[0] in stored
    ]
    for node in turned:
        order = next((item.ints for item in node.attribute if item.name == "perm"), None)
        values = numpy_helper.to_array(stored[node.input[0]]).transpose(order)
        model.graph.initializer.append(numpy_helper.from_array(values.copy(), node.output[0]))
        model.graph.node.remove(node)
    read = {name for node in model.graph.node for name in reads(node)} | {value.name for value in model.graph.output}
    for name in {node.input[0] for node in turned} - read:
        model.graph.initializer.remove(stored[name])


def fill(model: ModelProto) -> int:
    """Store sparse tensors in full, in place; how many there were. Of all tools ONNX Runtime alone reads them."""
    import numpy as np
    from onnx import GraphProto, numpy_helper

    from orun.stages._graph.io import graphs

    count = 0
    for graph in graphs(model):
        if not isinstance(graph, GraphProto):
            continue
        for sparse in graph.sparse_initializer:
            values, places = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
            full = np.zeros(tuple(sparse.dims), values.dtype)
            full[np.unravel_index(places, full.shape) if places.ndim == 1 else tuple(places.T)] = values
            graph.initializer.append(numpy_helper.from_array(full, sparse.values.name))
            count += 1
        del graph.sparse_initializer[:]
    return count


def tell_apart(model: ModelProto) -> int:
    """Give nodes of one name names of their own, in place; how many got one. ONNX Runtime refuses such a graph."""
    from orun.stages._graph.io import graphs
    from orun.stages._graph.names import unique

    renamed = 0
    for graph in graphs(model):
        taken: set[str] = set()
        names = {node.name for node in graph.node}
        for node in graph.node:
            if node.name in taken:
                node.name = unique(node.name, names)
                renamed += 1
            elif node.name:
                taken.add(node.name)
    return renamed


def complete_outputs(model: ModelProto, light: ModelProto) -> None:
    """Give outputs without a shape the one that ONNX infers, in place: its checker wants one, ONNX Runtime does not.

    Args:
        model: whose outputs are completed.
        light: the same without its weights.
    """
    bare = {
        value.name: value.type.tensor_type
        for value in model.graph.output
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")
    }
    if not bare:
        return
    from onnx import shape_inference

    for value in shape_inference.infer_shapes(light).graph.output:
        if value.name in bare and value.type.tensor_type.HasField("shape"):
            bare[value.name].shape.CopyFrom(value.type.tensor_type.shape)


def part_weights(model: ModelProto) -> int:
    """Let the weights of a model of old be none of its inputs, in place; how many were.

    Before IR version 4 a stored tensor had to be an input too. Whoever reads the model must then reckon with other
    values, and ONNX Runtime and converters leave such weights alone. From 4 on a model says so only where it means it.
    """
    if model.ir_version >= STORED_FREELY:
        return 0
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in stored]
    parted = len(model.graph.input) - len(inputs)
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    if parted:
        store_freely(model)
    return parted
