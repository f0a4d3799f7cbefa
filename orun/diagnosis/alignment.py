"""Alignment of two graphs: tensors matched by name, else by what computes them, else by order.

Quantizers and fusions keep the names of most tensors, exporters and simplifiers do not. What is matched by place is a
guess that holds where one graph is the other with steps put in; shapes are compared where values are at hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

import numpy as np
from blake3 import blake3
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

NAMED_ENOUGH = 0.5  # share of the reference's tensors; with fewer found, those in the same place are taken too
# Operators on integers and what they stand for; those that only carry values to and from integers stand for nothing.
FLOAT_FORM: Mapping[str, str] = {
    "ConvInteger": "Conv",
    "DynamicQuantizeMatMul": "MatMul",
    "MatMulInteger": "MatMul",
    "MatMulIntegerToFloat": "MatMul",
    "MatMulNBits": "MatMul",
    "QAttention": "Attention",
    "QEmbedLayerNormalization": "EmbedLayerNormalization",
    "QGemm": "Gemm",
    "QLinearAdd": "Add",
    "QLinearConv": "Conv",
    "QLinearMatMul": "MatMul",
    "QLinearMul": "Mul",
}
CARRIERS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Cast", "Identity"})


def align(model: ModelProto, reference: ModelProto) -> dict[str, str]:
    """The tensor of `model` for each tensor of `reference` that it has too, inputs included, constants left out.

    Only the main graph is looked at; weights must be loaded where tensors are to be told by what computes them.
    """
    ours, theirs = _produced(model), _produced(reference)
    names = set(ours)
    found = {name: name for name in theirs if name in names}
    found |= {value.name: value.name for value in reference.graph.input if value.name in _inputs(model)}
    if len(found) - len(_inputs(reference)) >= NAMED_ENOUGH * len(theirs):
        return found
    found |= _by_structure(model, reference, found)
    if len(found) - len(_inputs(reference)) < NAMED_ENOUGH * len(theirs):
        found |= _by_place(model, reference, found)
    return found


def constants(model: ModelProto) -> dict[str, TensorProto]:
    """Every tensor of the main graph that does not hang on the inputs by itself: initializers and `Constant` nodes."""
    found = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            found[node.output[0]] = _constant(node)
    return found


def _constant(node: NodeProto) -> TensorProto:
    (attribute,) = node.attribute
    if attribute.name == "value":
        tensor: TensorProto = attribute.t
        return tensor
    value = helper.get_attribute_value(attribute)
    kind = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
    return numpy_helper.from_array(np.array(value, kind.get(attribute.name, np.object_)), node.output[0])


def _inputs(model: ModelProto) -> set[str]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return {value.name for value in model.graph.input} - stored


def _produced(model: ModelProto) -> list[str]:
    return [name for node in model.graph.node if node.op_type != "Constant" for name in node.output if name]


def _by_structure(model: ModelProto, reference: ModelProto, found: Mapping[str, str]) -> dict[str, str]:
    """Tensors with equal formulas over equal constants; a formula that occurs twice tells nothing."""
    ours, theirs = _formulas(model), _formulas(reference)
    taken = set(found.values())
    once = {formula for formula, times in Counter(ours.values()).items() if times == 1}
    once &= {formula for formula, times in Counter(theirs.values()).items() if times == 1}
    by_formula = {formula: name for name, formula in ours.items() if formula in once and name not in taken}
    return {
        name: by_formula[formula] for name, formula in theirs.items() if name not in found and formula in by_formula
    }


def _formulas(model: ModelProto) -> dict[str, bytes]:
    """Digest of what computes each tensor, from the inputs' names and the constants' content on."""
    known = {name: name.encode() for name in _inputs(model)}
    known |= {name: content(tensor) for name, tensor in constants(model).items()}
    found: dict[str, bytes] = {}
    for node in model.graph.node:
        if node.op_type == "Constant":
            continue
        hasher = blake3(f"{node.domain} {node.op_type}".encode())
        for attribute in sorted(node.attribute, key=lambda item: item.name):
            hasher.update(_attribute(attribute))
        for name in node.input:
            hasher.update(known.get(name, b"?") if name else b"-")
        for place, name in enumerate(node.output):
            known[name] = found[name] = blake3(hasher.digest() + bytes([place])).digest()
    return found


def content(tensor: TensorProto) -> bytes:
    """Digest of type, shape and values, however they are stored."""
    array = numpy_helper.to_array(tensor)
    return blake3(f"{array.dtype} {array.shape}".encode() + array.tobytes()).digest()


def _attribute(attribute: AttributeProto) -> bytes:
    copy = AttributeProto()
    copy.CopyFrom(attribute)
    copy.ClearField("doc_string")
    return bytes(copy.SerializeToString(deterministic=True))


def _by_place(model: ModelProto, reference: ModelProto, found: Mapping[str, str]) -> dict[str, str]:
    """Outputs of nodes of the same type in the same order, steps to and from integers left out."""
    ours, theirs = _steps(model), _steps(reference)
    taken = set(found.values())
    matcher = SequenceMatcher(None, [kind for kind, _ in theirs], [kind for kind, _ in ours], autojunk=False)
    return {
        name: other
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
        for name, other in zip(theirs[block.a + offset][1], ours[block.b + offset][1], strict=False)
        if name and other and name not in found and other not in taken
    }


def _steps(model: ModelProto) -> list[tuple[str, list[str]]]:
    """What each node stands for and its outputs, as float; carriers to integers and back are left out."""
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    ends, scaling = _scaled(nodes)
    return [
        (FLOAT_FORM.get(node.op_type, node.op_type), [ends.get(node.output[0], node.output[0]), *node.output[1:]])
        for node in nodes
        if node.op_type not in CARRIERS and node.output[0] not in scaling
    ]


def _scaled(nodes: Sequence[NodeProto]) -> tuple[dict[str, str], set[str]]:
    """Where the sum of integers that each node yields is a float again, and the products that serve that alone."""
    readers = {name: node for node in nodes for name in node.input}
    makers = {name: node for node in nodes for name in node.output}
    ends: dict[str, str] = {}
    scaling: set[str] = set()
    for node in nodes:
        if node.op_type not in ("MatMulInteger", "ConvInteger"):
            continue
        cast = readers.get(node.output[0])
        product = readers.get(cast.output[0]) if cast is not None else None
        if product is not None and product.op_type == "Mul":
            ends[node.output[0]] = product.output[0]
            scales = [makers[name] for name in product.input if name in makers]
            scaling |= {product.output[0], *(one.output[0] for one in scales if one.op_type == "Mul")}
    return ends, scaling
