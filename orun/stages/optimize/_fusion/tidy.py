"""Removal of transpositions and reshapes that fusions made superfluous."""

from __future__ import annotations

import onnx_ir as ir

from orun.stages.optimize._fusion.graph import (
    Array,
    Dim,
    Rewriter,
    are_same_shape,
    find_constant,
    find_dims,
    find_input,
    find_producer,
    read_integers,
    read_setting,
    require_input,
)


def tidy(edit: Rewriter) -> None:
    """Remove transpositions that cancel out and reshapes that change nothing."""
    for node in edit.list_nodes("Transpose", "Reshape"):
        source = _skip_transposes(node) if node.op_type == "Transpose" else _skip_reshapes(node)
        if source is not None and not node.outputs[0].is_graph_output():
            node.outputs[0].replace_all_uses_with(source)


def _skip_transposes(node: ir.Node) -> ir.Value | None:
    """Return the value that a chain of transpositions restores."""
    transpose, axes = node, read_integers(node, "perm") or ()
    while (inner := find_producer(transpose.inputs[0], "Transpose")) is not None:
        order = read_integers(inner, "perm")
        if order is None or len(order) != len(axes):
            return None
        axes, transpose = tuple(order[axis] for axis in axes), inner
        if list(axes) == sorted(axes):
            return require_input(transpose, 0)
    return None


def _skip_reshapes(node: ir.Node) -> ir.Value | None:
    """Return the earliest value of a chain of reshapes that has the shape of the last."""
    shape, reshape = find_dims(node.outputs[0]), node
    original = None
    while True:
        source = require_input(reshape, 0)
        # Equal sizes may be a guess of the inference, which cannot compare the results of divisions.
        guessed = any("floor" in axis for axis in shape or () if isinstance(axis, str))
        if are_same_shape(find_dims(source), shape) and (reshape is not node or not guessed):
            original = source
        inner = find_producer(source, "Reshape")
        if inner is None:
            return original
        reshape = inner


def separate_linear(edit: Rewriter) -> None:
    """Replace a Gemm on flattened rows by MatMul and Add, which need no flattening."""
    for gemm in edit.list_nodes("Gemm"):
        plain = read_setting(gemm, "alpha", 1) == read_setting(gemm, "beta", 1) == 1 and not read_setting(
            gemm, "transA", 0
        )
        weight = find_constant(gemm.inputs[1])
        if weight is None or not plain:
            continue
        width = weight.shape[1 if read_setting(gemm, "transB", 0) else 0]
        for use in list(gemm.outputs[0].uses()):
            shape = find_dims(use.node.outputs[0]) if use.node.op_type == "Reshape" else None
            rows = _find_unflattened(gemm, (*shape[:-1], width)) if shape is not None else None
            if rows is not None:
                _separate(edit, gemm, weight, use.node, rows)


def _find_unflattened(gemm: ir.Node, shape: tuple[Dim, ...]) -> ir.Value | None:
    """Return the value of this shape from which the rows of a Gemm were flattened, in one step or more."""
    reshape = find_producer(gemm.inputs[0], "Reshape")
    while reshape is not None:
        if are_same_shape(find_dims(require_input(reshape, 0)), shape):
            return require_input(reshape, 0)
        reshape = find_producer(reshape.inputs[0], "Reshape")
    return None


def _separate(edit: Rewriter, gemm: ir.Node, matrix: Array, back: ir.Node, rows: ir.Value) -> None:
    weight, bias, name = require_input(gemm, 1), find_input(gemm, 2), back.outputs[0].name
    if read_setting(gemm, "transB", 0):
        key = ("turned", weight)
        if key not in edit.cache:
            edit.cache[key] = edit.hold(matrix.T.copy(), f"{weight.name}_turned")
        weight = edit.cache[key]
    shape = find_dims(back.outputs[0])
    product = edit.put(back, "MatMul", [rows, weight], f"{name}_product", shape)
    if bias is not None:
        product = edit.put(back, "Add", [product, bias], f"{name}_sum", shape)
    edit.replace(back.outputs[0], product)
