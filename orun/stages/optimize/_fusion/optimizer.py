"""ONNX Runtime's transformer optimizer, with the heads and hidden size that it needs."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
from onnx import ModelProto
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_by_fusion

from orun.stages._graph.compat import patch_quadratic_scan, patch_shape_inference
from orun.stages.contract import Context
from orun.stages.library_errors import failing
from orun.stages.optimize._fusion import Settings
from orun.stages.optimize._fusion.graph import find_producer, read_integers, require_input
from orun.stages.optimize._fusion.heads import SPLIT


def apply_optimizer(context: Context, model: ModelProto, settings: Settings) -> tuple[ModelProto, Mapping[str, str]]:
    """Fuse a model with ONNX Runtime's optimizer; it gives no reasons for attentions that stay in pieces.

    Raises:
        StageFailed: when it cannot handle the model, or heads and hidden size do not fit.
    """
    patch_shape_inference()
    patch_quadratic_scan()
    num_heads, hidden_size = read_heads(model)
    num_heads, hidden_size = settings.num_heads or num_heads, settings.hidden_size or hidden_size
    context.log.info("%d attention heads, hidden size %d", num_heads, hidden_size)
    if (num_heads == 0) != (hidden_size == 0) or (num_heads and hidden_size % num_heads):
        raise context.failed(
            f"{num_heads} attention heads and hidden size {hidden_size} do not go together",
            hint="give both `num_heads` and `hidden_size`, or none of them",
        )
    with failing(
        context,
        f"ONNX Runtime's optimizer cannot handle the model as {settings.model_type}",
        "use `method: rules`, try another `model_type`, or leave fusions out: `disable: [...]`",
    ):
        fused = optimize_by_fusion(model, settings.model_type, num_heads, hidden_size, _build_options(settings))
    return fused.model, {}


def _build_options(settings: Settings) -> FusionOptions:
    options = FusionOptions(settings.model_type)
    options.use_multi_head_attention = settings.multi_head_attention
    options.use_raw_attention_mask(settings.mask != "right-padded")
    if settings.mask == "none":
        options.disable_attention_mask()
    for name in settings.disable:
        setattr(options, f"enable_{name}", False)
    return options


def read_heads(model: ModelProto) -> tuple[int, int]:
    """Return the number of attention heads and the hidden size; zeros if layers differ or do not say.

    The optimizer reads them itself unless the number of heads is -1 in the reshape of a projection, as in
    `transformers` 5.
    """
    pairs = set()
    for transpose in ir.from_proto(model).graph:
        reshape = find_producer(transpose.inputs[0], "Reshape") if transpose.op_type == "Transpose" else None
        if reshape is None or read_integers(transpose, "perm") != SPLIT:  # which puts heads before positions
            continue
        size, width = _read_last_size(require_input(reshape, 1)), _read_width(require_input(reshape, 0))
        if size > 0 and width > 0 and width % size == 0:
            pairs.add((width // size, width))
    return pairs.pop() if len(pairs) == 1 else (0, 0)


def _read_last_size(shape: ir.Value) -> int:
    """Return the last element of a shape that is a constant, or a Concat that ends in one; otherwise 0."""
    concat = find_producer(shape, "Concat")
    values = ir.convenience.get_const_tensor(require_input(concat, -1) if concat is not None else shape)
    return int(values.numpy()[-1]) if values is not None and values.size else 0


def _read_width(projected: ir.Value) -> int:
    """Return the last size of a projection, from its bias or weight; 0 without these."""
    projection = projected.producer()
    inputs = projection.inputs if projection is not None else ()
    stored = (value.const_value for value in inputs if value is not None)
    return next((tensor.shape.numpy()[-1] for tensor in stored if tensor is not None and len(tensor.shape)), 0)
