"""Fake quantization in a model: the pairs of QuantizeLinear and DequantizeLinear that training put into it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, numpy_helper

from orun.errors import StageFailed
from orun.stages.contract import Context

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
# Operators that yield integers of the scale of those that they take.
KEEPING = ("Clip", "Flatten", "Identity", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
MOST = 10  # problems that a message tells
ZERO_POINT = 2  # place of this input of both
IN_FLOAT = ("Conv", "FusedConv", "ConvTranspose", "Gemm", "FusedGemm", "MatMul", "FusedMatMul")
# Optimizers of ONNX Runtime that move, merge or add pairs: a session runs them, a released model does without.
PAIR_OPTIMIZERS = (
    "DoubleQDQPairsRemover", "QDQPropagationTransformer", "WeightBiasQuantization", "EnsureUniqueDQForNodeUnit",
)  # fmt: skip


def check_pairs(context: Context, model: ModelProto) -> None:
    """Refuse a model whose fake quantization no runtime can turn into integers.

    Every scale and zero point must be a constant, every scale finite and above zero, and every QuantizeLinear be
    followed by DequantizeLinear alone, of the same scale, zero point and axis. Between them the integers may be moved
    and cut off: PyTorch trains with 7 of 8 bits for some processors.

    Args:
        context: of the stage.
        model: with its constants as initializers.

    Raises:
        StageFailed: naming each node that is not so, or when there is none at all.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    takers = _takers(model)
    linear = [node for node in model.graph.node if node.op_type in (QUANTIZE, DEQUANTIZE)]
    if not linear:
        raise StageFailed(
            context.stage,
            "the model has no fake quantization",
            why="it has neither QuantizeLinear nor DequantizeLinear",
            hint="`quantize/static` quantizes a float model; `orun stages quantize/qat` says what trains with it",
        )
    wrong = sorted(
        f"{node.name or node.output[0]}: {text}" for node in linear for text in _wrong(node, weights, takers)
    )
    if wrong:
        raise StageFailed(
            context.stage,
            "the model's fake quantization cannot become integers",
            why="\n".join([*wrong[:MOST], f"and {len(wrong) - MOST} more"] if len(wrong) > MOST else wrong),
            hint="each QuantizeLinear needs DequantizeLinear after it, with the same constant scale and zero point",
        )


def _takers(model: ModelProto) -> Mapping[str, list[NodeProto]]:
    takers: dict[str, list[NodeProto]] = defaultdict(list)
    for node in model.graph.node:
        for name in dict.fromkeys(node.input):
            takers[name].append(node)
    return takers


def _wrong(node: NodeProto, weights: Mapping[str, TensorProto], takers: Mapping[str, list[NodeProto]]) -> Iterator[str]:
    for name in node.input[1:]:
        if name and name not in weights:
            yield f"{name} is computed when the model runs"
    if node.input[1] in weights:
        scale = numpy_helper.to_array(weights[node.input[1]])
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            yield f"its scale {node.input[1]} is not above zero everywhere"
        weight = weights.get(node.input[0])
        axis = _axis(node)
        if scale.ndim == 1 and scale.size > 1 and weight is not None and weight.dims[axis] != scale.size:
            yield f"{scale.size} scales for axis {axis} of {node.input[0]}, which has {weight.dims[axis]}"
    for taker in _ends(node.output[0], takers) if node.op_type == QUANTIZE else []:
        if taker.op_type != DEQUANTIZE:
            yield f"its integers go into {taker.op_type} {taker.name or taker.output[0]}"
        elif not _same(node, taker, weights):
            yield f"{taker.name or taker.output[0]} takes another scale, zero point or axis"


def _ends(integers: str, takers: Mapping[str, list[NodeProto]]) -> Iterator[NodeProto]:
    """What takes integers, as they are or moved and cut off."""
    for taker in takers[integers]:
        if taker.op_type in KEEPING and taker.input[0] == integers:
            yield from _ends(taker.output[0], takers)
        else:
            yield taker


def _axis(node: NodeProto) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)


def _same(one: NodeProto, other: NodeProto, weights: Mapping[str, TensorProto]) -> bool:
    """Whether two nodes have the same scales, zero points and integers; an axis counts where there are several."""
    if one.input[1:] == other.input[1:] and _axis(one) == _axis(other):
        return True
    ours, others = (_quantization(node, weights) for node in (one, other))
    return ours is not None and ours == others


def _quantization(node: NodeProto, weights: Mapping[str, TensorProto]) -> tuple[object, ...] | None:
    if any(name and name not in weights for name in node.input[1:]):
        return None
    scale = numpy_helper.to_array(weights[node.input[1]])
    if len(node.input) > ZERO_POINT and node.input[ZERO_POINT]:
        tensor = weights[node.input[ZERO_POINT]]
        zero = (tensor.data_type, numpy_helper.to_array(tensor).ravel().tolist())
    else:
        zero = (TensorProto.UINT8, [0] * scale.size)  # as the standard has it
    return scale.ravel().tolist(), zero, _axis(node) if scale.size > 1 else None


def steps_of(model: ModelProto) -> dict[str, float]:
    """The largest step between two values of each output that is rounded."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    outputs = {value.name for value in model.graph.output}
    rounding = [node for node in model.graph.node if node.op_type == DEQUANTIZE and node.output[0] in outputs]
    return {node.output[0]: float(numpy_helper.to_array(weights[node.input[1]]).max()) for node in rounding}


def in_float(model: ModelProto) -> list[str]:
    """Names of the products that ONNX Runtime has left in float in a model that it has optimized."""
    return [node.name or node.output[0] for node in model.graph.node if node.op_type in IN_FLOAT]
