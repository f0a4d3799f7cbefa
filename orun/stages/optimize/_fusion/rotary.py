"""Fusion of a rotary position embedding to one RotaryEmbedding of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from orun.stages.optimize._fusion.graph import (
    MICROSOFT,
    Rewriter,
    alike,
    both_orders,
    dims,
    made_by,
    number,
    present,
    required,
    setting,
)
from orun.stages.optimize._fusion.heads import Heads, heads_of

ROWS = 3  # axes of cosines and sines without an axis for heads: batch, length, size


def fuse_rotary(edit: Rewriter) -> None:
    """Fuse `x * cos + rotated(x) * sin` to one node, if both halves of `cos` are equal, and both of `sin`."""
    for add in edit.nodes("Add"):
        for source, cos, sin in _parts(add):
            heads = heads_of(source)
            if heads is not None:
                _fuse(edit, add, heads, source, (cos, sin))
                break


def _parts(add: ir.Node) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """Yield candidates for the rotated value, its cosines and its sines."""
    for straight, across in both_orders(add):
        left, right = made_by(straight, "Mul"), made_by(across, "Mul")
        if left is None or right is None:
            continue
        for source, cos in both_orders(left):
            for turned, sin in both_orders(right):
                if _rotated(turned) is source:
                    yield source, cos, sin


def _rotated(value: ir.Value) -> ir.Value | None:
    """Return the `x` of `Concat(-second half of x, first half of x)`."""
    concat = made_by(value, "Concat")
    negative = made_by(concat.inputs[0], "Neg") if concat is not None else None
    second = made_by(negative.inputs[0], "Slice") if negative is not None else None
    first = made_by(concat.inputs[1], "Slice") if concat is not None and len(concat.inputs) == 2 else None  # noqa: PLR2004
    if first is None or second is None or first.inputs[0] is not second.inputs[0]:
        return None
    source = required(first, 0)
    heads = heads_of(source)
    halves = heads is not None and _is_half(first, heads, last=False) and _is_half(second, heads, last=True)
    return source if halves else None


def _is_half(node: ir.Node, heads: Heads, *, last: bool) -> bool:
    """Return whether a slice is the first or the last half of each head; its bounds may be computed."""
    axis, step, shape = number(required(node, 3)), present(node, 4), dims(node.outputs[0])
    halved = shape is not None and shape[-1] == heads.size // 2 and not heads.size % 2
    if axis not in (3, -1) or not halved or (step is not None and number(step) != 1):
        return False
    if last:
        end = number(required(node, 2))
        return end is not None and end >= heads.size
    return number(required(node, 1)) == 0


def _fuse(edit: Rewriter, add: ir.Node, heads: Heads, source: ir.Value, factors: tuple[ir.Value, ir.Value]) -> None:
    halves = [_kept_half(edit, add, factor) for factor in factors]
    cos, sin = halves
    if cos is None or sin is None or not alike(dims(cos), dims(sin)) or (dims(cos) or ())[-1] != heads.size // 2:
        return
    inputs = [source, _positions(edit, add, cos), _table(edit, add, cos), _table(edit, add, sin)]
    name = f"{add.outputs[0].name}_fused"
    fused = edit.put(add, "RotaryEmbedding", inputs, name, dims(source), domain=MICROSOFT)
    edit.replace(add.outputs[0], fused)


def _kept_half(edit: Rewriter, before: ir.Node, factor: ir.Value) -> ir.Value | None:
    """Return the first half of cosines or sines without the axis for heads; layers share it."""
    unsqueeze = made_by(factor, "Unsqueeze")
    if unsqueeze is None or number(required(unsqueeze, 1)) != 1 or len(dims(required(unsqueeze, 0)) or ()) != ROWS:
        return None
    return _half(edit, before, required(unsqueeze, 0))


def _half(edit: Rewriter, before: ir.Node, value: ir.Value) -> ir.Value | None:
    """Return the first half along the last axis, if the second half is known to be equal."""
    node = made_by(value, "Concat", "Cos", "Sin", "Cast", "Mul")
    if node is None or (node.op_type == "Mul" and number(required(node, 1)) is None):
        return None
    first, rest = required(node, 0), node.inputs[1:]
    if node.op_type == "Concat":
        return first if rest == (first,) and setting(node, "axis", 0) in (-1, ROWS - 1) else None
    inner = _half(edit, before, first)
    shape, name = dims(inner) if inner is not None else None, f"{value.name}_half"
    attributes = {key: attribute.value for key, attribute in node.attributes.items()}
    if inner is None or shape is None:
        return None
    return edit.share(before, node.op_type, [inner, *rest], name, shape, like=value, attributes=attributes)


def _table(edit: Rewriter, before: ir.Node, half: ir.Value) -> ir.Value:
    """Return a table of cosines or sines: a row for each position, of each text if they differ."""
    shape = dims(half) or (None,)
    inputs = [half, edit.ints(-1, int(shape[-1] or 0))]
    rows = shape[1] if shape[0] == 1 else None
    return edit.share(before, "Reshape", inputs, f"{half.name}_table", (rows, shape[-1]))


def _positions(edit: Rewriter, before: ir.Node, half: ir.Value) -> ir.Value:
    """Return the indices of table rows: 0 when all texts start at the first row, otherwise an index for each token."""
    shape = dims(half) or (None,)
    if shape[0] == 1:
        return edit.ints(0)
    unit, name = edit.shared(np.array(1, np.int64)), f"{half.name}_positions"
    size = edit.share(before, "Shape", [half], f"{name}_size", (2,), like=unit, attributes={"start": 0, "end": 2})
    count = edit.share(before, "ReduceProd", [size], f"{name}_count", (), like=unit, attributes={"keepdims": 0})
    inputs = [edit.shared(np.array(0, np.int64)), count, unit]
    rows = edit.share(before, "Range", inputs, f"{name}_rows", (None,), like=unit)
    return edit.share(before, "Reshape", [rows, size], name, shape[:2], like=unit)
