"""Fusion of each attention to one operator of ONNX Runtime: MultiHeadAttention or GroupQueryAttention.

GroupQueryAttention is used for a soft cap and for fewer heads of keys and values than of queries, MultiHeadAttention
for everything else. The operator's attention bias holds the model's mask, whatever it hides. GroupQueryAttention gets
`causal: 0`, so that it hides nothing by itself.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from orun.stages.optimize._fusion import census
from orun.stages.optimize._fusion.attention_core import FOLDED, Core, InPieces
from orun.stages.optimize._fusion.biases import Bias, build_bias, guard_heads, guard_rows
from orun.stages.optimize._fusion.cores import find
from orun.stages.optimize._fusion.graph import (
    MICROSOFT,
    Dim,
    Rewriter,
    are_same_shape,
    find_dims,
    find_producer,
    read_integers,
    require_input,
)
from orun.stages.optimize._fusion.heads import (
    SPLIT,
    Heads,
    find_heads,
    join_heads,
    skip_repetition,
    skip_rotation,
    split,
    split_scale,
)

TURNED = (0, 1, 3, 2)
SPLIT_AND_TURNED = (0, 2, 3, 1)
GROUPED = "grouped_query_attention"  # its name in `disable`
MULTIPLE = 8  # GroupQueryAttention takes head sizes that are multiples of it


@dataclass(frozen=True)
class Operands:
    """Queries, keys and values of an attention, each with its shape in heads."""

    query: tuple[ir.Value, Heads]
    key: tuple[ir.Value, Heads]
    value: tuple[ir.Value, Heads]


def fuse_attention(edit: Rewriter) -> None:
    """Replace each attention by one operator; note in `edit.left` why an attention stays in pieces."""
    pieces = dict.fromkeys(product for _, product in census.find_attentions(edit.graph))
    for node in [*pieces, *edit.list_nodes("Attention")]:
        try:
            _fuse(edit, find(edit, node))
        except InPieces as reason:
            if node in pieces:
                edit.left[str(node.outputs[0].name)] = str(reason)


def _fuse(edit: Rewriter, core: Core) -> None:
    key = _transpose_back(edit, core, core.key) if core.turned else core.key
    value = _transpose_back(edit, core, core.value) if core.mirrored else core.value
    core = _scale_queries(edit, replace(core, key=key, value=value, turned=False))
    operands = _collect_operands(core)
    query, result = operands.query[1], replace(operands.query[1], size=operands.value[1].size)
    shared = _find_unrepeated(core, operands)
    obstacle = _find_obstacle(edit, shared or operands)
    if core.cap and obstacle:
        raise InPieces(f"of ONNX Runtime's operators only GroupQueryAttention has a soft cap, and {obstacle}")
    before, name = core.last, f"{core.output.name}_fused"
    bias = build_bias(edit, core, query.length, operands.key[1].length)
    if core.cap or (shared is not None and not obstacle):
        rows = _put_grouped_query(edit, core, shared or operands, bias, result)
    else:
        rows = _put_multi_head(edit, core, operands, bias, result)
    if bias is not None:
        rows = guard_rows(edit, before, rows, bias)
    if result.count == 1 and len(find_dims(core.output) or ()) == FOLDED and not core.mirrored:
        edit.replace(core.output, rows)
        return
    output = split(edit, before, rows, result, name)
    if bias is not None:
        output = guard_heads(edit, before, output, bias)
    if core.mirrored:
        turned = (result.batch, result.count, result.size, result.length)
        output = edit.put(before, "Transpose", [output], f"{name}_turned", turned, attributes={"perm": TURNED})
    edit.replace(core.output, _restore_shape(edit, core, output))


def _scale_queries(edit: Rewriter, core: Core) -> Core:
    """Return the attention with the factor of each head multiplied into the queries."""
    if core.factor is None:
        return core
    name, shape = f"{core.query.name}_scaled", find_dims(core.query)
    return replace(core, query=edit.put(core.last, "Mul", [core.query, core.factor], name, shape), factor=None)


def _collect_operands(core: Core) -> Operands:
    """Return queries, keys and values with their heads.

    Raises:
        InPieces: when the heads are not known, or only some operands differ within the batch.
    """
    query, key, value = find_heads(core.query), find_heads(core.key), find_heads(core.value)
    if query is None or key is None or value is None:
        raise InPieces("the number or the size of its heads is not known")
    batches = {query.batch, key.batch, value.batch}
    if 1 in batches and len(batches) > 1:
        raise InPieces("its queries, keys or values are the same for every element of the batch")
    return Operands((core.query, query), (core.key, key), (core.value, value))


def _find_unrepeated(core: Core, operands: Operands) -> Operands | None:
    """Return the operands before keys and values are repeated; None when each head of queries has its own."""
    sources = [(source, find_heads(source)) for source in map(skip_repetition, (core.key, core.value))]
    (key, key_heads), (value, value_heads) = sources
    count = operands.query[1].count
    if key_heads is None or value_heads is None or key_heads.count != value_heads.count:
        return None
    fewer = key_heads.count < count and count % key_heads.count == 0
    return Operands(operands.query, (key, key_heads), (value, value_heads)) if fewer else None


def _find_obstacle(edit: Rewriter, operands: Operands) -> str:
    """Return why GroupQueryAttention does not take the operands, or an empty text."""
    query, key, value = operands.query[1], operands.key[1], operands.value[1]
    if GROUPED in edit.disabled:
        return f"`disable` leaves {GROUPED} out"
    if not takes_any_mask():
        return "that of this version takes causal masks alone"
    if key.count != value.count or query.count % key.count:
        return f"its {query.count} heads of queries cannot share {key.count} of keys and {value.count} of values"
    if not query.size == key.size == value.size or query.size % MULTIPLE:
        return f"that takes heads of one size, a multiple of {MULTIPLE}: these have {query.size} and {value.size}"
    if not are_same_shape((query.length,), (key.length,)):
        return "that takes as many keys as queries: here there may be more, as with a cache"
    return ""


@functools.cache
def takes_any_mask() -> bool:
    """Return whether this ONNX Runtime's GroupQueryAttention has the attribute `causal`."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    schemas = (schema for schema in state.get_all_operator_schema() if schema.name == "GroupQueryAttention")
    return any("causal" in schema.attributes for schema in schemas)


def _put_multi_head(edit: Rewriter, core: Core, operands: Operands, bias: Bias | None, result: Heads) -> ir.Value:
    counts = {heads.count for _, heads in (operands.query, operands.key, operands.value)}
    if len(counts) > 1:
        raise InPieces("its queries have another number of heads than its keys or values")
    inputs, attributes = _join_rows(edit, core, operands)
    inputs += [None, None, bias.value] if bias is not None else []
    name, like = f"{core.output.name}_fused", core.query
    return edit.put(
        core.last, "MultiHeadAttention", inputs, name, result.rows, like=like, domain=MICROSOFT, attributes=attributes
    )


def _put_grouped_query(edit: Rewriter, core: Core, operands: Operands, bias: Bias | None, result: Heads) -> ir.Value:
    inputs, attributes = _join_rows(edit, core, operands)
    inputs += [None, None, *_put_lengths(edit, core.last, skip_rotation(core.query))]
    inputs += [None, None, None, bias.value] if bias is not None else []
    attributes |= {"kv_num_heads": operands.key[1].count, "causal": 0}
    if core.cap:
        attributes["softcap"] = core.cap
    name, like = f"{core.output.name}_fused", core.query
    rows = edit.put(
        core.last, "GroupQueryAttention", inputs, name, result.rows, like=like, domain=MICROSOFT, attributes=attributes
    )
    for place, output in enumerate(("present_key", "present_value"), 1):
        edit.name_output(rows, place, f"{rows.name}_{output}")  # CUDA's operator requires both
    return rows


def _join_rows(edit: Rewriter, core: Core, operands: Operands) -> tuple[list[ir.Value | None], dict[str, int | float]]:
    """Return the rows of queries, keys and values, and the attributes for heads and scale."""
    query, key, value = (
        join_heads(edit, core.last, *operand) for operand in (operands.query, operands.key, operands.value)
    )
    query, left = split_scale(query)
    key, right = split_scale(key)
    scale, heads = core.scale * left * right, operands.query[1]
    attributes: dict[str, int | float] = {"num_heads": heads.count}
    if not math.isclose(scale, 1 / math.sqrt(heads.size), rel_tol=1e-6):
        attributes["scale"] = scale
    return [query, key, value], attributes


def _put_lengths(edit: Rewriter, before: ir.Node, query: ir.Value) -> list[ir.Value]:
    """Return the length of each text, less one, and the length of the longest. All are full: the mask hides padding."""
    shape = find_dims(query) or (None,)
    key = ("lengths", shape[0], shape[2]) if are_same_shape(shape, shape) else ("lengths", query)
    if key not in edit.cache:
        kind = ir.DataType.INT32
        unit, name = edit.share_constant(np.array([1], np.int32)), f"{query.name}_length"
        length = edit.put_size(before, query, 2)
        row = edit.put(before, "Cast", [length], name, (1,), like=unit, attributes={"to": int(kind)})
        last = edit.put(before, "Sub", [row, unit], f"{name}_last", (1,))
        texts = edit.put_size(before, query, 0)
        edit.cache[key] = edit.put(before, "Expand", [last, texts], f"{name}_each", (shape[0],))
        edit.cache["longest", *key] = edit.put(before, "Squeeze", [row, edit.share_integers(0)], f"{name}_longest", ())
    return [edit.cache[key], edit.cache["longest", *key]]


def _restore_shape(edit: Rewriter, core: Core, output: ir.Value) -> ir.Value:
    """Return the output in the model's shape, which may have the heads folded into the batch."""
    shape = find_dims(core.output)
    if shape is None or len(shape) != FOLDED:
        return output
    name = f"{core.output.name}_folded"
    sizes = [edit.share_integers(-1), *(edit.put_size(core.last, output, axis) for axis in (2, 3))]
    size = edit.put(core.last, "Concat", sizes, f"{name}_size", (FOLDED,), attributes={"axis": 0})
    return edit.put(core.last, "Reshape", [output, size], name, shape)


def _transpose_back(edit: Rewriter, core: Core, value: ir.Value) -> ir.Value:
    """Return a key or value `[batch, heads, size, length]` as `[batch, heads, length, size]`."""
    shape = find_dims(value) or (None,) * len(TURNED)
    upright = (shape[0], shape[1], shape[3], shape[2])
    transpose = find_producer(value, "Transpose")
    order = read_integers(transpose, "perm") if transpose is not None else None
    if transpose is not None and order == TURNED:
        return require_input(transpose, 0)
    if (flat := _skip_flattening(value, upright)) is not None:
        return flat
    source, perm = value, TURNED
    if transpose is not None and order == SPLIT_AND_TURNED:
        source, perm = require_input(transpose, 0), SPLIT
    return edit.put(core.last, "Transpose", [source], f"{value.name}_upright", upright, attributes={"perm": perm})


def _skip_flattening(key: ir.Value, upright: tuple[Dim, ...]) -> ir.Value | None:
    """Return the key before Reshape, Transpose, Reshape: some exporters transpose it with heads in the batch axis."""
    reshape = find_producer(key, "Reshape")
    transpose = find_producer(reshape.inputs[0], "Transpose") if reshape is not None else None
    flatten = find_producer(transpose.inputs[0], "Reshape") if transpose is not None else None
    if transpose is None or flatten is None or read_integers(transpose, "perm") != (0, 2, 1):
        return None
    source, flat = require_input(flatten, 0), find_dims(flatten.outputs[0])
    same = are_same_shape(find_dims(source), upright) and flat is not None and tuple(flat[1:]) == upright[2:]
    return source if same else None
