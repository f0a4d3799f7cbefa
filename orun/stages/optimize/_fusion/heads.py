"""Conversion between attention heads, `[batch, heads, length, size]`, and rows, `[batch, length, heads * size]`."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from orun.stages.optimize._fusion.graph import (
    MICROSOFT,
    Dim,
    Rewriter,
    are_same_shape,
    find_dims,
    find_number,
    find_producer,
    read_integers,
    read_setting,
    require_input,
)

SPLIT = (0, 2, 1, 3)  # permutation that swaps heads and length
REPEATED = 2  # axis, after that of the heads, along which heads of keys and values are repeated


@dataclass(frozen=True)
class Heads:
    """Shape of a tensor that is split into a known number of heads of known size."""

    batch: Dim
    count: int
    length: Dim
    size: int

    @property
    def rows(self) -> tuple[Dim, ...]:
        """Shape before the split: `[batch, length, heads * size]`."""
        return (self.batch, self.length, self.count * self.size)

    @property
    def by_position(self) -> tuple[Dim, ...]:
        """Shape between the split and the transposition: `[batch, length, heads, size]`."""
        return (self.batch, self.length, self.count, self.size)


def find_heads(value: ir.Value) -> Heads | None:
    """Return the shape of a value, if it is split into heads and both their number and their size are known."""
    shape = find_dims(value)
    if shape is None or len(shape) != len(SPLIT):
        return None
    batch, count, length, size = shape
    return Heads(batch, count, length, size) if isinstance(count, int) and isinstance(size, int) else None


def join_heads(edit: Rewriter, before: ir.Node, value: ir.Value, heads: Heads) -> ir.Value:
    """Return the rows of a value `[batch, heads, length, size]`: those that it was split from, or new ones."""
    single = find_producer(value, "Unsqueeze")
    if single is not None and heads.count == 1 and find_number(require_input(single, 1)) == 1:
        return require_input(single, 0)
    rotary = _find_rotation(value)
    if rotary is not None:
        return _rotate_rows(edit, before, rotary, heads)
    split = find_producer(value, "Transpose")
    if split is not None and read_integers(split, "perm") == SPLIT:
        by_position = require_input(split, 0)
    else:
        by_position = edit.put(
            before, "Transpose", [value], f"{value.name}_apart", heads.by_position, attributes={"perm": SPLIT}
        )
    reshape = find_producer(by_position, "Reshape")
    if reshape is not None and are_same_shape(find_dims(require_input(reshape, 0)), heads.rows):
        return require_input(reshape, 0)
    width = edit.share_integers(0, 0, heads.count * heads.size)
    return edit.put(before, "Reshape", [by_position, width], f"{value.name}_rows", heads.rows)


def skip_rotation(value: ir.Value) -> ir.Value:
    """Return the value before a rotation. It has the same shape, and a Shape of it does not keep the rotation alive."""
    rotary = _find_rotation(value)
    return value if rotary is None else require_input(rotary, 0)


def _find_rotation(value: ir.Value) -> ir.Node | None:
    return find_producer(value, "RotaryEmbedding", domain=MICROSOFT) or find_producer(value, "RotaryEmbedding")


def _rotate_rows(edit: Rewriter, before: ir.Node, rotary: ir.Node, heads: Heads) -> ir.Value:
    """Return a rotation of heads as the same rotation of rows."""
    rows = join_heads(edit, before, require_input(rotary, 0), heads)
    attributes = {name: int(read_setting(rotary, name, 0)) for name in ("interleaved", "rotary_embedding_dim")}
    return edit.put(
        before,
        rotary.op_type,
        [rows, *rotary.inputs[1:]],
        f"{rotary.outputs[0].name}_rows",
        heads.rows,
        domain=rotary.domain,
        attributes=attributes | {"num_heads": heads.count},
    )


def split(edit: Rewriter, before: ir.Node, rows: ir.Value, heads: Heads, name: str) -> ir.Value:
    """Split rows `[batch, length, heads * size]` to a value `[batch, heads, length, size]`."""
    shape = edit.share_integers(0, 0, heads.count, heads.size)
    by_position = edit.put(before, "Reshape", [rows, shape], f"{name}_apart", heads.by_position)
    turned = (heads.batch, heads.count, heads.length, heads.size)
    return edit.put(before, "Transpose", [by_position], f"{name}_heads", turned, attributes={"perm": SPLIT})


def separate_heads(edit: Rewriter, before: ir.Node, value: ir.Value, count: int) -> ir.Value:
    """Return a value `[batch * heads, ...]` as `[batch, heads, ...]`: the value before folding, or a new reshape."""
    key = ("apart", value, count)
    if key not in edit.cache:
        edit.cache[key] = _find_unfolded(value, count) or _split_batch(edit, before, value, count)
    return edit.cache[key]


def _find_unfolded(value: ir.Value, count: int) -> ir.Value | None:
    """Return the value whose heads a reshape folded into the batch."""
    reshape = find_producer(value, "Reshape")
    source, folded = (
        find_dims(reshape.inputs[0]) if reshape is not None and reshape.inputs[0] else None,
        find_dims(value),
    )
    if reshape is None or source is None or folded is None or len(source) != len(SPLIT):
        return None
    same = source[1] == count and None not in folded[1:] and source[2:] == folded[1:]
    return require_input(reshape, 0) if same else None


def _split_batch(edit: Rewriter, before: ir.Node, value: ir.Value, count: int) -> ir.Value:
    shape, name = find_dims(value) or (None,) * (len(SPLIT) - 1), f"{value.name}_unfolded"
    if count == 1:
        return edit.put(before, "Unsqueeze", [value, edit.share_integers(1)], name, (shape[0], 1, *shape[1:]))
    batch = shape[0] // count if isinstance(shape[0], int) else None
    inputs = [edit.share_integers(-1, count), edit.put_size(before, value, 1), edit.put_size(before, value, 2)]
    size = edit.put(before, "Concat", inputs, f"{name}_size", (len(SPLIT),), attributes={"axis": 0})
    return edit.put(before, "Reshape", [value, size], name, (batch, count, *shape[1:]))


def skip_repetition(value: ir.Value) -> ir.Value:
    """Return keys or values `[batch, heads, length, size]` before each of their heads is repeated."""
    reshape = find_producer(value, "Reshape")
    expand = find_producer(reshape.inputs[0], "Expand") if reshape is not None else None
    axis = find_producer(expand.inputs[0], "Unsqueeze") if expand is not None else None
    if expand is None or axis is None or find_number(require_input(axis, 1)) != REPEATED:
        return value
    few, repeated, many = find_heads(require_input(axis, 0)), find_dims(expand.outputs[0]), find_heads(value)
    if few is None or many is None or repeated is None or len(repeated) != len(SPLIT) + 1 or repeated[1] != few.count:
        return value
    times = repeated[REPEATED]
    same = isinstance(times, int) and many.count == few.count * times and many.size == few.size
    return require_input(axis, 0) if same and are_same_shape((many.length,), (few.length,)) else value


def split_scale(value: ir.Value) -> tuple[ir.Value, float]:
    """Return a value without its constant factor, and the factor."""
    scale = 1.0
    while (node := find_producer(value, "Mul", "Div")) is not None:
        factor = find_number(require_input(node, 1))
        value_at = 0
        if factor is None and node.op_type == "Mul":
            factor, value_at = find_number(require_input(node, 0)), 1
        if factor is None or not are_same_shape(find_dims(require_input(node, value_at)), find_dims(value)):
            break
        scale = scale / factor if node.op_type == "Div" else scale * factor
        value = require_input(node, value_at)
    return value, scale
