"""Fusion of token, position and segment embeddings with the layer normalization of their sum."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from orun.stages.optimize._fusion.graph import (
    MICROSOFT,
    Rewriter,
    are_same_shape,
    find_constant,
    find_dims,
    find_producer,
    read_setting,
    require_input,
)

IDS = 2  # axes of token ids: batch and length


@dataclass(frozen=True)
class Lookup:
    """Rows of a constant table."""

    table: ir.Value
    ids: ir.Value


def fuse_embedding(edit: Rewriter) -> None:
    """Fuse the sum of two or three lookups and its normalization to one EmbedLayerNormalization."""
    _measure_ids(edit)
    for norm in edit.list_nodes("LayerNormalization"):
        lookups = _find_lookups(require_input(norm, 0))
        if lookups is None or len(norm.inputs) != 3 or int(read_setting(norm, "axis", -1)) not in (-1, 2):  # noqa: PLR2004
            continue
        roles = _assign_roles(lookups, norm)
        if roles is not None:
            _fuse(edit, norm, *roles)


def _measure_ids(edit: Rewriter) -> None:
    """Let nodes read the number of texts and tokens from the ids instead of from the looked-up rows."""
    for node in edit.list_nodes("Shape"):
        gather = find_producer(node.inputs[0], "Gather")
        table = find_constant(gather.inputs[0]) if gather is not None else None
        if gather is None or table is None or read_setting(gather, "axis", 0) or node.outputs[0].is_graph_output():
            continue
        ids, name, unit = require_input(gather, 1), node.outputs[0].name, edit.share_integers(1)
        start, end = int(read_setting(node, "start", 0)), node.attributes.get("end")
        if start >= 0 and end is not None and 0 <= int(end.value) <= len(find_dims(ids) or ()):
            bounds = {"start": start, "end": int(end.value)}
            shape = edit.put(
                node, "Shape", [ids], f"{name}_ids", find_dims(node.outputs[0]), like=unit, attributes=bounds
            )
        elif not start and end is None:
            length = edit.put(node, "Shape", [ids], f"{name}_ids", (len(find_dims(ids) or ()),), like=unit)
            inputs = [length, edit.share_integers(*table.shape[1:])]
            shape = edit.put(
                node, "Concat", inputs, f"{name}_whole", find_dims(node.outputs[0]), attributes={"axis": 0}
            )
        else:
            continue
        edit.replace(node.outputs[0], shape)
        edit.graph.remove(node, safe=True)


def _find_lookups(value: ir.Value) -> list[Lookup] | None:
    """Return the lookups that a value is the sum of, if nothing else reads them."""
    if len(value.uses()) != 1 or value.is_graph_output():
        return None
    add = find_producer(value, "Add")
    if add is not None:
        parts = [_find_lookups(require_input(add, place)) for place in (0, 1)]
        return None if None in parts else [lookup for part in parts for lookup in part or []]
    gather = find_producer(value, "Gather")
    if gather is None or read_setting(gather, "axis", 0):
        return None
    table = find_constant(gather.inputs[0])
    if table is None or table.ndim != IDS:
        return None
    return [Lookup(require_input(gather, 0), require_input(gather, 1))]


def _assign_roles(lookups: list[Lookup], norm: ir.Node) -> tuple[Lookup, Lookup, Lookup | None] | None:
    """Return the lookups by tokens, by positions and, if any, by segments.

    Their shapes distinguish them: positions may be the same for all texts.
    """
    shape = find_dims(norm.outputs[0])
    if shape is None or len(shape) != IDS + 1 or len(lookups) not in (2, 3):
        return None
    by_token = [lookup for lookup in lookups if are_same_shape(find_dims(lookup.ids), shape[:2])]
    ordered = sorted(by_token, key=lambda lookup: not lookup.ids.is_graph_input())
    rest = [lookup for lookup in lookups if lookup not in by_token]
    if len(rest) == 1 and are_same_shape(find_dims(rest[0].ids), (1, shape[1])):
        return (ordered[0], rest[0], ordered[1] if len(ordered) > 1 else None) if ordered else None
    if rest:
        return None
    return ordered[0], ordered[1], ordered[2] if len(ordered) > 2 else None  # noqa: PLR2004


def _fuse(edit: Rewriter, norm: ir.Node, tokens: Lookup, positions: Lookup, segments: Lookup | None) -> None:
    def narrow_ids(lookup: Lookup | None) -> ir.Value | None:
        return None if lookup is None else _narrow(edit, norm, lookup.ids)

    inputs = [
        narrow_ids(tokens),
        narrow_ids(segments),
        tokens.table,
        positions.table,
        segments.table if segments is not None else None,
        *norm.inputs[1:],
        None,
        narrow_ids(positions),
    ]
    name = f"{norm.outputs[0].name}_fused"
    fused = edit.put(
        norm,
        "EmbedLayerNormalization",
        inputs,
        name,
        find_dims(norm.outputs[0]),
        like=norm.outputs[0],
        domain=MICROSOFT,
        attributes={"epsilon": read_setting(norm, "epsilon", 1e-5)},
    )
    edit.name_output(fused, 1, f"{norm.outputs[0].name}_mask")  # the operator requires it
    edit.replace(norm.outputs[0], fused)


def _narrow(edit: Rewriter, before: ir.Node, ids: ir.Value) -> ir.Value:
    """Cast ids to 32 bits, the type that the operator takes."""
    kind = ir.DataType.INT32
    narrow = edit.share(before, "Cast", [ids], f"{ids.name}_int32", find_dims(ids), attributes={"to": int(kind)})
    narrow.type = ir.TensorType(kind)
    return narrow
