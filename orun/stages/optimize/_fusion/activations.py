"""Fusion of a GELU, exact or approximated by tanh, with the bias before it."""

from __future__ import annotations

from orun.stages.optimize._fusion.graph import (
    MICROSOFT,
    Rewriter,
    find_constant,
    find_dims,
    find_producer,
    iter_orders,
    require_input,
)


def fuse_bias_gelu(edit: Rewriter) -> None:
    """Fuse each GELU with the bias that is added before it."""
    for gelu in edit.list_nodes("Gelu") + edit.list_nodes("Gelu", "FastGelu", domain=MICROSOFT):
        attribute = gelu.attributes.get("approximate")
        fast = gelu.op_type == "FastGelu" or (attribute is not None and attribute.as_string() == "tanh")
        if len(gelu.inputs) > 1 and gelu.inputs[1] is not None:
            continue
        source, bias = require_input(gelu, 0), None
        add = find_producer(source, "Add")
        if add is not None and len(source.uses()) == 1:
            for rest, vector in iter_orders(add):
                held, shape = find_constant(vector), find_dims(rest)
                if bias is None and held is not None and held.ndim == 1 and shape and shape[-1] == held.shape[0]:
                    source, bias = rest, vector
        if bias is None:
            continue
        operator = "FastGelu" if fast else "BiasGelu"
        name = f"{gelu.outputs[0].name}_fused"
        fused = edit.put(gelu, operator, [source, bias], name, find_dims(gelu.outputs[0]), domain=MICROSOFT)
        edit.replace(gelu.outputs[0], fused)
