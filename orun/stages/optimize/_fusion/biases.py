"""What is added to the scores of an attention, in the form that ONNX Runtime takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from orun.stages.optimize._fusion.cores import Core
from orun.stages.optimize._fusion.graph import Dim, Rewriter, alike, dims, lowest, made_by, number, required, typed

HUGE = 0.25  # of the largest number: two biases from here on may add up to infinity


@dataclass(frozen=True)
class Bias:
    """One bias for all scores.

    Attributes:
        value: `[1 or batch, 1 or heads, length, seen]`.
        sees: whether a row sees anything, `[1 or batch, 1 or heads, length, 1]`; None when that makes no difference.
        same: whether `sees` is the same for all heads.
    """

    value: ir.Value
    sees: ir.Value | None
    same: bool


def biased(edit: Rewriter, core: Core, length: Dim, seen: Dim) -> Bias | None:
    """All biases of an attention in one, made once for all layers that have the same.

    An attention that is guarded yields zeros for a row that sees nothing, where ONNX Runtime's yields NaN: the bias is
    made finite, and the guard put behind the attention, unless no row can come to that.
    """
    if not core.biases:
        return None
    key = ("bias", *core.biases)
    total = edit.cache.get(key)
    if total is None or not _fits(total, length, seen):
        total = edit.cache[key] = _total(edit, core, length, seen)
    if not core.guarded or _finite(core.biases):
        return Bias(total, None, same=True)
    return _guardable(edit, core, total)


def guarded_rows(edit: Rewriter, before: ir.Node, rows: ir.Value, bias: Bias) -> ir.Value:
    """Zeros for rows `[batch, length, heads * size]` that see nothing in any head."""
    if bias.sees is None or not bias.same:
        return rows
    key = ("rows", bias.sees)
    if key not in edit.cache:
        shape = dims(bias.sees) or (None,) * 4
        name = f"{bias.sees.name}_rows"
        edit.cache[key] = edit.put(before, "Squeeze", [bias.sees, edit.ints(1)], name, (shape[0], *shape[2:]))
    return _zeroed(edit, before, edit.cache[key], rows)


def guarded_heads(edit: Rewriter, before: ir.Node, heads: ir.Value, bias: Bias) -> ir.Value:
    """Zeros for rows of `[batch, heads, length, size]` that see nothing, where that differs between heads."""
    return heads if bias.sees is None or bias.same else _zeroed(edit, before, bias.sees, heads)


def _zeroed(edit: Rewriter, before: ir.Node, kept: ir.Value, value: ir.Value) -> ir.Value:
    nothing = edit.shared(typed(0, value))
    return edit.put(before, "Where", [kept, value, nothing], f"{value.name}_guarded", dims(value), like=value)


def _total(edit: Rewriter, core: Core, length: Dim, seen: Dim) -> ir.Value:
    total = core.biases[0]
    for bias in core.biases[1:]:
        total = edit.put(core.last, "Add", [total, bias], f"{bias.name}_sum", _broadcast(dims(total), dims(bias)))
    shape = dims(total)
    if shape is not None and len(shape) < len(("batch", "heads", "length", "seen")):
        missing = 4 - len(shape)
        shape = (1,) * missing + shape
        total = edit.put(core.last, "Unsqueeze", [total, edit.ints(*range(missing))], f"{total.name}_axes", shape)
    return total if _fits(total, length, seen) else _expanded(edit, core, total, (length, seen))


def _fits(bias: ir.Value, length: Dim, seen: Dim) -> bool:
    shape = dims(bias)
    return shape is not None and alike(shape[-2:], (length, seen))


def _broadcast(one: tuple[Dim, ...] | None, other: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """The shape of an elementwise result."""
    if one is None or other is None:
        return None
    rank = max(len(one), len(other))
    pairs = zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other, strict=True)
    return tuple(b if a == 1 else a if b in (1, a) else None for a, b in pairs)


def _expanded(edit: Rewriter, core: Core, bias: ir.Value, sizes: tuple[Dim, Dim]) -> ir.Value:
    """A bias that is not known to have a row for each query, or a column for each key, with all of them."""
    lengths = [
        edit.put(
            core.last,
            "Shape",
            [value],
            f"{value.name}_length",
            (1,),
            like=edit.ints(1),
            attributes={"start": 2, "end": 3},
        )
        for value in (core.query, core.key)
    ]
    target = edit.put(
        core.last, "Concat", [edit.ints(1, 1), *lengths], f"{bias.name}_size", (4,), attributes={"axis": 0}
    )
    shape = (*(dims(bias) or (None, None))[:2], *sizes)
    return edit.put(core.last, "Expand", [bias, target], f"{bias.name}_whole", shape)


def _finite(biases: tuple[ir.Value, ...]) -> bool:
    """Whether the sum of the biases is finite whatever they are made from."""
    largest = [_largest(bias) / -lowest(bias) for bias in biases]
    return all(np.isfinite(largest)) and sum(share > HUGE for share in largest) <= 1


def _largest(bias: ir.Value) -> float:
    """Largest absolute value of a choice between two numbers; infinite when it is something else."""
    chosen = made_by(bias, "Where")
    values = [number(required(chosen, place)) for place in (1, 2)] if chosen is not None else [None]
    return max(float("inf") if value is None else abs(value) for value in values)


def _guardable(edit: Rewriter, core: Core, total: ir.Value) -> Bias:
    """A bias without infinities, and which rows see anything through it."""
    key, shape = ("finite", total), dims(total) or (None,) * 4
    if key not in edit.cache:
        floor = edit.shared(typed(lowest(total), total))
        finite = edit.put(core.last, "Max", [total, floor], f"{total.name}_finite", shape)
        row = (*shape[:3], 1)
        name = f"{total.name}_best"
        best = edit.put(core.last, "ReduceMax", [finite, edit.ints(3)], name, row, attributes={"keepdims": 1})
        true = edit.shared(np.array(1, np.bool_))
        seen = edit.put(core.last, "Greater", [best, floor], f"{total.name}_sees", row, like=true)
        edit.cache[key], edit.cache["sees", total] = finite, seen
    return Bias(edit.cache[key], edit.cache["sees", total], same=shape[1] == 1)
