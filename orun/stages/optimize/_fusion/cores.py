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
    find_constant,
    find_dims,
    find_input,
    find_number,
    find_producer,
    iter_orders,
    read_integers,
    read_setting,
    require_input,
)
from orun.stages.optimize._fusion.heads import find_heads, separate_heads, split_scale

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
        return _read_native(node)
    if node.op_type != "MatMul":
        raise InPieces(f"its values are multiplied by {node.op_type}")
    transpose = find_producer(node.inputs[1], "Transpose")
    mirrored = transpose is not None and _leads_to_softmax(require_input(transpose, 0)) and swaps_last(transpose)
    weights, value = require_input(node, 0), require_input(node, 1)
    if transpose is not None and mirrored:
        weights, value = require_input(transpose, 0), require_input(node, 0)
    softmax, guarded = _find_softmax(edit, weights)
    scores = _follow_scores(softmax)
    product = scores.value.producer()
    assert product is not None  # noqa: S101 - the scores were followed to it
    query, left = split_scale(require_input(product, 0))
    key, right = split_scale(require_input(product, 1))
    scale = scores.factor * (scores.cap or 1.0) * left * right
    core = Core(
        query, key, value, True, mirrored, scale, scores.by_head, scores.cap, scores.biases, guarded, node.outputs[0]
    )
    if any(part.dtype not in TYPES for part in (query, key, value)):
        raise InPieces("ONNX Runtime's operators take float32 and float16 alone")
    ranks = {len(find_dims(part) or ()) for part in (query, key, value)}
    if ranks == {FOLDED}:
        return _unfold_heads(edit, core)
    if ranks != {SEPARATE}:
        raise InPieces("the shapes of its queries, keys and values are not known, or have other axes than it takes")
    return core


def swaps_last(transpose: ir.Node) -> bool:
    """Return whether a transposition swaps the last two axes only."""
    order = read_integers(transpose, "perm") or ()
    axes = len(order)
    return axes >= FOLDED and order == (*range(axes - 2), axes - 1, axes - 2)


def _leads_to_softmax(weights: ir.Value) -> bool:
    """Return whether weights come from a softmax, directly or through a guard or reshape."""
    while (node := find_producer(weights, "Softmax", "Reshape", "Where")) is not None:
        if node.op_type == "Softmax":
            return True
        weights = require_input(node, 2 if node.op_type == "Where" else 0)
    return False


def _find_softmax(edit: Rewriter, weights: ir.Value) -> tuple[ir.Node, bool]:
    """Return the softmax that yields the weights, and whether there is a guard for rows that see nothing."""
    source, guarded = weights, False
    while (node := source.producer()) is not None and not node.domain and node.op_type != "Softmax":
        guard = node if node.op_type == "Where" else None
        if (
            guard is not None
            and find_producer(require_input(guard, 0), "IsNaN")
            and find_number(require_input(guard, 1)) == 0
        ):
            source, guarded = require_input(guard, 2), True
        elif node.op_type == "Reshape" and _keeps_matrices(require_input(node, 0), source):
            source = require_input(node, 0)
        else:
            raise InPieces(f"{node.op_type} stands between its softmax and its values")
    if node is None or node.domain:
        raise InPieces("its weights do not stand next to its values")
    axis = read_setting(node, "axis", LAST if edit.opset >= AXIS_FREE else 1)
    if axis not in (LAST, len(find_dims(node.outputs[0]) or ()) - 1):
        raise InPieces("its softmax is not over the last axis")
    return node, guarded


def _follow_scores(softmax: ir.Node) -> _Scores:
    """Follow the scores from a softmax back to the product of queries and keys."""
    scores = _Scores(require_input(softmax, 0))
    while (node := scores.value.producer()) is not None and not node.domain and node.op_type != "MatMul":
        view = find_dims(scores.value)
        if view is None:
            raise InPieces("the shape of its scores is not known")
        scores = _step_back(node, view, scores)
    if node is None or node.domain:
        raise InPieces("its scores are no product of two matrices")
    return scores


def _step_back(node: ir.Node, view: tuple[Dim, ...], after: _Scores) -> _Scores:
    """Return the scores one node earlier."""
    inner, factor = split_scale(after.value)
    if inner is not after.value:
        return replace(after, value=inner, factor=after.factor * factor)
    if node.op_type == "Reshape" and _keeps_matrices(require_input(node, 0), after.value):
        return replace(after, value=require_input(node, 0))
    if node.op_type == "Mul" and after.by_head is None and (multiple := _find_multiple_by_head(node, view)) is not None:
        return replace(after, value=multiple[0], by_head=multiple[1])
    if node.op_type == "Tanh" and not after.cap and after.by_head is None and after.factor > 0:
        return replace(after, value=require_input(node, 0), factor=1.0, cap=after.factor)
    if (raised := _skip_lower_bound(node, after.factor)) is not None:
        return replace(after, value=raised, biases=(*after.biases, Floor()))
    if node.op_type not in ("Add", "Sub", "Where"):
        raise InPieces(f"{node.op_type} stands between its scores and its softmax")
    if after.cap or after.by_head is not None:
        rest = "soft cap" if after.cap else "factor for each head"
        raise InPieces(f"{node.op_type} stands before the {rest} of its scores")
    value, bias = _split_bias(node, after.factor, view)
    return replace(after, value=value, biases=(*after.biases, bias))


def _find_multiple_by_head(node: ir.Node, view: tuple[Dim, ...]) -> tuple[ir.Value, ir.Value] | None:
    """Return the scores and their multiplier, if it is the same for all scores of a head."""
    for scores, factor in iter_orders(node):
        shape = find_dims(factor)
        if (
            shape is not None
            and shape[-2:] == (1, 1)
            and len(shape) <= len(view) == SEPARATE
            and find_dims(scores) == view
        ):
            return scores, factor
    return None


def _skip_lower_bound(node: ir.Node, factor: float) -> ir.Value | None:
    """Return the scores before a lower bound is applied."""
    if node.op_type == "Max" and len(node.inputs) == len(("scores", "number")):
        pairs = [(value, find_number(least)) for value, least in iter_orders(node)]
    elif node.op_type == "Clip" and find_input(node, 2) is None:
        pairs = [(require_input(node, 0), find_number(find_input(node, 1)))]
    else:
        return None
    return next((value for value, least in pairs if least is not None and least * factor <= HIDDEN), None)


def _split_bias(node: ir.Node, factor: float, view: tuple[Dim, ...]) -> tuple[ir.Value, Step]:
    """Return the scores before a bias or mask, with the step that it is."""
    if node.op_type == "Where":
        places = [place for place in (2, 1) if find_number(require_input(node, place)) is not None]
        if not places:
            raise InPieces("a mask puts other things than one number in the place of its scores")
        hidden = find_number(require_input(node, places[0])) or 0.0
        if hidden * factor > HIDDEN:
            raise InPieces(f"a mask puts {hidden:g} in the place of its scores, which does not hide them")
        scores = require_input(node, 3 - places[0])
        bias: Step = Chosen(require_input(node, 0), places[0] == 2, hidden * factor, view)  # noqa: PLR2004
    else:
        follow = next((pair for pair in iter_orders(node) if _leads_to_product(pair[0])), None)
        if follow is None:
            raise InPieces("its scores are no product of two matrices")
        scores, added = follow
        if node.op_type == "Sub" and scores is not node.inputs[0]:
            raise InPieces("its scores are subtracted from something")
        bias = Added(added, -factor if node.op_type == "Sub" else factor, view)
    shape = find_dims(scores)
    if shape is None or len(shape) != len(view) or any(a == 1 != b for a, b in zip(shape, view, strict=True)):
        raise InPieces(f"{node.op_type} repeats its scores")
    return scores, bias


def _leads_to_product(value: ir.Value) -> bool:
    """Return whether a value is a product of two computed matrices, scaled, masked, capped or biased."""
    while (node := find_producer(value, *BETWEEN, "MatMul")) is not None:
        if node.op_type == "MatMul":
            return find_constant(node.inputs[1]) is None
        if node.op_type in ("Add", "Sub", "Mul", "Max"):
            return any(_leads_to_product(operand) for operand, _ in iter_orders(node))
        hidden_last = node.op_type == "Where" and find_number(require_input(node, 2)) is not None
        value = require_input(node, 0 if node.op_type != "Where" else 1 if hidden_last else 2)
    return False


def _keeps_matrices(first: ir.Value, second: ir.Value) -> bool:
    """Return whether a reshape keeps the last two axes."""
    before, after = find_dims(first), find_dims(second)
    if before is None or after is None or min(len(before), len(after)) < FOLDED:
        return False
    return None not in before[-2:] and before[-2:] == after[-2:]


def _unfold_heads(edit: Rewriter, core: Core) -> Core:
    """Return the attention with a separate axis for heads."""
    count = _count_folded_heads(core)
    query, value = (separate_heads(edit, core.last, part, count) for part in (core.query, core.value))
    transpose = find_producer(core.key, "Transpose")
    if transpose is not None and swaps_last(transpose) and len(find_dims(require_input(transpose, 0)) or ()) == FOLDED:
        key, turned = separate_heads(edit, core.last, require_input(transpose, 0), count), False
    else:
        key, turned = separate_heads(edit, core.last, core.key, count), True
    return replace(core, query=query, key=key, value=value, turned=turned)


def _count_folded_heads(core: Core) -> int:
    """Return the number of heads folded into the batch; their axis is known at a mask or before the folding."""
    views = [bias.view for bias in core.biases if not isinstance(bias, Floor)]
    reshape = find_producer(core.query, "Reshape")
    if reshape is not None and _keeps_matrices(require_input(reshape, 0), core.query):
        views.append(find_dims(require_input(reshape, 0)) or ())
    counts = {view[1] for view in views if len(view) == SEPARATE}
    if len(counts) > 1 or not all(isinstance(count, int) for count in counts):
        raise InPieces("it is not known how many heads are folded into its batch")
    return next((count for count in counts if isinstance(count, int)), 1)


def _read_native(node: ir.Node) -> Core:
    """Return an Attention of opset 23 in plain form: a separate axis for heads, no past, no cap."""
    query, key, value, mask = (find_input(node, place) for place in range(4))
    plain = (
        len([output for output in node.outputs if output.name]) == 1
        and not any(find_input(node, place) for place in (4, 5))
        and not read_setting(node, "is_causal", 0)
        and not read_setting(node, "softcap", 0)
    )
    heads = find_heads(query) if query is not None else None
    if query is None or key is None or value is None or not plain or heads is None:
        raise InPieces("it is an Attention of ONNX already, of a form that is left as it is")
    biases: tuple[Step, ...] = ()
    if mask is not None:
        view = (heads.batch, heads.count, heads.length, (find_dims(key) or (None,) * SEPARATE)[2])
        boolean = mask.dtype == ir.DataType.BOOL
        biases = (Chosen(mask, True, -np.inf, view) if boolean else Added(mask, 1.0, view),)
    scale = read_setting(node, "scale", 1 / math.sqrt(heads.size))
    return Core(query, key, value, False, False, scale, None, 0.0, biases, mask is not None, node.outputs[0])
