"""Alignment of two graphs: tensors matched by name, then by the nodes that compute them, then by order.

Quantizers and fusions keep the names of most tensors; exporters and simplifiers do not. A match by order is a guess. It
is right if one graph is the other with nodes added. Shapes are compared later, when values are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

import numpy as np
from blake3 import blake3
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

NAMED_ENOUGH = 0.5  # share of the reference's tensors; with fewer matches, the order counts too
# Integer operators and their float form; operators that only convert to and from integers have none.
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
    """Return the tensor of `model` for each tensor of `reference` that both have: inputs too, but no constants.

    Only the main graph counts. Weights must be loaded, because formulas over constants are compared.
    """
    ours, theirs, inputs = set(find_produced(model)), find_produced(reference), _list_inputs(model)
    matches = {name: name for name in theirs if name in ours}
    matches |= {value.name: value.name for value in reference.graph.input if value.name in inputs}

    def is_enough() -> bool:
        return sum(name in matches for name in theirs) >= NAMED_ENOUGH * len(theirs)

    if not is_enough():
        matches |= _match_by_structure(model, reference, matches)
    if not is_enough():
        matches |= _match_by_place(model, reference, matches)
    return matches


def find_constants(model: ModelProto) -> dict[str, TensorProto]:
    """Return the constants of the main graph: initializers and `Constant` nodes."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            tensors[node.output[0]] = _read_constant(node)
    return tensors


def _read_constant(node: NodeProto) -> TensorProto:
    (attribute,) = node.attribute
    if attribute.name == "value":
        tensor: TensorProto = attribute.t
        return tensor
    value = helper.get_attribute_value(attribute)
    kind = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
    return numpy_helper.from_array(np.array(value, kind.get(attribute.name, np.object_)), node.output[0])


def _list_inputs(model: ModelProto) -> set[str]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return {value.name for value in model.graph.input} - stored


def find_produced(model: ModelProto) -> list[str]:
    """Return the tensors that the nodes of the main graph compute, but for constants and outputs that are left out."""
    return [name for node in model.graph.node if node.op_type != "Constant" for name in node.output if name]


def _match_by_structure(model: ModelProto, reference: ModelProto, matches: Mapping[str, str]) -> dict[str, str]:
    """Match tensors with equal formulas over equal constants; a formula that occurs twice matches nothing."""
    ours, theirs = _digest_formulas(model), _digest_formulas(reference)
    matched = set(matches.values())
    once = {formula for formula, times in Counter(ours.values()).items() if times == 1}
    once &= {formula for formula, times in Counter(theirs.values()).items() if times == 1}
    by_formula = {formula: name for name, formula in ours.items() if formula in once and name not in matched}
    return {
        name: by_formula[formula] for name, formula in theirs.items() if name not in matches and formula in by_formula
    }


def _digest_formulas(model: ModelProto) -> dict[str, bytes]:
    """Return the digest of the formula of each tensor, over names of inputs and content of constants."""
    known = {name: name.encode() for name in _list_inputs(model)}
    known |= {name: digest(tensor) for name, tensor in find_constants(model).items()}
    formulas: dict[str, bytes] = {}
    for node in model.graph.node:
        if node.op_type == "Constant":
            continue
        hasher = blake3(f"{node.domain} {node.op_type}".encode())
        for attribute in sorted(node.attribute, key=lambda item: item.name):
            hasher.update(_attribute(attribute))
        for name in node.input:
            hasher.update(known.get(name, b"?") if name else b"-")
        for place, name in enumerate(node.output):
            known[name] = formulas[name] = blake3(hasher.digest() + bytes([place])).digest()
    return formulas


def digest(tensor: TensorProto) -> bytes:
    """Return the digest of type, shape and values, however they are stored."""
    array = numpy_helper.to_array(tensor)
    return blake3(f"{array.dtype} {array.shape}".encode() + array.tobytes()).digest()


def _attribute(attribute: AttributeProto) -> bytes:
    copy = AttributeProto()
    copy.CopyFrom(attribute)
    copy.ClearField("doc_string")
    return bytes(copy.SerializeToString(deterministic=True))


def _match_by_place(model: ModelProto, reference: ModelProto, matches: Mapping[str, str]) -> dict[str, str]:
    """Match outputs of nodes of the same type in the same order, without conversions to and from integers."""
    ours, theirs = _list_steps(model), _list_steps(reference)
    matched = set(matches.values())
    matcher = SequenceMatcher(None, [kind for kind, _ in theirs], [kind for kind, _ in ours], autojunk=False)
    return {
        name: other
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
        for name, other in zip(theirs[block.a + offset][1], ours[block.b + offset][1], strict=False)
        if name and other and name not in matches and other not in matched
    }


def _list_steps(model: ModelProto) -> list[tuple[str, list[str]]]:
    """Return the float form and the float outputs of each node, without conversions to and from integers."""
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    ends, scaling = _find_rescaled(nodes)
    return [
        (FLOAT_FORM.get(node.op_type, node.op_type), [ends.get(node.output[0], node.output[0]), *node.output[1:]])
        for node in nodes
        if node.op_type not in CARRIERS and node.output[0] not in scaling
    ]


def _find_rescaled(nodes: Sequence[NodeProto]) -> tuple[dict[str, str], set[str]]:
    """Return the float tensor that follows each integer sum, and the outputs of products that only rescale it."""
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
            scaling |= {product.output[0], *(scale.output[0] for scale in scales if scale.op_type == "Mul")}
    return ends, scaling
