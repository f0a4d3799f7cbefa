"""Fusion of layer and RMS normalizations with the residual sums before them."""

from __future__ import annotations

import onnx_ir as ir

from orun.stages.optimize._fusion.graph import (
    MICROSOFT,
    Rewriter,
    are_same_shape,
    find_constant,
    find_dims,
    find_input,
    find_number,
    find_producer,
    iter_orders,
    read_setting,
    require_input,
)

ROWS = 3  # axes of a residual sum: batch, length, width
SKIPPED = {
    "LayerNormalization": "SkipLayerNormalization",
    "SimplifiedLayerNormalization": "SkipSimplifiedLayerNormalization",
    "RMSNormalization": "SkipSimplifiedLayerNormalization",
}
BIAS = {"SkipLayerNormalization": 4, "SkipSimplifiedLayerNormalization": 3}  # index of the bias among the inputs
SUM = 3  # index of the sum among the outputs of a skip normalization


def fuse_rms_normalization(edit: Rewriter) -> None:
    """Fuse `weight * x / sqrt(mean(x ** 2) + epsilon)` to one SimplifiedLayerNormalization."""
    for scaled in edit.list_nodes("Mul"):
        for weight, normal in iter_orders(scaled):
            match = _match_root_mean_square(normal) if _is_vector(weight) else None
            if match is not None:
                source, epsilon = match
                fused = edit.put(
                    scaled,
                    "SimplifiedLayerNormalization",
                    [source, weight],
                    f"{scaled.outputs[0].name}_fused",
                    find_dims(source),
                    attributes={"axis": -1, "epsilon": epsilon, "stash_type": 1},
                )
                edit.replace(scaled.outputs[0], fused)
                break


def _match_root_mean_square(normal: ir.Value) -> tuple[ir.Value, float] | None:
    """Return the value before its RMS normalization, and the epsilon."""
    node = find_producer(normal, "Div", "Mul")
    if node is None:
        return None
    if node.op_type == "Div":
        candidates = [(require_input(node, 0), require_input(node, 1))]
    else:
        inverses = [(source, find_producer(factor, "Reciprocal")) for source, factor in iter_orders(node)]
        candidates = [(source, require_input(inverse, 0)) for source, inverse in inverses if inverse is not None]
    for source, root in candidates:
        if (epsilon := _find_epsilon(source, root)) is not None:
            return source, epsilon
    return None


def _find_epsilon(source: ir.Value, root: ir.Value) -> float | None:
    """Return the epsilon of `sqrt(mean(source ** 2) + epsilon)` over the last axis."""
    square_root = find_producer(root, "Sqrt")
    total = find_producer(square_root.inputs[0], "Add") if square_root is not None else None
    for left, right in iter_orders(total) if total is not None else ():
        mean, epsilon = find_producer(left, "ReduceMean"), find_number(right)
        if mean is None or epsilon is None:
            continue
        axes = find_number(mean.inputs[1]) if len(mean.inputs) > 1 else None
        power = find_producer(mean.inputs[0], "Pow")
        last = axes is not None and axes in (-1, len(find_dims(source) or ()) - 1)
        if power is not None and power.inputs[0] is source and find_number(power.inputs[1]) == 2 and last:  # noqa: PLR2004
            return epsilon if read_setting(mean, "keepdims", 1) else None
    return None


def fuse_skip(edit: Rewriter) -> None:
    """Fuse a sum of two values of the same shape with the normalization after it."""
    for norm in edit.list_nodes(*SKIPPED):
        total = find_producer(norm.inputs[0], "Add")
        if total is None or not _can_skip(norm, total):
            continue
        inputs = [*total.inputs, *norm.inputs[1:]]
        name, shape = f"{norm.outputs[0].name}_fused", find_dims(norm.outputs[0])
        attributes = {"epsilon": read_setting(norm, "epsilon", 1e-5)}
        fused = edit.put(norm, SKIPPED[norm.op_type], inputs, name, shape, domain=MICROSOFT, attributes=attributes)
        edit.replace(norm.outputs[0], fused)
        summed = total.outputs[0]
        if len(summed.uses()) > 1 or summed.is_graph_output():
            edit.replace(summed, edit.name_output(fused, SUM, f"{summed.name}_fused"))


def _can_skip(norm: ir.Node, total: ir.Node) -> bool:
    shape, other = find_dims(require_input(total, 0)), find_dims(require_input(total, 1))
    last = int(read_setting(norm, "axis", -1)) in (-1, ROWS - 1)
    vectors = len(norm.inputs) > 1 and all(_is_vector(value) for value in norm.inputs[1:])
    return (
        shape is not None
        and len(shape) == ROWS
        and are_same_shape(shape, other)
        and last
        and vectors
        and len(norm.outputs) == 1
    )


def fuse_bias_skip(edit: Rewriter) -> None:
    """Fuse the bias of a summand into the skip normalization that adds it."""
    for node in edit.list_nodes(*BIAS, domain=MICROSOFT):
        place = BIAS[node.op_type]
        if find_input(node, place) is not None:
            continue
        for side in (0, 1):
            parts = _split_bias(require_input(node, side))
            if parts is not None:
                node.resize_inputs(place + 1)
                node.replace_input_with(side, parts[0])
                node.replace_input_with(place, parts[1])
                break


def _split_bias(value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """Return a value and the vector that is added to it, if nothing else reads their sum."""
    add = find_producer(value, "Add")
    if add is None or len(value.uses()) != 1 or value.is_graph_output():
        return None
    return next(((rest, vector) for rest, vector in iter_orders(add) if _is_vector(vector)), None)


def _is_vector(value: ir.Value | None) -> bool:
    held = find_constant(value)
    return held is not None and held.ndim == 1
