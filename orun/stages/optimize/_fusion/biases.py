"""Terms added to attention scores, in the form that ONNX Runtime takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from orun.stages.optimize._fusion.attention_core import FOLDED, SEPARATE, Added, Chosen, Core, Floor, InPieces, Step
from orun.stages.optimize._fusion.graph import Dim, Rewriter, alike, dims, lowest, made_by, number, required, typed
from orun.stages.optimize._fusion.heads import separate_heads, unrotated

WINDOWED = 5  # axes of scores whose batch is split into images and windows
AXES_ARE_INPUT = 18  # operator set from which ReduceMax takes its axes as an input
HUGE = 0.25  # share of the largest number; the sum of two larger biases may be infinite


@dataclass(frozen=True)
class Bias:
    """One bias for all scores.

    Attributes:
        value: `[1 or batch, 1 or heads, length, seen]`.
        sees: whether a row sees anything, `[1 or batch, 1 or heads, length, 1]`; None when no guard is needed.
        same: whether `sees` is the same for all heads.
    """

    value: ir.Value
    sees: ir.Value | None
    same: bool


def biased(edit: Rewriter, core: Core, length: Dim, seen: Dim) -> Bias | None:
    """Return the sum of all biases of an attention; layers with equal biases share it.

    For a row that sees nothing, a guarded attention yields zeros, and ONNX Runtime's operator NaN. So the bias is made
    finite and the guard moves behind the operator, unless every row sees something.
    """
    total = _total(edit, core)
    if total is None:
        return None
    if not alike((dims(total) or ())[-2:], (length, seen)):
        key = ("whole", total, length, seen)
        if key not in edit.cache or None in (length, seen):
            edit.cache[key] = _expanded(edit, core, total, (length, seen))
        total = edit.cache[key]
    if not core.guarded or _is_finite(core.biases):
        return Bias(total, None, same=True)
    return _guardable(edit, core, total)


def guarded_rows(edit: Rewriter, before: ir.Node, rows: ir.Value, bias: Bias) -> ir.Value:
    """Replace rows `[batch, length, heads * size]` that see nothing in any head by zeros."""
    if bias.sees is None or not bias.same:
        return rows
    shape, name = dims(bias.sees) or (None,) * 4, f"{bias.sees.name}_rows"
    kept = edit.share(before, "Squeeze", [bias.sees, edit.ints(1)], name, (shape[0], *shape[2:]))
    return _zeroed(edit, before, kept, rows)


def guarded_heads(edit: Rewriter, before: ir.Node, heads: ir.Value, bias: Bias) -> ir.Value:
    """Replace rows of `[batch, heads, length, size]` that see nothing by zeros, if the heads see different keys."""
    return heads if bias.sees is None or bias.same else _zeroed(edit, before, bias.sees, heads)


def _zeroed(edit: Rewriter, before: ir.Node, kept: ir.Value, value: ir.Value) -> ir.Value:
    nothing = edit.shared(typed(0, value))
    return edit.put(before, "Where", [kept, value, nothing], f"{value.name}_guarded", dims(value), like=value)


def _total(edit: Rewriter, core: Core) -> ir.Value | None:
    """Return the sum of all biases with four axes, applied in the model's order."""
    total: ir.Value | None = None
    for place, bias in reversed(list(enumerate(core.biases))):
        if isinstance(bias, Added):
            total = _added(edit, core, bias, total)
        elif isinstance(bias, Floor):
            total = _floored(edit, core, total) if total is not None else None
        else:
            alone = not any(isinstance(outer, Added) for outer in core.biases[:place])
            total = _choose_bias(edit, core, bias, total, alone=alone)
    return _four_axes(edit, core, total) if total is not None else None


def _added(edit: Rewriter, core: Core, bias: Added, total: ir.Value | None) -> ir.Value:
    value = _unfold_bias(edit, core, bias)
    if bias.factor != 1:
        factor = edit.shared(typed(bias.factor, value))
        value = edit.share(core.last, "Mul", [value, factor], f"{value.name}_scaled", dims(value))
    if total is None:
        return value
    shape = _broadcast(dims(total), dims(value))
    return edit.share(core.last, "Add", [total, value], f"{value.name}_sum", shape)


def _choose_bias(edit: Rewriter, core: Core, bias: Chosen, total: ir.Value | None, *, alone: bool) -> ir.Value:
    """Return a bias that hides the keys that a mask does not show.

    If nothing is added after it (`alone`), hidden keys get the lowest number. A row that sees nothing then weighs all
    keys equally, as in the model, where the mask replaces the scores.
    """
    mask = _unfold_bias(edit, core, bias)
    hidden = lowest(core.query) if alone and np.isfinite(bias.hidden) else bias.hidden
    shown = total if total is not None else edit.shared(typed(0, core.query))
    values = [shown, edit.shared(typed(hidden, core.query))]
    inputs = [mask, *(values if bias.shown else reversed(values))]
    shape = _broadcast(dims(mask), dims(shown))
    return edit.share(core.last, "Where", inputs, f"{mask.name}_bias", shape, like=core.query)


def _floored(edit: Rewriter, core: Core, total: ir.Value) -> ir.Value:
    """Return a bias without minus infinity."""
    floor = edit.shared(typed(lowest(total), total))
    return edit.share(core.last, "Max", [total, floor], f"{total.name}_finite", dims(total))


def _unfold_bias(edit: Rewriter, core: Core, bias: Added | Chosen) -> ir.Value:
    """Return a bias in a shape that broadcasts with scores `[batch, heads, length, seen]`."""
    shape, rank = dims(bias.value), len(bias.view)
    if shape is None:
        raise InPieces("the shape of what is added to its scores is not known")
    if len(shape) < min(rank, SEPARATE) or rank == SEPARATE:
        return bias.value
    if rank == FOLDED:
        count = (dims(core.query) or (None,) * SEPARATE)[1]
        return bias.value if shape[0] == 1 else separate_heads(edit, core.last, bias.value, int(count or 1))
    if rank == WINDOWED and bias.view[2] == (dims(core.query) or (None,) * SEPARATE)[1]:
        return _windowed(edit, core, bias.value)
    raise InPieces(f"something is added to its scores where they have {rank} axes")


def _windowed(edit: Rewriter, core: Core, bias: ir.Value) -> ir.Value:
    """Join images and windows of a bias `[images, windows, heads, length, seen]` to one axis; each of them may be 1."""
    key = ("windows", bias, (dims(core.query) or (None,))[0])
    if key in edit.cache:
        return edit.cache[key]
    before, name = core.last, bias.name
    shape = dims(bias) or ()
    if len(shape) < WINDOWED:
        bias = edit.put(before, "Unsqueeze", [bias, edit.ints(0)], f"{name}_images", (1, *shape))
        shape = (1, *shape)
    if shape[:2] == (1, 1):
        edit.cache[key] = edit.put(before, "Squeeze", [bias, edit.ints(0)], f"{name}_unfolded", shape[1:])
        return edit.cache[key]
    images, windows = (edit.size(before, bias, axis) for axis in (0, 1))
    batch = edit.size(before, unrotated(core.query), 0)
    if shape[0] == 1:
        images = edit.put(before, "Div", [batch, windows], f"{name}_count", (1,))
    elif shape[1] == 1:
        windows = edit.put(before, "Div", [batch, images], f"{name}_count", (1,))
    sizes = [images, windows, edit.ints(1, 1, 1)]
    target = edit.put(before, "Concat", sizes, f"{name}_whole_size", (WINDOWED,), attributes={"axis": 0})
    expanded = edit.put(before, "Expand", [bias, target], f"{name}_whole", (None, None, *shape[2:]))
    flat = [edit.ints(-1), *(edit.size(before, bias, axis) for axis in (2, 3, 4))]
    size = edit.put(before, "Concat", flat, f"{name}_size", (SEPARATE,), attributes={"axis": 0})
    batch_size = (dims(core.query) or (None,))[0]
    edit.cache[key] = edit.put(before, "Reshape", [expanded, size], f"{name}_unfolded", (batch_size, *shape[2:]))
    return edit.cache[key]


def _four_axes(edit: Rewriter, core: Core, total: ir.Value) -> ir.Value:
    shape = dims(total)
    missing = SEPARATE - len(shape) if shape is not None else 0
    if shape is None or not missing:
        return total
    inputs = [total, edit.ints(*range(missing))]
    return edit.share(core.last, "Unsqueeze", inputs, f"{total.name}_axes", (1,) * missing + shape)


def _broadcast(first: tuple[Dim, ...] | None, second: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    if first is None or second is None:
        return None
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    return tuple(b if a == 1 else a if b in (1, a) else None for a, b in pairs)


def _expanded(edit: Rewriter, core: Core, bias: ir.Value, sizes: tuple[Dim, Dim]) -> ir.Value:
    """Expand a bias to a row for each query and a column for each key, unless it is known to have them."""
    lengths = [edit.size(core.last, unrotated(value), 2) for value in (core.query, core.key)]
    target = edit.put(
        core.last, "Concat", [edit.ints(1, 1), *lengths], f"{bias.name}_size", (4,), attributes={"axis": 0}
    )
    shape = (*(dims(bias) or (None, None))[:2], *sizes)
    return edit.put(core.last, "Expand", [bias, target], f"{bias.name}_whole", shape)


def _is_finite(biases: tuple[Step, ...]) -> bool:
    """Return whether the sum of the biases is finite for every input."""
    largest = [_largest(bias) for bias in biases if not isinstance(bias, Floor)]
    return all(np.isfinite(largest)) and sum(share > HUGE for share in largest) <= 1


def _largest(bias: Added | Chosen) -> float:
    """Return the largest absolute value of a choice between two numbers, as a share of the largest number.

    It is infinite for any other bias.
    """
    if isinstance(bias, Chosen):
        return 1.0 if np.isfinite(bias.hidden) else np.inf
    chosen = made_by(bias.value, "Where")
    values = [number(required(chosen, place)) for place in (1, 2)] if chosen is not None else [None]
    return max(np.inf if value is None else abs(value * bias.factor) for value in values) / -lowest(bias.value)


def _guardable(edit: Rewriter, core: Core, total: ir.Value) -> Bias:
    """Return a bias without infinities, and which rows see anything through it."""
    shape = dims(total) or (None,) * 4
    floor, finite = edit.shared(typed(lowest(total), total)), _floored(edit, core, total)
    row = (*shape[:3], 1)
    inputs, attributes = [finite], {"keepdims": 1, "axes": [3]}
    if edit.opset >= AXES_ARE_INPUT:
        inputs, attributes = [finite, edit.ints(3)], {"keepdims": 1}
    best = edit.share(core.last, "ReduceMax", inputs, f"{total.name}_best", row, attributes=attributes)
    true = edit.shared(np.array(1, np.bool_))
    seen = edit.share(core.last, "Greater", [best, floor], f"{total.name}_sees", row, like=true)
    return Bias(finite, seen, same=shape[1] == 1)
