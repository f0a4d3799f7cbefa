"""8-bit floats in place of 8-bit integers, with the ranges that ONNX Runtime's quantizer found for the integers.

ONNX Runtime's own method, `CalibrationMethod.Distribution`, cuts off values beyond 4.5 standard deviations. It also
removes a Relu before a rounded value, as if zero were the least of the floats, as of 1.31.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from orun.core.targets import Target
from orun.stages._graph.domains import find_standard_opset
from orun.stages._graph.io import load_graph
from orun.stages._graph.nodes import attribute, set_items
from orun.stages._graph.plain import hoist
from orun.stages.contract import Context
from orun.stages.quantize._pairs import DEQUANTIZE, INTEGERS, QUANTIZE

NAME = "float8e4m3fn"
SINCE_OPSET = 19
LARGEST = 448.0  # of float8e4m3fn
HALF_RANGE = 127  # steps of int8 on each side of a symmetric range
OPERATORS = ("Conv", "Gemm", "MatMul")  # operators that accelerators compute in 8-bit floats
# Only the inputs of operators are rounded, and a Relu before them stays.
QUANTIZER_OPTIONS = {"OpTypesToExcludeOutputQuantization": [*OPERATORS], "QDQKeepRemovableActivations": True}
# At this level ONNX Runtime does not fuse pairs into integer operators.
UNFUSED = Target("cpu", session={"graph_optimization_level": "basic"})


def require_float8(
    context: Context, types: tuple[str, str], method: str, op_types: Collection[str], conflicts: Mapping[str, bool]
) -> None:
    """Refuse parameters that 8-bit floats do not support.

    `conflicts` tells by name whether each of some further settings is made.
    """
    if types[0] != types[1]:
        raise context.failed(
            f"{NAME} must be the type of both weights and activations", hint="set both types, or neither"
        )
    if method == "distribution":
        raise context.failed(
            f"`method: distribution` cannot be combined with {NAME}",
            why="ONNX Runtime's Distribution cuts off values beyond 4.5 standard deviations, and loses a Relu before a "
            "rounded value",
            hint="`method: minmax` keeps all values; `percentile` cuts off outliers",
        )
    conflicts = {**conflicts, "op_types": bool(set(op_types) - set(OPERATORS))}
    if wrong := [name for name, is_set in conflicts.items() if is_set]:
        why = f"it is for pairs around {', '.join(OPERATORS)}, with `minmax` or `percentile`"
        raise context.failed(f"`{wrong[0]}` cannot be combined with {NAME}", why=why)
    version = find_standard_opset(load_graph(context.model()))
    if version < SINCE_OPSET:
        raise context.failed(
            f"{NAME} needs operator set {SINCE_OPSET}, and the model has {version}",
            hint=f"put `convert/opset` with `version: {SINCE_OPSET}` before it",
        )


def convert_to_float8(model: ModelProto, before: ModelProto) -> None:
    """Turn pairs of int8 into pairs of float8e4m3fn, in place: the largest magnitude becomes 448.

    The integers of the pairs are int8 with a zero point of 0. The float model before is whole in memory and is changed;
    pairs that it has already stay as they are.
    """
    hoist(before)
    weights = {tensor.name: tensor for tensor in before.graph.initializer}
    known = {name for node in before.graph.node for name in node.output if node.op_type in (QUANTIZE, DEQUANTIZE)}
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    int8 = {tensor.name for tensor in graph.initializer if tensor.data_type == TensorProto.INT8}
    pairs = [
        node
        for node in graph.node
        if node.op_type in (QUANTIZE, DEQUANTIZE) and node.output[0] not in known and int8.intersection(node.input[2:])
    ]
    for node in pairs:
        if node.op_type == DEQUANTIZE and node.input[0] in stored:
            _store(stored, node, numpy_helper.to_array(weights[node.input[0].removesuffix(INTEGERS)]))
    activations = {node.input[1] for node in pairs if node.op_type == QUANTIZE}
    for scale in activations:
        values = numpy_helper.to_array(stored[scale]) * np.float32(HALF_RANGE / LARGEST)
        stored[scale].CopyFrom(numpy_helper.from_array(values, scale))
    for zero in {node.input[2] for node in pairs}:
        count = int(np.prod(stored[zero].dims))
        stored[zero].CopyFrom(_build_tensor(zero, stored[zero].dims, bytes(count)))
    quantized = {name for node in pairs for name in node.output if node.op_type == QUANTIZE}
    set_items(graph.value_info, (value for value in graph.value_info if value.name not in quantized))
    _keep_relu(model, {node.input[0] for node in pairs if node.op_type == QUANTIZE})


def _store(stored: Mapping[str, TensorProto], node: NodeProto, weight: NDArray[Any]) -> None:
    """Round a weight to 8-bit floats, with one scale or one for each channel, as its integers had."""
    scale = stored[node.input[1]]
    axis = attribute(node, "axis", 1) if scale.dims else None
    reduced = tuple(place for place in range(weight.ndim) if axis is None or place != axis % weight.ndim)
    largest = np.abs(weight).max(axis=reduced, keepdims=True)
    steps = np.where(largest > 0, largest / LARGEST, 1).astype(np.float32)
    scale.CopyFrom(numpy_helper.from_array(steps.reshape(tuple(scale.dims)), scale.name))
    values = (weight / steps).astype(ml_dtypes.float8_e4m3fn)
    name = node.input[0]
    stored[name].CopyFrom(_build_tensor(name, weight.shape, values.tobytes()))


def _build_tensor(name: str, dims: Sequence[int], data: bytes) -> TensorProto:
    return helper.make_tensor(name, TensorProto.FLOAT8E4M3FN, tuple(dims), data, raw=True)


def _keep_relu(model: ModelProto, rounded: set[str]) -> None:
    """Write a Relu before a rounded value as Max: ONNX Runtime would remove the Relu, whatever the rounded type."""
    graph, zero = model.graph, "float8/zero"
    relus = [node for node in graph.node if node.op_type == "Relu" and node.output[0] in rounded]
    for node in relus:
        node.op_type = "Max"
        node.input.append(zero)
    if relus:
        graph.initializer.append(numpy_helper.from_array(np.array(0, np.float32), zero))
