"""Scaled dot product attention in any form that exporters write.

The search goes from the product of weights and values back to the product of queries and keys. Between them may stand
a guard against rows that see nothing, masks and biases, a soft cap, factors on either side of the product, heads that
are folded into the batch, and transpositions in any order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from orun.stages.optimize._fusion.attention_core import FOLDED, SEPARATE, Added, Chosen, Core, Floor, InPieces, Step
from orun.stages.optimize._fusion.graph import (
    Dim,
    Rewriter,
    both_orders,
    constant,
    dims,
    integers,
    made_by,
    number,
    present,
    required,
    setting,
)
from orun.stages.optimize._fusion.heads import heads_of, separate_heads, unscaled

LAST = -1  # axis of the softmax over keys
HIDDEN = -1e3  # scores from here down get a weight of zero
TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16, None)  # element types of ONNX Runtime's operators
BETWEEN = ("Add", "Clip", "Div", "Max", "Mul", "Reshape", "Sub", "Tanh", "Where")  # may stand before a softmax
AXIS_FREE = 13  # operator set from which a softmax is over one axis


@dataclass(frozen=True)
class _Scores:
    """Scores of an attention, followed back from its softmax to the product of queries and keys.

    Attributes:
        value: the scores at the current place of the search.
        factor: number by which later nodes multiply them.
        by_head: value by which later nodes multiply them, different for each head.
        cap: soft cap; `factor` then counts from before the cap. 0 for no cap.
        biases: as in `Core`.
    """

    value: ir.Value
    factor: float = 1.0
    by_head: ir.Value | None = None
    cap: float = 0.0
    biases: tuple[Step, ...] = ()


def find(edit: Rewriter, node: ir.Node) -> Core:
    """Return the attention that ends in a node.

    Raises:
        InPieces: when a part of it is unknown or unsupported.
    """
    if node.op_type == "Attention":
        return _native(node)
    if node.op_type != "MatMul":
        raise InPieces(f"its values are multiplied by {node.op_type}")
    transpose = made_by(node.inputs[1], "Transpose")
    mirrored = transpose is not None and _leads_to_softmax(required(transpose, 0)) and swaps_last(transpose)
    weights, value = required(node, 0), required(node, 1)
    if transpose is not None and mirrored:
        weights, value = required(transpose, 0), required(node, 0)
    softmax, guarded = _softmax(edit, weights)
    scores = _scores(softmax)
    product = scores.value.producer()
    assert product is not None  # noqa: S101 - the scores were followed to it
    query, left = unscaled(required(product, 0))
    key, right = unscaled(required(product, 1))
    scale = scores.factor * (scores.cap or 1.0) * left * right
    core = Core(
        query, key, value, True, mirrored, scale, scores.by_head, scores.cap, scores.biases, guarded, node.outputs[0]
    )
    if any(part.dtype not in TYPES for part in (query, key, value)):
        raise InPieces("ONNX Runtime's operators take float32 and float16 alone")
    ranks = {len(dims(part) or ()) for part in (query, key, value)}
    if ranks == {FOLDED}:
        return _unfold_heads(edit, core)
    if ranks != {SEPARATE}:
        raise InPieces("the shapes of its queries, keys and values are not known, or have other axes than it takes")
    return core


def swaps_last(transpose: ir.Node) -> bool:
    """Return whether a transposition swaps the last two axes only."""
    order = integers(transpose, "perm") or ()
    axes = len(order)
    return axes >= FOLDED and order == (*range(axes - 2), axes - 1, axes - 2)


def _leads_to_softmax(weights: ir.Value) -> bool:
    """Return whether weights come from a softmax, directly or through a guard or reshape."""
    while (node := made_by(weights, "Softmax", "Reshape", "Where")) is not None:
        if node.op_type == "Softmax":
            return True
        weights = required(node, 2 if node.op_type == "Where" else 0)
    return False


def _softmax(edit: Rewriter, weights: ir.Value) -> tuple[ir.Node, bool]:
    """Return the softmax that yields the weights, and whether there is a guard for rows that see nothing."""
    source, guarded = weights, False
    while (node := source.producer()) is not None and not node.domain and node.op_type != "Softmax":
        guard = node if node.op_type == "Where" else None
        if guard is not None and made_by(required(guard, 0), "IsNaN") and number(required(guard, 1)) == 0:
            source, guarded = required(guard, 2), True
        elif node.op_type == "Reshape" and _same_matrices(required(node, 0), source):
            source = required(node, 0)
        else:
            raise InPieces(f"{node.op_type} stands between its softmax and its values")
    if node is None or node.domain:
        raise InPieces("its weights do not stand next to its values")
    axis = setting(node, "axis", LAST if edit.opset >= AXIS_FREE else 1)
    if axis not in (LAST, len(dims(node.outputs[0]) or ()) - 1):
        raise InPieces("its softmax is not over the last axis")
    return node, guarded


def _scores(softmax: ir.Node) -> _Scores:
    """Follow the scores from a softmax back to the product of queries and keys."""
    scores = _Scores(required(softmax, 0))
    while (node := scores.value.producer()) is not None and not node.domain and node.op_type != "MatMul":
        view = dims(scores.value)
        if view is None:
            raise InPieces("the shape of its scores is not known")
        scores = _step_back(node, view, scores)
    if node is None or node.domain:
        raise InPieces("its scores are no product of two matrices")
    return scores


def _step_back(node: ir.Node, view: tuple[Dim, ...], after: _Scores) -> _Scores:
    """Return the scores one node earlier."""
    inner, factor = unscaled(after.value)
    if inner is not after.value:
        return replace(after, value=inner, factor=after.factor * factor)
    if node.op_type == "Reshape" and _same_matrices(required(node, 0), after.value):
        return replace(after, value=required(node, 0))
    if node.op_type == "Mul" and after.by_head is None and (multiple := _multiple_by_head(node, view)) is not None:
        return replace(after, value=multiple[0], by_head=multiple[1])
    if node.op_type == "Tanh" and not after.cap and after.by_head is None and after.factor > 0:
        return replace(after, value=required(node, 0), factor=1.0, cap=after.factor)
    if (raised := _raised(node, after.factor)) is not None:
        return replace(after, value=raised, biases=(*after.biases, Floor()))
    if node.op_type not in ("Add", "Sub", "Where"):
        raise InPieces(f"{node.op_type} stands between its scores and its softmax")
    if after.cap or after.by_head is not None:
        rest = "soft cap" if after.cap else "factor for each head"
        raise InPieces(f"{node.op_type} stands before the {rest} of its scores")
    value, bias = _bias(node, after.factor, view)
    return replace(after, value=value, biases=(*after.biases, bias))


def _multiple_by_head(node: ir.Node, view: tuple[Dim, ...]) -> tuple[ir.Value, ir.Value] | None:
    """Return the scores and their multiplier, if it is the same for all scores of a head."""
    for scores, factor in both_orders(node):
        shape = dims(factor)
        if shape is not None and shape[-2:] == (1, 1) and len(shape) <= len(view) == SEPARATE and dims(scores) == view:
            return scores, factor
    return None


def _raised(node: ir.Node, factor: float) -> ir.Value | None:
    """Return the scores before a lower bound is applied."""
    if node.op_type == "Max" and len(node.inputs) == len(("scores", "number")):
        pairs = [(value, number(least)) for value, least in both_orders(node)]
    elif node.op_type == "Clip" and present(node, 2) is None:
        pairs = [(required(node, 0), number(present(node, 1)))]
    else:
        return None
    return next((value for value, least in pairs if least is not None and least * factor <= HIDDEN), None)


def _bias(node: ir.Node, factor: float, view: tuple[Dim, ...]) -> tuple[ir.Value, Step]:
    """Return the scores before a bias or mask, with the step that it is."""
    if node.op_type == "Where":
        places = [place for place in (2, 1) if number(required(node, place)) is not None]
        if not places:
            raise InPieces("a mask puts other things than one number in the place of its scores")
        hidden = number(required(node, places[0])) or 0.0
        if hidden * factor > HIDDEN:
            raise InPieces(f"a mask puts {hidden:g} in the place of its scores, which does not hide them")
        scores = required(node, 3 - places[0])
        bias: Step = Chosen(required(node, 0), places[0] == 2, hidden * factor, view)  # noqa: PLR2004
    else:
        follow = next((pair for pair in both_orders(node) if _leads_to_product(pair[0])), None)
        if follow is None:
            raise InPieces("its scores are no product of two matrices")
        scores, added = follow
        if node.op_type == "Sub" and scores is not node.inputs[0]:
            raise InPieces("its scores are subtracted from something")
        bias = Added(added, -factor if node.op_type == "Sub" else factor, view)
    shape = dims(scores)
    if shape is None or len(shape) != len(view) or any(a == 1 != b for a, b in zip(shape, view, strict=True)):
        raise InPieces(f"{node.op_type} repeats its scores")
    return scores, bias


def _leads_to_product(value: ir.Value) -> bool:
    """Return whether a value is a product of two computed matrices, scaled, masked, capped or biased."""
    while (node := made_by(value, *BETWEEN, "MatMul")) is not None:
        if node.op_type == "MatMul":
            return constant(node.inputs[1]) is None
        if node.op_type in ("Add", "Sub", "Mul", "Max"):
            return any(_leads_to_product(operand) for operand, _ in both_orders(node))
        hidden_last = node.op_type == "Where" and number(required(node, 2)) is not None
        value = required(node, 0 if node.op_type != "Where" else 1 if hidden_last else 2)
    return False


def _same_matrices(first: ir.Value, second: ir.Value) -> bool:
    """Return whether a reshape keeps the last two axes."""
    before, after = dims(first), dims(second)
    if before is None or after is None or min(len(before), len(after)) < FOLDED:
        return False
    return None not in before[-2:] and before[-2:] == after[-2:]


def _unfold_heads(edit: Rewriter, core: Core) -> Core:
    """Return the attention with a separate axis for heads."""
    count = _folded_heads(core)
    query, value = (separate_heads(edit, core.last, part, count) for part in (core.query, core.value))
    transpose = made_by(core.key, "Transpose")
    if transpose is not None and swaps_last(transpose) and len(dims(required(transpose, 0)) or ()) == FOLDED:
        key, turned = separate_heads(edit, core.last, required(transpose, 0), count), False
    else:
        key, turned = separate_heads(edit, core.last, core.key, count), True
    return replace(core, query=query, key=key, value=value, turned=turned)


def _folded_heads(core: Core) -> int:
    """Return the number of heads folded into the batch; their axis is known at a mask or before the folding."""
    views = [bias.view for bias in core.biases if not isinstance(bias, Floor)]
    reshape = made_by(core.query, "Reshape")
    if reshape is not None and _same_matrices(required(reshape, 0), core.query):
        views.append(dims(required(reshape, 0)) or ())
    counts = {view[1] for view in views if len(view) == SEPARATE}
    if len(counts) > 1 or not all(isinstance(count, int) for count in counts):
        raise InPieces("it is not known how many heads are folded into its batch")
    return next((count for count in counts if isinstance(count, int)), 1)


def _native(node: ir.Node) -> Core:
    """Return an Attention of opset 23 in plain form: a separate axis for heads, no past, no cap."""
    query, key, value, mask = (present(node, place) for place in range(4))
    plain = (
        len([output for output in node.outputs if output.name]) == 1
        and not any(present(node, place) for place in (4, 5))
        and not setting(node, "is_causal", 0)
        and not setting(node, "softcap", 0)
    )
    heads = heads_of(query) if query is not None else None
    if query is None or key is None or value is None or not plain or heads is None:
        raise InPieces("it is an Attention of ONNX already, of a form that is left as it is")
    biases: tuple[Step, ...] = ()
    if mask is not None:
        view = (heads.batch, heads.count, heads.length, (dims(key) or (None,) * SEPARATE)[2])
        boolean = mask.dtype == ir.DataType.BOOL
        biases = (Chosen(mask, True, -np.inf, view) if boolean else Added(mask, 1.0, view),)
    scale = setting(node, "scale", 1 / math.sqrt(heads.size))
    return Core(query, key, value, False, False, scale, None, 0.0, biases, mask is not None, node.outputs[0])
