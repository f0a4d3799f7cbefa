"""Fusion of a GELU, exact or approximated by tanh, with the bias before it."""

from __future__ import annotations

from orun.stages.optimize._fusion.graph import MICROSOFT, Rewriter, both_orders, constant, dims, made_by, required


def fuse_bias_gelu(edit: Rewriter) -> None:
    """Fuse each GELU with the bias that is added before it."""
    for gelu in edit.nodes("Gelu") + edit.nodes("Gelu", "FastGelu", domain=MICROSOFT):
        attribute = gelu.attributes.get("approximate")
        fast = gelu.op_type == "FastGelu" or (attribute is not None and attribute.as_string() == "tanh")
        if len(gelu.inputs) > 1 and gelu.inputs[1] is not None:
            continue
        source, bias = required(gelu, 0), None
        add = made_by(source, "Add")
        if add is not None and len(source.uses()) == 1:
            for rest, vector in both_orders(add):
                held, shape = constant(vector), dims(rest)
                if bias is None and held is not None and held.ndim == 1 and shape and shape[-1] == held.shape[0]:
                    source, bias = rest, vector
        if bias is None:
            continue
        operator = "FastGelu" if fast else "BiasGelu"
        name = f"{gelu.outputs[0].name}_fused"
        fused = edit.put(gelu, operator, [source, bias], name, dims(gelu.outputs[0]), domain=MICROSOFT)
        edit.replace(gelu.outputs[0], fused)
