"""Tensors that are split into attention heads, `[batch, heads, length, size]`, and the rows they were split from."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from orun.stages.optimize._fusion.graph import Dim, Rewriter, alike, dims, integers, made_by, number, required, setting

SPLIT = (0, 2, 1, 3)  # heads before length, and back


@dataclass(frozen=True)
class Heads:
    """The shape of a tensor that is split into heads, with the number and size of them known."""

    batch: Dim
    count: int
    length: Dim
    size: int

    @property
    def rows(self) -> tuple[Dim, ...]:
        """The shape before the split: `[batch, length, heads * size]`."""
        return (self.batch, self.length, self.count * self.size)

    @property
    def apart(self) -> tuple[Dim, ...]:
        """The shape between the split and the transposition: `[batch, length, heads, size]`."""
        return (self.batch, self.length, self.count, self.size)


def heads_of(value: ir.Value) -> Heads | None:
    """The shape of a value, if it is split into heads and both their number and their size are known."""
    shape = dims(value)
    if shape is None or len(shape) != len(SPLIT):
        return None
    batch, count, length, size = shape
    return Heads(batch, count, length, size) if isinstance(count, int) and isinstance(size, int) else None


def joined(edit: Rewriter, before: ir.Node, value: ir.Value, heads: Heads) -> ir.Value:
    """Rows `[batch, length, heads * size]` of a value `[batch, heads, length, size]`; those that it was split from."""
    rotary = made_by(value, "RotaryEmbedding", domain="com.microsoft") or made_by(value, "RotaryEmbedding")
    if rotary is not None:
        return _rotated(edit, before, rotary, heads)
    split = made_by(value, "Transpose")
    if split is not None and integers(split, "perm") == SPLIT:
        apart = required(split, 0)
    else:
        apart = edit.put(before, "Transpose", [value], f"{value.name}_apart", heads.apart, attributes={"perm": SPLIT})
    reshape = made_by(apart, "Reshape")
    if reshape is not None and alike(dims(required(reshape, 0)), heads.rows):
        return required(reshape, 0)
    width = edit.ints(0, 0, heads.count * heads.size)
    return edit.put(before, "Reshape", [apart, width], f"{value.name}_rows", heads.rows)


def _rotated(edit: Rewriter, before: ir.Node, rotary: ir.Node, heads: Heads) -> ir.Value:
    """The same rotation of rows."""
    rows = joined(edit, before, required(rotary, 0), heads)
    attributes = {name: int(setting(rotary, name, 0)) for name in ("interleaved", "rotary_embedding_dim")}
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
    """A value `[batch, heads, length, size]` of rows `[batch, length, heads * size]`."""
    shape = edit.ints(0, 0, heads.count, heads.size)
    apart = edit.put(before, "Reshape", [rows, shape], f"{name}_apart", heads.apart)
    turned = (heads.batch, heads.count, heads.length, heads.size)
    return edit.put(before, "Transpose", [apart], f"{name}_heads", turned, attributes={"perm": SPLIT})


def unscaled(value: ir.Value) -> tuple[ir.Value, float]:
    """What a value is a multiple of, and how many times it."""
    scale = 1.0
    while (node := made_by(value, "Mul", "Div")) is not None:
        factor = number(required(node, 1))
        value_at = 0
        if factor is None and node.op_type == "Mul":
            factor, value_at = number(required(node, 0)), 1
        if factor is None or not alike(dims(required(node, value_at)), dims(value)):
            break
        scale = scale / factor if node.op_type == "Div" else scale * factor
        value = required(node, value_at)
    return value, scale
