"""Conversion of a TensorFlow model to an ONNX model with equal bytes in every process."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ModelProto

from orun.stages._graph.canonical import canonicalize
from orun.stages._graph.domains import tidy_domains
from orun.stages._graph.names import clean, declare_input, name_input_axes, name_values
from orun.stages._graph.nodes import set_items
from orun.stages._tf.function import Function
from orun.stages._tf.leftover_operators import replace_leftover_operators
from orun.stages._tf.lite import Lite
from orun.stages.contract import Context
from orun.stages.library_errors import failing
from orun.stages.library_warnings import warnings_to
from orun.stages.name_checks import require_names, require_order
from orun.text.units import show

GRAPH_LIMIT = 2**31 - 1  # bytes of one protobuf message, which a graph is


def export(context: Context, source: Function | Lite, opset: int, outputs: Sequence[str]) -> ModelProto:
    """Convert the model to canonical form, with the inputs of the source in order.

    Without `outputs`, those of the source keep their names.

    Raises:
        StageFailed: when it is too large, tf2onnx cannot convert it, or names do not fit.
    """
    names = _name_outputs(context, source, outputs)
    _require_small(context, source)
    with warnings_to(context.log), failing(context, "tf2onnx cannot convert the model", "try another `opset`"):
        model, inside, yielded = source.convert(opset)
    replace_leftover_operators(context, model)
    _arrange(model, source, inside)
    order = {name: place for place, name in enumerate(yielded)}
    model.graph.output.sort(key=lambda value: order[value.name])
    clean(model)
    name_values(model, [item.name for item in source.inputs], names)
    canonicalize(model)
    name_input_axes(model, source.inputs)
    tidy_domains(model)
    return model


def _require_small(context: Context, source: Function | Lite) -> None:
    """Refuse a model that is too large for a graph of TensorFlow before its long conversion."""
    if source.weights > GRAPH_LIMIT:
        raise context.failed(
            f"the model's variables take {show(source.weights, 'B')}, and it cannot be converted from TensorFlow",
            why="tf2onnx makes constants of them in one graph of TensorFlow, which ends at 2 GiB",
            hint="convert it in parts, or build the model in PyTorch and use `convert/torch`",
        )


def _name_outputs(context: Context, source: Function | Lite, outputs: Sequence[str]) -> list[str]:
    if outputs and len(outputs) != len(source.outputs):
        raise context.failed(
            f"the TensorFlow model returns {len(source.outputs)} tensors, and `outputs` names {len(outputs)}",
            why=f"by its own names {', '.join(source.outputs)}",
            hint="name each tensor that the model returns, in order",
        )
    names = list(outputs or source.outputs)
    require_order(context, names, source.outputs)
    require_names(context, [item.name for item in source.inputs], names)
    return names


def _arrange(model: ModelProto, source: Function | Lite, inside: Sequence[str]) -> None:
    """Bring the graph's inputs into the order of the source, and add those that no node reads."""
    known = {value.name.removesuffix(":0"): value for value in model.graph.input}
    pairs = zip(inside, source.inputs, strict=True)
    set_items(
        model.graph.input, (known.get(name.removesuffix(":0")) or declare_input(name, item) for name, item in pairs)
    )
