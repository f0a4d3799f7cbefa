"""Each attention to one MultiHeadAttention of ONNX Runtime."""

from __future__ import annotations

import math
from dataclasses import replace

import onnx_ir as ir

from orun.stages.optimize._fusion.biases import biased, guarded_heads, guarded_rows
from orun.stages.optimize._fusion.cores import Core, attentions, find
from orun.stages.optimize._fusion.graph import MICROSOFT, Dim, Rewriter, alike, dims, integers, made_by, required
from orun.stages.optimize._fusion.heads import SPLIT, heads_of, joined, split, unscaled

TURNED = (0, 1, 3, 2)
SPLIT_AND_TURNED = (0, 2, 3, 1)


def fuse_attention(edit: Rewriter) -> None:
    """Put a MultiHeadAttention in the place of every attention that is understood."""
    for node in list(attentions(edit)):
        core = find(edit, node)
        if core is not None:
            _fuse(edit, core)


def _fuse(edit: Rewriter, core: Core) -> None:
    core = _upright(edit, core)
    query, key, value = heads_of(core.query), heads_of(core.key), heads_of(core.value)
    if query is None or key is None or value is None or not query.count == key.count == value.count:
        return
    before, name = core.last, f"{core.output.name}_fused"
    rows, left = unscaled(joined(edit, before, core.query, query))
    keys, right = unscaled(joined(edit, before, core.key, key))
    values = joined(edit, before, core.value, value)
    scale = core.scale * left * right
    bias = biased(edit, core, query.length, key.length)
    result = replace(query, size=value.size)
    attributes: dict[str, int | float] = {"num_heads": query.count}
    if not math.isclose(scale, 1 / math.sqrt(query.size), rel_tol=1e-6):
        attributes["scale"] = scale
    made = edit.put(
        before,
        "MultiHeadAttention",
        [rows, keys, values, *([None, None, bias.value] if bias else [])],
        name,
        result.rows,
        like=core.query,
        domain=MICROSOFT,
        attributes=attributes,
    )
    if bias is not None:
        made = guarded_rows(edit, before, made, bias)
    whole = split(edit, before, made, result, name)
    if bias is not None:
        whole = guarded_heads(edit, before, whole, bias)
    edit.replace(core.output, whole)


def _upright(edit: Rewriter, core: Core) -> Core:
    """The same with its key as `[batch, heads, length, size]`."""
    shape = dims(core.key)
    if not core.turned or shape is None or len(shape) != len(TURNED):
        return core
    upright = (shape[0], shape[1], shape[3], shape[2])
    turn = made_by(core.key, "Transpose")
    order = integers(turn, "perm") if turn is not None else None
    if turn is not None and order == TURNED:
        return replace(core, key=required(turn, 0), turned=False)
    if (flat := _unflattened(core.key, upright)) is not None:
        return replace(core, key=flat, turned=False)
    source, perm = core.key, TURNED
    if turn is not None and order == SPLIT_AND_TURNED:
        source, perm = required(turn, 0), SPLIT
    name = f"{core.key.name}_upright"
    key = edit.put(core.last, "Transpose", [source], name, upright, attributes={"perm": perm})
    return replace(core, key=key, turned=False)


def _unflattened(key: ir.Value, upright: tuple[Dim, ...]) -> ir.Value | None:
    """What a key was that an exporter turned with batch and heads in one axis: Reshape, Transpose, Reshape."""
    reshape = made_by(key, "Reshape")
    turn = made_by(reshape.inputs[0], "Transpose") if reshape is not None else None
    flatten = made_by(turn.inputs[0], "Reshape") if turn is not None else None
    if turn is None or flatten is None or integers(turn, "perm") != (0, 2, 1):
        return None
    source, flat = required(flatten, 0), dims(flatten.outputs[0])
    whole = alike(dims(source), upright) and flat is not None and tuple(flat[1:]) == upright[2:]
    return source if whole else None
