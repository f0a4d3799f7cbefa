"""Fusion of a rotary position embedding to one RotaryEmbedding of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from orun.stages.optimize._fusion.graph import (
    MICROSOFT,
    Rewriter,
    are_same_shape,
    find_dims,
    find_input,
    find_number,
    find_producer,
    iter_orders,
    read_setting,
    require_input,
)
from orun.stages.optimize._fusion.heads import Heads, find_heads

ROWS = 3  # axes of cosines and sines without an axis for heads: batch, length, size


def fuse_rotary(edit: Rewriter) -> None:
    """Fuse `x * cos + rotated(x) * sin` to one node, if both halves of `cos` are equal, and both of `sin`."""
    for add in edit.list_nodes("Add"):
        for source, cos, sin in _iter_parts(add):
            heads = find_heads(source)
            if heads is not None:
                _fuse(edit, add, heads, source, (cos, sin))
                break


def _iter_parts(add: ir.Node) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """Yield candidates for the rotated value, its cosines and its sines."""
    for straight, across in iter_orders(add):
        left, right = find_producer(straight, "Mul"), find_producer(across, "Mul")
        if left is None or right is None:
            continue
        for source, cos in iter_orders(left):
            for turned, sin in iter_orders(right):
                if _find_rotated(turned) is source:
                    yield source, cos, sin


def _find_rotated(value: ir.Value) -> ir.Value | None:
    """Return the `x` of `Concat(-second half of x, first half of x)`."""
    concat = find_producer(value, "Concat")
    negative = find_producer(concat.inputs[0], "Neg") if concat is not None else None
    second = find_producer(negative.inputs[0], "Slice") if negative is not None else None
    first = find_producer(concat.inputs[1], "Slice") if concat is not None and len(concat.inputs) == 2 else None  # noqa: PLR2004
    if first is None or second is None or first.inputs[0] is not second.inputs[0]:
        return None
    source = require_input(first, 0)
    heads = find_heads(source)
    halves = heads is not None and _is_half(first, heads, last=False) and _is_half(second, heads, last=True)
    return source if halves else None


def _is_half(node: ir.Node, heads: Heads, *, last: bool) -> bool:
    """Return whether a slice is the first or the last half of each head; its bounds may be computed."""
    axis, step, shape = find_number(require_input(node, 3)), find_input(node, 4), find_dims(node.outputs[0])
    halved = shape is not None and shape[-1] == heads.size // 2 and not heads.size % 2
    if axis not in (3, -1) or not halved or (step is not None and find_number(step) != 1):
        return False
    if last:
        end = find_number(require_input(node, 2))
        return end is not None and end >= heads.size
    return find_number(require_input(node, 1)) == 0


def _fuse(edit: Rewriter, add: ir.Node, heads: Heads, source: ir.Value, factors: tuple[ir.Value, ir.Value]) -> None:
    halves = [_keep_half(edit, add, factor) for factor in factors]
    cos, sin = halves
    if (
        cos is None
        or sin is None
        or not are_same_shape(find_dims(cos), find_dims(sin))
        or (find_dims(cos) or ())[-1] != heads.size // 2
    ):
        return
    inputs = [source, _put_positions(edit, add, cos), _put_table(edit, add, cos), _put_table(edit, add, sin)]
    name = f"{add.outputs[0].name}_fused"
    fused = edit.put(add, "RotaryEmbedding", inputs, name, find_dims(source), domain=MICROSOFT)
    edit.replace(add.outputs[0], fused)


def _keep_half(edit: Rewriter, before: ir.Node, factor: ir.Value) -> ir.Value | None:
    """Return the first half of cosines or sines without the axis for heads; layers share it."""
    unsqueeze = find_producer(factor, "Unsqueeze")
    if (
        unsqueeze is None
        or find_number(require_input(unsqueeze, 1)) != 1
        or len(find_dims(require_input(unsqueeze, 0)) or ()) != ROWS
    ):
        return None
    return _take_half(edit, before, require_input(unsqueeze, 0))


def _take_half(edit: Rewriter, before: ir.Node, value: ir.Value) -> ir.Value | None:
    """Return the first half along the last axis, if the second half is known to be equal."""
    node = find_producer(value, "Concat", "Cos", "Sin", "Cast", "Mul")
    if node is None or (node.op_type == "Mul" and find_number(require_input(node, 1)) is None):
        return None
    first, rest = require_input(node, 0), node.inputs[1:]
    if node.op_type == "Concat":
        return first if rest == (first,) and read_setting(node, "axis", 0) in (-1, ROWS - 1) else None
    inner = _take_half(edit, before, first)
    shape, name = find_dims(inner) if inner is not None else None, f"{value.name}_half"
    attributes = {key: attribute.value for key, attribute in node.attributes.items()}
    if inner is None or shape is None:
        return None
    return edit.share(before, node.op_type, [inner, *rest], name, shape, like=value, attributes=attributes)


def _put_table(edit: Rewriter, before: ir.Node, half: ir.Value) -> ir.Value:
    """Return a table of cosines or sines: a row for each position, of each text if they differ."""
    shape = find_dims(half) or (None,)
    inputs = [half, edit.share_integers(-1, int(shape[-1] or 0))]
    rows = shape[1] if shape[0] == 1 else None
    return edit.share(before, "Reshape", inputs, f"{half.name}_table", (rows, shape[-1]))


def _put_positions(edit: Rewriter, before: ir.Node, half: ir.Value) -> ir.Value:
    """Return the indices of table rows: 0 when all texts start at the first row, otherwise an index for each token."""
    shape = find_dims(half) or (None,)
    if shape[0] == 1:
        return edit.share_integers(0)
    unit, name = edit.share_constant(np.array(1, np.int64)), f"{half.name}_positions"
    size = edit.share(before, "Shape", [half], f"{name}_size", (2,), like=unit, attributes={"start": 0, "end": 2})
    count = edit.share(before, "ReduceProd", [size], f"{name}_count", (), like=unit, attributes={"keepdims": 0})
    inputs = [edit.share_constant(np.array(0, np.int64)), count, unit]
    rows = edit.share(before, "Range", inputs, f"{name}_rows", (None,), like=unit)
    return edit.share(before, "Reshape", [rows, size], name, shape[:2], like=unit)
