"""Terms added to attention scores, in the form that ONNX Runtime takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from orun.stages.optimize._fusion.attention_core import FOLDED, SEPARATE, Added, Chosen, Core, Floor, InPieces, Step
from orun.stages.optimize._fusion.graph import (
    Dim,
    Rewriter,
    are_same_shape,
    cast_scalar,
    find_dims,
    find_number,
    find_producer,
    get_lowest,
    require_input,
)
from orun.stages.optimize._fusion.heads import separate_heads, skip_rotation

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


def build_bias(edit: Rewriter, core: Core, length: Dim, seen: Dim) -> Bias | None:
    """Return the sum of all biases of an attention; layers with equal biases share it.

    For a row that sees nothing, a guarded attention yields zeros, and ONNX Runtime's operator NaN. So the bias is made
    finite and the guard moves behind the operator, unless every row sees something.
    """
    total = _sum_biases(edit, core)
    if total is None:
        return None
    if not are_same_shape((find_dims(total) or ())[-2:], (length, seen)):
        key = ("whole", total, length, seen)
        if key not in edit.cache or None in (length, seen):
            edit.cache[key] = _expand(edit, core, total, (length, seen))
        total = edit.cache[key]
    if not core.guarded or _is_finite(core.biases):
        return Bias(total, None, same=True)
    return _build_guardable(edit, core, total)


def guard_rows(edit: Rewriter, before: ir.Node, rows: ir.Value, bias: Bias) -> ir.Value:
    """Replace rows `[batch, length, heads * size]` that see nothing in any head by zeros."""
    if bias.sees is None or not bias.same:
        return rows
    shape, name = find_dims(bias.sees) or (None,) * 4, f"{bias.sees.name}_rows"
    kept = edit.share(before, "Squeeze", [bias.sees, edit.share_integers(1)], name, (shape[0], *shape[2:]))
    return _put_zeros(edit, before, kept, rows)


def guard_heads(edit: Rewriter, before: ir.Node, heads: ir.Value, bias: Bias) -> ir.Value:
    """Replace rows of `[batch, heads, length, size]` that see nothing by zeros, if the heads see different keys."""
    return heads if bias.sees is None or bias.same else _put_zeros(edit, before, bias.sees, heads)


def _put_zeros(edit: Rewriter, before: ir.Node, kept: ir.Value, value: ir.Value) -> ir.Value:
    nothing = edit.share_constant(cast_scalar(0, value))
    return edit.put(before, "Where", [kept, value, nothing], f"{value.name}_guarded", find_dims(value), like=value)


def _sum_biases(edit: Rewriter, core: Core) -> ir.Value | None:
    """Return the sum of all biases with four axes, applied in the model's order."""
    total: ir.Value | None = None
    for place, bias in reversed(list(enumerate(core.biases))):
        if isinstance(bias, Added):
            total = _add_bias(edit, core, bias, total)
        elif isinstance(bias, Floor):
            total = _put_floor(edit, core, total) if total is not None else None
        else:
            alone = not any(isinstance(outer, Added) for outer in core.biases[:place])
            total = _choose_bias(edit, core, bias, total, alone=alone)
    return _unsqueeze(edit, core, total) if total is not None else None


def _add_bias(edit: Rewriter, core: Core, bias: Added, total: ir.Value | None) -> ir.Value:
    value = _unfold_bias(edit, core, bias)
    if bias.factor != 1:
        factor = edit.share_constant(cast_scalar(bias.factor, value))
        value = edit.share(core.last, "Mul", [value, factor], f"{value.name}_scaled", find_dims(value))
    if total is None:
        return value
    shape = _broadcast(find_dims(total), find_dims(value))
    return edit.share(core.last, "Add", [total, value], f"{value.name}_sum", shape)


def _choose_bias(edit: Rewriter, core: Core, bias: Chosen, total: ir.Value | None, *, alone: bool) -> ir.Value:
    """Return a bias that hides the keys that a mask does not show.

    If nothing is added after it (`alone`), hidden keys get the lowest number. A row that sees nothing then weighs all
    keys equally, as in the model, where the mask replaces the scores.
    """
    mask = _unfold_bias(edit, core, bias)
    hidden = get_lowest(core.query) if alone and np.isfinite(bias.hidden) else bias.hidden
    shown = total if total is not None else edit.share_constant(cast_scalar(0, core.query))
    values = [shown, edit.share_constant(cast_scalar(hidden, core.query))]
    inputs = [mask, *(values if bias.shown else reversed(values))]
    shape = _broadcast(find_dims(mask), find_dims(shown))
    return edit.share(core.last, "Where", inputs, f"{mask.name}_bias", shape, like=core.query)


def _put_floor(edit: Rewriter, core: Core, total: ir.Value) -> ir.Value:
    """Return a bias without minus infinity."""
    floor = edit.share_constant(cast_scalar(get_lowest(total), total))
    return edit.share(core.last, "Max", [total, floor], f"{total.name}_finite", find_dims(total))


def _unfold_bias(edit: Rewriter, core: Core, bias: Added | Chosen) -> ir.Value:
    """Return a bias in a shape that broadcasts with scores `[batch, heads, length, seen]`."""
    shape, rank = find_dims(bias.value), len(bias.view)
    if shape is None:
        raise InPieces("the shape of what is added to its scores is not known")
    if len(shape) < min(rank, SEPARATE) or rank == SEPARATE:
        return bias.value
    if rank == FOLDED:
        count = (find_dims(core.query) or (None,) * SEPARATE)[1]
        return bias.value if shape[0] == 1 else separate_heads(edit, core.last, bias.value, int(count or 1))
    if rank == WINDOWED and bias.view[2] == (find_dims(core.query) or (None,) * SEPARATE)[1]:
        return _join_windows(edit, core, bias.value)
    raise InPieces(f"something is added to its scores where they have {rank} axes")


def _join_windows(edit: Rewriter, core: Core, bias: ir.Value) -> ir.Value:
    """Join images and windows of a bias `[images, windows, heads, length, seen]` to one axis; each of them may be 1."""
    key = ("windows", bias, (find_dims(core.query) or (None,))[0])
    if key in edit.cache:
        return edit.cache[key]
    before, name = core.last, bias.name
    shape = find_dims(bias) or ()
    if len(shape) < WINDOWED:
        bias = edit.put(before, "Unsqueeze", [bias, edit.share_integers(0)], f"{name}_images", (1, *shape))
        shape = (1, *shape)
    if shape[:2] == (1, 1):
        edit.cache[key] = edit.put(before, "Squeeze", [bias, edit.share_integers(0)], f"{name}_unfolded", shape[1:])
        return edit.cache[key]
    images, windows = (edit.put_size(before, bias, axis) for axis in (0, 1))
    batch = edit.put_size(before, skip_rotation(core.query), 0)
    if shape[0] == 1:
        images = edit.put(before, "Div", [batch, windows], f"{name}_count", (1,))
    elif shape[1] == 1:
        windows = edit.put(before, "Div", [batch, images], f"{name}_count", (1,))
    sizes = [images, windows, edit.share_integers(1, 1, 1)]
    target = edit.put(before, "Concat", sizes, f"{name}_whole_size", (WINDOWED,), attributes={"axis": 0})
    expanded = edit.put(before, "Expand", [bias, target], f"{name}_whole", (None, None, *shape[2:]))
    flat = [edit.share_integers(-1), *(edit.put_size(before, bias, axis) for axis in (2, 3, 4))]
    size = edit.put(before, "Concat", flat, f"{name}_size", (SEPARATE,), attributes={"axis": 0})
    batch_size = (find_dims(core.query) or (None,))[0]
    edit.cache[key] = edit.put(before, "Reshape", [expanded, size], f"{name}_unfolded", (batch_size, *shape[2:]))
    return edit.cache[key]


def _unsqueeze(edit: Rewriter, core: Core, total: ir.Value) -> ir.Value:
    shape = find_dims(total)
    missing = SEPARATE - len(shape) if shape is not None else 0
    if shape is None or not missing:
        return total
    inputs = [total, edit.share_integers(*range(missing))]
    return edit.share(core.last, "Unsqueeze", inputs, f"{total.name}_axes", (1,) * missing + shape)


def _broadcast(first: tuple[Dim, ...] | None, second: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    if first is None or second is None:
        return None
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    return tuple(b if a == 1 else a if b in (1, a) else None for a, b in pairs)


def _expand(edit: Rewriter, core: Core, bias: ir.Value, sizes: tuple[Dim, Dim]) -> ir.Value:
    """Expand a bias to a row for each query and a column for each key, unless it is known to have them."""
    lengths = [edit.put_size(core.last, skip_rotation(value), 2) for value in (core.query, core.key)]
    target = edit.put(
        core.last, "Concat", [edit.share_integers(1, 1), *lengths], f"{bias.name}_size", (4,), attributes={"axis": 0}
    )
    shape = (*(find_dims(bias) or (None, None))[:2], *sizes)
    return edit.put(core.last, "Expand", [bias, target], f"{bias.name}_whole", shape)


def _is_finite(biases: tuple[Step, ...]) -> bool:
    """Return whether the sum of the biases is finite for every input."""
    largest = [_measure_largest(bias) for bias in biases if not isinstance(bias, Floor)]
    return all(np.isfinite(largest)) and sum(share > HUGE for share in largest) <= 1


def _measure_largest(bias: Added | Chosen) -> float:
    """Return the largest absolute value of a choice between two numbers, as a share of the largest number.

    It is infinite for any other bias.
    """
    if isinstance(bias, Chosen):
        return 1.0 if np.isfinite(bias.hidden) else np.inf
    chosen = find_producer(bias.value, "Where")
    values = [find_number(require_input(chosen, place)) for place in (1, 2)] if chosen is not None else [None]
    return max(np.inf if value is None else abs(value * bias.factor) for value in values) / -get_lowest(bias.value)


def _build_guardable(edit: Rewriter, core: Core, total: ir.Value) -> Bias:
    """Return a bias without infinities, and which rows see anything through it."""
    shape = find_dims(total) or (None,) * 4
    floor, finite = edit.share_constant(cast_scalar(get_lowest(total), total)), _put_floor(edit, core, total)
    row = (*shape[:3], 1)
    inputs, attributes = [finite], {"keepdims": 1, "axes": [3]}
    if edit.opset >= AXES_ARE_INPUT:
        inputs, attributes = [finite, edit.share_integers(3)], {"keepdims": 1}
    best = edit.share(core.last, "ReduceMax", inputs, f"{total.name}_best", row, attributes=attributes)
    true = edit.share_constant(np.array(1, np.bool_))
    seen = edit.share(core.last, "Greater", [best, floor], f"{total.name}_sees", row, like=true)
    return Bias(finite, seen, same=shape[1] == 1)
