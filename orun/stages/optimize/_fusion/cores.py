"""Scaled dot product attention, however it was written.

An attention is found at the product of its weights with the values, and followed back through what exporters put
between: a guard against rows that see nothing, masks and biases that are added, factors on either side of the product
of queries and keys, and any order of transpositions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from orun.stages.optimize._fusion.graph import (
    Rewriter,
    constant,
    dims,
    made_by,
    number,
    present,
    required,
    setting,
    sides,
    typed,
)
from orun.stages.optimize._fusion.heads import heads_of, unscaled

LAST = (-1, 3)  # the axis of a softmax over what is attended to


@dataclass(frozen=True)
class Core:
    """What an attention computes: `softmax(scale * query @ key + biases) @ value`.

    Attributes:
        query, key, value: split into heads, `[batch, heads, length, size]`; the key may be turned, see `turned`.
        turned: the key is `[batch, heads, size, length]`.
        scale: of the scores.
        biases: what is added to the scores.
        guarded: rows that see nothing yield zeros.
        output: `[batch, heads, length, size]`.
    """

    query: ir.Value
    key: ir.Value
    value: ir.Value
    turned: bool
    scale: float
    biases: tuple[ir.Value, ...]
    guarded: bool
    output: ir.Value

    @property
    def last(self) -> ir.Node:
        """The node that makes the output."""
        node = self.output.producer()
        assert node is not None  # noqa: S101 - it was found at that node
        return node


def weights(product: ir.Node) -> ir.Node | None:
    """The softmax whose result a product multiplies values by, guarded or not."""
    if constant(product.inputs[1]) is not None:
        return None
    source = required(product, 0)
    cast = made_by(source, "Cast")
    if cast is not None:
        source = required(cast, 0)
    guard = made_by(source, "Where")
    if guard is not None and made_by(required(guard, 0), "IsNaN") and number(required(guard, 1)) == 0:
        source = required(guard, 2)
    softmax = made_by(source, "Softmax")
    return softmax if softmax is not None and setting(softmax, "axis", -1) in LAST else None


def attentions(edit: Rewriter) -> Iterator[ir.Node]:
    """Where attention is computed: products of softmax weights and values, and native Attention."""
    for node in edit.nodes("MatMul", "Attention"):
        if node.op_type == "Attention" or weights(node) is not None:
            yield node


def find(edit: Rewriter, node: ir.Node) -> Core | None:
    """The attention that ends in a node, if everything about it is known."""
    if node.op_type == "Attention":
        return _native(edit, node)
    softmax = weights(node)
    if softmax is None or made_by(node.inputs[0], "Cast") is not None:
        return None
    guarded = required(node, 0).producer() is not softmax
    scores, biases = _biases(edit, softmax)
    scores, scale = unscaled(scores)
    product = made_by(scores, "MatMul")
    if product is None:
        return None
    query, left = unscaled(required(product, 0))
    key, right = unscaled(required(product, 1))
    value = required(node, 1)
    return Core(query, key, value, True, scale * left * right, biases, guarded, node.outputs[0])


def _biases(edit: Rewriter, softmax: ir.Node) -> tuple[ir.Value, tuple[ir.Value, ...]]:
    """The scores before anything was added to them, and what was."""
    scores = required(softmax, 0)
    found: list[ir.Value] = []
    while True:
        if (node := made_by(scores, "Add")) is not None:
            follow = next((pair for pair in sides(node) if _leads_to_product(pair[0])), None)
            if follow is None:
                break
            scores, bias = follow
            found.append(bias)
        elif (node := made_by(scores, "Where")) is not None and number(required(node, 2)) is not None:
            scores, mask = required(node, 1), required(node, 0)
            found.append(_chosen(edit, node, mask, required(node, 2)))
        else:
            break
    return scores, tuple(found)


def _leads_to_product(value: ir.Value) -> bool:
    """Whether a value is a product of two computed matrices, scaled, masked or biased."""
    while (node := made_by(value, "Add", "Mul", "Div", "Where", "MatMul")) is not None:
        if node.op_type == "MatMul":
            return constant(node.inputs[0]) is None and constant(node.inputs[1]) is None
        if node.op_type == "Add":
            return any(_leads_to_product(one) for one, _ in sides(node))
        value = required(node, 1 if node.op_type == "Where" else 0)
    return False


def _chosen(edit: Rewriter, before: ir.Node, mask: ir.Value, hidden: ir.Value) -> ir.Value:
    """A bias that hides what a mask does not show; one for all layers."""
    key = ("chosen", mask, float(number(hidden) or 0.0))
    if key not in edit.cache:
        nothing = edit.shared(typed(0, hidden))
        inputs = [mask, nothing, hidden]
        edit.cache[key] = edit.put(before, "Where", inputs, f"{mask.name}_bias", dims(mask), like=hidden)
    return edit.cache[key]


def _native(edit: Rewriter, node: ir.Node) -> Core | None:
    """An Attention of opset 23 of plain form: heads apart, no past, no cap on its scores."""
    query, key, value, mask = (present(node, place) for place in range(4))
    plain = (
        len([output for output in node.outputs if output.name]) == 1
        and not any(present(node, place) for place in (4, 5))
        and not setting(node, "is_causal", 0)
        and not setting(node, "softcap", 0)
    )
    if query is None or key is None or value is None or not plain:
        return None
    heads = heads_of(query)
    if heads is None:
        return None
    biases: tuple[ir.Value, ...] = ()
    if mask is not None and mask.dtype == ir.DataType.BOOL:
        lowest = edit.shared(typed(-np.inf, query))
        biases = (_chosen(edit, node, mask, lowest),)
    elif mask is not None:
        biases = (mask,)
    scale = setting(node, "scale", 1 / math.sqrt(heads.size))
    return Core(query, key, value, False, scale, biases, mask is not None, node.outputs[0])
