"""Pairs of QuantizeLinear and DequantizeLinear: checked as training left them, removed from tensors that stay float."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from orun.stages._graph.io import load
from orun.stages._graph.nodes import attribute, list_readers, set_items
from orun.stages.contract import Context

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
# Suffixes that ONNX Runtime's quantizer gives to the names of graph outputs and of weights.
BEFORE, INTEGERS = "_QuantizeLinear_Input", "_quantized"
# Operators that keep the scale of their integers.
SCALE_KEEPING = ("Clip", "Flatten", "Identity", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
MOST = 10  # problems that a message lists
ZERO_POINT = 2  # index among the inputs of both
OTHER_WAYS = "`quantize/static` quantizes a float model; `orun stages quantize/qat` says what trains with it"
IN_FLOAT = ("Conv", "FusedConv", "ConvTranspose", "Gemm", "FusedGemm", "MatMul", "FusedMatMul")
# Optimizers of ONNX Runtime that move, merge or add pairs. A session runs them; they stay out of the stored model.
PAIR_OPTIMIZERS = (
    "DoubleQDQPairsRemover", "QDQPropagationTransformer", "WeightBiasQuantization", "EnsureUniqueDQForNodeUnit",
)  # fmt: skip


def check_pairs(context: Context, model: ModelProto) -> None:
    """Refuse a model whose fake quantization no runtime can turn into integers.

    Every scale and zero point must be a constant, and every scale finite and above zero. Only DequantizeLinear with the
    same scale, zero point and axis may follow a QuantizeLinear. Between them the integers may be moved and cut off:
    PyTorch trains with 7 of 8 bits for some processors. The constants of the model are initializers.

    Raises:
        StageFailed: naming each node that breaks a rule, or when the model has no fake quantization.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    readers = list_readers(model.graph)
    linear = [node for node in model.graph.node if node.op_type in (QUANTIZE, DEQUANTIZE)]
    if not linear:
        raise context.failed(
            "the model has no fake quantization",
            why="it has neither QuantizeLinear nor DequantizeLinear",
            hint=OTHER_WAYS,
        )
    wrong = sorted(
        f"{node.name or node.output[0]}: {text}" for node in linear for text in _iter_problems(node, weights, readers)
    )
    if wrong:
        raise context.failed(
            "the model's fake quantization cannot become integers",
            why="\n".join([*wrong[:MOST], f"and {len(wrong) - MOST} more"] if len(wrong) > MOST else wrong),
            hint="each QuantizeLinear needs DequantizeLinear after it, with the same constant scale and zero point",
        )


def _iter_problems(
    node: NodeProto, weights: Mapping[str, TensorProto], readers: Mapping[str, list[NodeProto]]
) -> Iterator[str]:
    for name in node.input[1:]:
        if name and name not in weights:
            yield f"{name} is computed when the model runs"
    if node.input[1] in weights:
        scale = numpy_helper.to_array(weights[node.input[1]])
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            yield f"its scale {node.input[1]} is not above zero everywhere"
        weight = weights.get(node.input[0])
        axis = attribute(node, "axis", 1)
        if scale.ndim == 1 and scale.size > 1 and weight is not None and weight.dims[axis] != scale.size:
            yield f"{scale.size} scales for axis {axis} of {node.input[0]}, which has {weight.dims[axis]}"
    for reader in _iter_ends(node.output[0], readers) if node.op_type == QUANTIZE else []:
        if reader.op_type != DEQUANTIZE:
            yield f"its integers go into {reader.op_type} {reader.name or reader.output[0]}"
        elif not _are_same(node, reader, weights):
            yield f"{reader.name or reader.output[0]} takes another scale, zero point or axis"


def _iter_ends(integers: str, readers: Mapping[str, list[NodeProto]]) -> Iterator[NodeProto]:
    """Yield the nodes that read integers, as they are or moved and cut off."""
    for reader in readers.get(integers, ()):
        if reader.op_type in SCALE_KEEPING and reader.input[0] == integers:
            yield from _iter_ends(reader.output[0], readers)
        else:
            yield reader


def _are_same(node: NodeProto, other: NodeProto, weights: Mapping[str, TensorProto]) -> bool:
    """Return whether two nodes have the same scales, zero points and types; the axis counts for several scales."""
    if node.input[1:] == other.input[1:] and attribute(node, "axis", 1) == attribute(other, "axis", 1):
        return True
    quantization = _read_quantization(node, weights)
    return quantization is not None and quantization == _read_quantization(other, weights)


def _read_quantization(node: NodeProto, weights: Mapping[str, TensorProto]) -> tuple[object, ...] | None:
    if any(name and name not in weights for name in node.input[1:]):
        return None
    scale = numpy_helper.to_array(weights[node.input[1]])
    if len(node.input) > ZERO_POINT and node.input[ZERO_POINT]:
        tensor = weights[node.input[ZERO_POINT]]
        zero = (tensor.data_type, numpy_helper.to_array(tensor).ravel().tolist())
    else:
        zero = (TensorProto.UINT8, [0] * scale.size)  # the standard's default
    return scale.ravel().tolist(), zero, attribute(node, "axis", 1) if scale.size > 1 else None


def find_steps(model: ModelProto) -> dict[str, float]:
    """Return the largest step between two values of each rounded output."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    outputs = {value.name for value in model.graph.output}
    rounding = [node for node in model.graph.node if node.op_type == DEQUANTIZE and node.output[0] in outputs]
    return {node.output[0]: float(numpy_helper.to_array(weights[node.input[1]]).max()) for node in rounding}


def find_float_products(model: ModelProto) -> list[str]:
    """Return the names of products that ONNX Runtime left in float in a model that it optimized."""
    return [node.name or node.output[0] for node in model.graph.node if node.op_type in IN_FLOAT]


def keep_in_float(
    context: Context, path: Path, model: ModelProto, include: Sequence[str], exclude: Sequence[str]
) -> None:
    """Remove the pairs of tensors, in place, that are in `exclude`, or not in `include` if that is not empty.

    The model in float, at the path, has the weights.
    """

    def stays(name: str) -> bool:
        return name in exclude or bool(include and name not in include)

    weights = {tensor.name: tensor for tensor in load(path).graph.initializer}
    graph = model.graph
    outputs = {value.name for value in graph.output}
    stored = {tensor.name for tensor in graph.initializer}
    readers = list_readers(graph)
    renamed: dict[str, str] = {}
    removed: dict[str, NodeProto] = {}  # by their output
    names: dict[str, None] = {}
    for node in graph.node:
        source = node.input[0] if node.op_type in (QUANTIZE, DEQUANTIZE) else ""
        if node.op_type == QUANTIZE and (source in renamed or stays(source.removesuffix(BEFORE))):
            removed[node.output[0]] = node
            names.setdefault(renamed.get(source, source).removesuffix(BEFORE))
            for reader in readers.get(node.output[0], ()):
                removed[reader.output[0]] = reader
                old, new = reader.output[0], renamed.get(source, source)
                renamed.update({new: old} if old in outputs else {old: new})
        elif source in stored and source.endswith(INTEGERS) and stays(name := source.removesuffix(INTEGERS)):
            removed[node.output[0]], renamed[node.output[0]] = node, name
            names.setdefault(name)
            graph.initializer.append(weights[name])
    kept = [node for node in graph.node if node.output[0] not in removed]
    for node in kept:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    set_items(graph.node, kept)
    read = {name for node in kept for name in node.input}
    unread = ({name for node in removed.values() for name in node.input} & stored) - read
    set_items(graph.initializer, (tensor for tensor in graph.initializer if tensor.name not in unread))
    context.log.info("%d tensors stay float:\n  %s", len(names), "\n  ".join(names))
