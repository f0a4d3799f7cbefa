"""Nodes that no range of 8 bits can serve: attention masks and infinite values pass through them.

A mask adds a very low number to the scores of hidden keys. An integer range that holds this number rounds every other
score to the same value, and an infinite range has no scale at all. Such nodes stay in float.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto, TensorProto, helper

from orun.stages._graph.masked_rows import HIDDEN, OPERATORS

if TYPE_CHECKING:
    from onnx import NodeProto

    from orun.measure.dataset import Dataset

BEYOND = 1e30  # no value that is computed with is as large
MATRIX = 2  # axes that a weight has at least

Ranges = Mapping[str, tuple[float, float]]


def mask_nodes(model: ModelProto, dataset: Dataset) -> list[NodeProto]:
    """Return the nodes that take or yield values of masks, or infinite values; those with weights excepted.

    Args:
        model: whole in memory, the types of its values declared.
        dataset: typical examples.
    """
    ranges = _ranges(model, dataset)
    carried = {name for name, bounds in ranges.items() if not _finite(bounds)} | _masks(model, ranges)
    weights = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) >= MATRIX}
    return [
        node
        for node in model.graph.node
        if not carried.isdisjoint((*node.input, *node.output)) and weights.isdisjoint(node.input)
    ]


def _finite(bounds: tuple[float, float]) -> bool:
    return all(abs(bound) < BEYOND for bound in bounds)  # NaN is not


def _masks(model: ModelProto, ranges: Ranges) -> set[str]:
    """Values that hide scores: those that a softmax or an attention takes, and what these are computed from."""
    makers = {name: node for node in model.graph.node for name in node.output}
    found: set[str] = set()
    waiting = list(_scores(model))
    while waiting:
        name = waiting.pop()
        low, high = ranges.get(name, (0.0, 0.0))
        if name in found or (low > HIDDEN and high < -HIDDEN):
            continue
        found.add(name)
        waiting += makers[name].input if name in makers else ()
    return found


def _scores(model: ModelProto) -> Iterator[str]:
    """What each softmax takes, and what is added to the scores of each attention."""
    for node in model.graph.node:
        operator = OPERATORS.get((node.domain.removeprefix("ai.onnx"), node.op_type))
        if node.op_type == "Softmax":
            yield node.input[0]
        elif operator is not None and operator.bias < len(node.input):
            yield node.input[operator.bias]


def _ranges(model: ModelProto, dataset: Dataset) -> dict[str, tuple[float, float]]:
    """The least and the largest value of each float32 value that nodes yield, over the dataset."""
    from orun.stages.quantize._calibration import values_of

    values = {one.name: one.type.tensor_type.elem_type for one in (*model.graph.value_info, *model.graph.output)}
    made = [name for node in model.graph.node for name in node.output if values.get(name) == TensorProto.FLOAT]
    copy = ModelProto()
    copy.CopyFrom(model)
    ends = {name: (f"{name}/least", f"{name}/most") for name in made}
    for name, pair in ends.items():
        for kind, output in zip(("ReduceMin", "ReduceMax"), pair, strict=True):
            copy.graph.node.append(helper.make_node(kind, [name], [output], keepdims=0))
    found: dict[str, tuple[float, float]] = {}
    for seen in values_of(copy, [output for pair in ends.values() for output in pair], dataset):
        for name, (least, most) in ends.items():
            low, high = found.get(name, (np.inf, -np.inf))
            found[name] = float(np.minimum(low, seen[least])), float(np.maximum(high, seen[most]))
    return found
