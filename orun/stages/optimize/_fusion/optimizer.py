"""ONNX Runtime's transformer optimizer, and what it needs to be told before it sees an attention."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from onnx import ModelProto, NodeProto, TensorProto, numpy_helper
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_by_fusion

from orun.errors import StageFailed
from orun.stages._graph.symbolic import extend_inference
from orun.stages.contract import Context
from orun.stages.library_errors import failing

if TYPE_CHECKING:
    from orun.stages.optimize.transformer import Params

LISTED = "listed"  # what a model holds the makers of its values in


def apply_optimizer(context: Context, model: ModelProto, params: Params) -> ModelProto:
    """What ONNX Runtime's optimizer makes of a model.

    Args:
        context: of the stage.
        model: as ONNX Runtime's own optimizations leave it.
        params: of `optimize/transformer`.

    Raises:
        StageFailed: when it cannot handle the model, or what it needs to know contradicts itself.
    """
    extend_inference()
    hasten()
    found = heads(model)
    num_heads, hidden_size = params.num_heads or found[0], params.hidden_size or found[1]
    context.log.info("%d attention heads, hidden size %d", num_heads, hidden_size)
    if (num_heads == 0) != (hidden_size == 0) or (num_heads and hidden_size % num_heads):
        raise StageFailed(
            context.stage,
            f"{num_heads} attention heads and hidden size {hidden_size} do not go together",
            hint="give both `num_heads` and `hidden_size`, or none of them",
        )
    with failing(
        context,
        f"ONNX Runtime's optimizer cannot handle the model as {params.model_type}",
        "use `method: rules`, try another `model_type`, or leave fusions out: `disable: [...]`",
    ):
        fused = optimize_by_fusion(model, params.model_type, num_heads, hidden_size, _options(params))
    result: ModelProto = fused.model
    return result


@functools.cache
def hasten() -> None:
    """Let two of ONNX Runtime's fusions list the makers of all values once, and not for each Add or Mul that they see.

    That takes minutes in a model of 10,000 nodes, as of 1.31. Neither changes a node before it has seen all of them.
    Its modules import one another from a folder on the path, so that each is there twice.
    """
    for package in ("onnxruntime.transformers.", ""):
        _list_once(importlib.import_module(f"{package}onnx_model").OnnxModel)
        for module, name in (
            ("fusion_quickgelu", "FusionQuickGelu"),
            ("fusion_rotary_attention", "FusionRotaryEmbeddings"),
        ):
            _keep_list(getattr(importlib.import_module(package + module), name))


def _list_once(model_class: Any) -> None:
    """Let a model give its list of makers while there is one; it is of no use once nodes are taken away."""
    makers, remove_nodes = model_class.output_name_to_node, model_class.remove_nodes

    def output_name_to_node(model: Any, *whole: bool, **graph: bool) -> dict[str, NodeProto]:
        held: dict[str, NodeProto] | None = vars(model).get(LISTED)
        if held is None or whole or graph:
            return cast("dict[str, NodeProto]", makers(model, *whole, **graph))
        if not held:
            held.update(makers(model))
        return held

    def remove(model: Any, nodes: list[NodeProto]) -> None:
        vars(model).pop(LISTED, None)
        remove_nodes(model, nodes)

    model_class.output_name_to_node, model_class.remove_nodes = output_name_to_node, remove


def _keep_list(fusion_class: Any) -> None:
    """Let a fusion keep the list until it has seen every node."""
    base = fusion_class.apply

    def apply(fusion: Any) -> None:
        setattr(fusion.model, LISTED, {})
        try:
            base(fusion)
        finally:
            vars(fusion.model).pop(LISTED, None)

    fusion_class.apply = apply


def _options(params: Params) -> FusionOptions:
    options = FusionOptions(params.model_type)
    options.use_multi_head_attention = params.multi_head_attention
    options.use_raw_attention_mask(params.mask != "right-padded")
    if params.mask == "none":
        options.disable_attention_mask()
    for name in params.disable:
        setattr(options, f"enable_{name}", False)
    return options


def heads(model: ModelProto) -> tuple[int, int]:
    """Number of attention heads and hidden size, or zeros where the graph does not tell one pair for all layers.

    The optimizer reads them itself unless the number of heads is written as -1 in the reshape of a projection, as
    `transformers` 5 does it.
    """
    constants = _integers(model)
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    makers = {output: node for node in model.graph.node for output in node.output}
    found = set()
    for reshape in _split_heads(model, makers):
        size = _last(reshape.input[1], makers, constants)
        width = _width(makers.get(reshape.input[0]), shapes)
        if size > 0 and width > 0 and width % size == 0:
            found.add((width // size, width))
    return found.pop() if len(found) == 1 else (0, 0)


def _split_heads(model: ModelProto, makers: Mapping[str, NodeProto]) -> Iterator[NodeProto]:
    """Reshapes that split a projection into heads: their result is transposed to heads before positions."""
    for node in model.graph.node:
        maker = makers.get(node.input[0]) if node.input else None
        order = next((list(item.ints) for item in node.attribute if item.name == "perm"), [])
        if node.op_type == "Transpose" and order == [0, 2, 1, 3] and maker is not None and maker.op_type == "Reshape":
            yield maker


def _last(shape: str, makers: Mapping[str, NodeProto], constants: Mapping[str, list[int]]) -> int:
    """Last element of a shape that is a constant or a concatenation that ends in one; 0 when it is neither."""
    maker = makers.get(shape)
    if maker is not None and maker.op_type == "Concat":
        shape = maker.input[len(maker.input) - 1]
    values = constants.get(shape)
    return values[-1] if values else 0


def _width(projection: NodeProto | None, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Size of the last axis of a projection, from its bias or weight; 0 when it has none."""
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
