"""ONNX Runtime's transformer optimizer, with the heads and hidden size that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import ModelProto, NodeProto, TensorProto, numpy_helper
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_by_fusion

from orun.stages._graph.compat import patch_quadratic_scan, patch_shape_inference
from orun.stages._graph.nodes import attribute
from orun.stages.contract import Context
from orun.stages.library_errors import failing
from orun.stages.optimize._fusion import Settings


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
        fused = optimize_by_fusion(model, settings.model_type, num_heads, hidden_size, _options(settings))
    return fused.model, {}


def _options(settings: Settings) -> FusionOptions:
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
    constants = _integers(model)
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    producers = {output: node for node in model.graph.node for output in node.output}
    pairs = set()
    for reshape in _split_heads(model, producers):
        size = _last(reshape.input[1], producers, constants)
        width = _width(producers.get(reshape.input[0]), shapes)
        if size > 0 and width > 0 and width % size == 0:
            pairs.add((width // size, width))
    return pairs.pop() if len(pairs) == 1 else (0, 0)


def _split_heads(model: ModelProto, producers: Mapping[str, NodeProto]) -> Iterator[NodeProto]:
    """Yield the reshapes that split a projection into heads: a Transpose puts heads before positions."""
    for node in model.graph.node:
        producer = producers.get(node.input[0]) if node.input else None
        if (
            node.op_type == "Transpose"
            and attribute(node, "perm", []) == [0, 2, 1, 3]
            and producer is not None
            and producer.op_type == "Reshape"
        ):
            yield producer


def _last(shape: str, producers: Mapping[str, NodeProto], constants: Mapping[str, list[int]]) -> int:
    """Return the last element of a shape that is a constant, or a Concat that ends in one; otherwise 0."""
    producer = producers.get(shape)
    if producer is not None and producer.op_type == "Concat":
        shape = producer.input[len(producer.input) - 1]
    values = constants.get(shape)
    return values[-1] if values else 0


def _width(projection: NodeProto | None, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Return the last size of a projection, from its bias or weight; 0 without these."""
    inputs = projection.input if projection is not None else ()
    return next((shapes[name][-1] for name in inputs if shapes.get(name)), 0)


def _integers(model: ModelProto) -> dict[str, list[int]]:
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            stored.update((node.output[0], item.t) for item in node.attribute if item.name == "value")
    return {
        name: [int(value) for value in numpy_helper.to_array(tensor).ravel()]
        for name, tensor in stored.items()
        if tensor.data_type == TensorProto.INT64 and len(tensor.dims) <= 1
    }
