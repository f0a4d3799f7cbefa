"""Fusion of a MultiHeadAttention and the projections before it to one Attention of ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from orun.stages.optimize._fusion.graph import (
    MICROSOFT,
    Array,
    Rewriter,
    find_constant,
    find_dims,
    find_input,
    find_producer,
    iter_orders,
    require_input,
)

INPUTS = 3  # projections: query, key and value
BIAS = 5  # index of the attention bias among the inputs of MultiHeadAttention and Attention


@dataclass(frozen=True)
class Projection:
    """`source @ weight + bias`."""

    source: ir.Value
    weight: Array
    bias: Array


def pack(edit: Rewriter) -> None:
    """Join the projections of each self-attention, if their weights are constant, with the attention."""
    for node in edit.list_nodes("MultiHeadAttention", domain=MICROSOFT):
        parts = _find_projections(node)
        if parts is None or any(part.source is not parts[0].source for part in parts):
            continue
        name = node.outputs[0].name
        weight = edit.hold(np.concatenate([part.weight for part in parts], axis=1), f"{name}_weight")
        bias = edit.hold(np.concatenate([part.bias for part in parts]), f"{name}_bias")
        inputs: list[ir.Value | None] = [parts[0].source, weight, bias]
        added = find_input(node, BIAS)
        if added is not None:
            inputs += [None, None, added]
        attributes = {key: attribute.value for key, attribute in node.attributes.items()}
        sizes = [part.weight.shape[1] for part in parts]
        if len(set(sizes)) > 1:
            attributes["qkv_hidden_sizes"] = sizes
        packed = edit.put(
            node,
            "Attention",
            inputs,
            f"{name}_packed",
            find_dims(node.outputs[0]),
            domain=MICROSOFT,
            attributes=attributes,
        )
        edit.replace(node.outputs[0], packed)


def _find_projections(node: ir.Node) -> list[Projection] | None:
    """Return the projections of queries, keys and values: three linear layers, or one that is split."""
    values = [require_input(node, place) for place in range(INPUTS)]
    makers = {value.producer() for value in values}
    if len(makers) == 1 and (cut := find_producer(values[0], "Split")) is not None:
        joint = _find_projection(require_input(cut, 0))
        if joint is None or list(cut.outputs) != values:
            return None
        ends = np.cumsum([int((find_dims(value) or (0,))[-1] or 0) for value in values])
        if ends[-1] != joint.bias.shape[0]:
            return None
        weights, biases = np.split(joint.weight, ends[:-1], axis=1), np.split(joint.bias, ends[:-1])
        return [Projection(joint.source, weight, bias) for weight, bias in zip(weights, biases, strict=True)]
    projections = [_find_projection(value) for value in values]
    return [part for part in projections if part is not None] if None not in projections else None


def _find_projection(value: ir.Value) -> Projection | None:
    """Return a linear layer of constant weight, with its bias or with zeros."""
    add = find_producer(value, "Add")
    if add is None:
        return _find_product(value, None)
    for product, bias in iter_orders(add):
        held = find_constant(bias)
        if held is not None and held.ndim == 1 and (projection := _find_product(product, held)) is not None:
            return projection
    return None


def _find_product(value: ir.Value, bias: Array | None) -> Projection | None:
    node = find_producer(value, "MatMul")
    weight = find_constant(node.inputs[1]) if node is not None else None
    if node is None or weight is None or weight.ndim != len(("in", "out")):
        return None
    return Projection(require_input(node, 0), weight, np.zeros(weight.shape[1], weight.dtype) if bias is None else bias)
