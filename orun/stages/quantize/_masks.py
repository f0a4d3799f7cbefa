"""Nodes that stay in float for the values that pass through: attention masks, infinite, missing or unchanging ones.

A mask adds a very low number to the scores of hidden keys. An integer range that holds this number rounds every other
score to the same value, and an infinite range has no scale at all. The empty range of an input that never changes, such
as a state at the start of a stream, says nothing of its other values. Missing values have no range until the model
replaces them. Such nodes stay in float.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

from orun.measure.dataset import Dataset
from orun.stages._graph.inner_values import iter_values
from orun.stages._graph.masked_rows import HIDDEN, find_operator
from orun.stages._graph.missing import find_nan_inputs, trace_missing
from orun.stages.contract import Context
from orun.stages.datasets import find_constants
from orun.text.lists import join_few

INFINITE = 1e30  # magnitudes from here on count as infinite
MATRIX = 2  # a weight has at least two axes
MOST_NAMED = 8  # nodes that a note names

Ranges = Mapping[str, tuple[float, float]]


def exclude_masks(
    context: Context, model: ModelProto, dataset: Dataset, is_selected: Callable[[NodeProto], bool]
) -> tuple[str, ...]:
    """Return the names of the nodes that must stay in float, and note those that would have been quantized.

    The model is whole in memory, the types of its values declared. Such nodes without a name get one.
    """
    ranges = _measure_ranges(model, dataset)
    masked = find_mask_nodes(model, ranges)
    constant = find_constant_nodes(model, dataset, ranges)
    _, missing = trace_missing(model.graph, find_nan_inputs(dataset.inputs))
    for node in (*masked, *constant, *missing):
        node.name = node.name or node.output[0]
    _note_nodes(context, "attention masks or infinite values pass", filter(is_selected, masked))
    _note_nodes(context, "values of inputs that never change pass", filter(is_selected, constant))
    _note_nodes(context, "missing values pass", filter(is_selected, missing))
    return tuple(node.name for node in (*masked, *constant, *missing))


def _note_nodes(context: Context, reason: str, nodes: Iterable[NodeProto]) -> None:
    names = [node.name for node in nodes if node.op_type in QDQRegistry or node.op_type in QLinearOpsRegistry]
    if names:
        stay = f"{len(names)} nodes stay" if len(names) > 1 else "1 node stays"
        context.log.info("%s in float, as %s through:\n  %s", stay, reason, "\n  ".join(names))
        named = join_few(names, MOST_NAMED) + (", which the log names" if len(names) > MOST_NAMED else "")
        context.note(f"{stay} in float, because {reason} through {'them' if len(names) > 1 else 'it'}: {named}")


def find_mask_nodes(model: ModelProto, ranges: Ranges) -> list[NodeProto]:
    """Return the nodes without weights that read or yield values of masks, or infinite values."""
    infinite = {name for name, bounds in ranges.items() if not all(abs(bound) < INFINITE for bound in bounds)}  # or NaN
    masked = infinite | _find_masks(model, ranges)
    weights = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) >= MATRIX}
    return [
        node
        for node in model.graph.node
        if not masked.isdisjoint((*node.input, *node.output)) and weights.isdisjoint(node.input)
    ]


def find_constant_nodes(model: ModelProto, dataset: Dataset, ranges: Ranges) -> list[NodeProto]:
    """Return the nodes that read an input of real numbers that never changes, as it is or moved by such nodes.

    ONNX Runtime gives an empty range a scale of 1, by which other values of the input are rounded to whole numbers.
    """
    constant = {*find_constants(dataset.inputs)}
    nodes = []
    for node in model.graph.node:
        if not constant.isdisjoint(node.input):
            nodes.append(node)
            constant.update(name for name in node.output if name in ranges and ranges[name][0] == ranges[name][1])
    return nodes


def _find_masks(model: ModelProto, ranges: Ranges) -> set[str]:
    """Return values that hide scores: inputs of a softmax or an attention, and the values they are computed from."""
    makers = {name: node for node in model.graph.node for name in node.output}
    masks: set[str] = set()
    waiting = list(_iter_scores(model))
    while waiting:
        name = waiting.pop()
        low, high = ranges.get(name, (0.0, 0.0))
        if name in masks or (low > HIDDEN and high < -HIDDEN):
            continue
        masks.add(name)
        waiting += makers[name].input if name in makers else ()
    return masks


def _iter_scores(model: ModelProto) -> Iterator[str]:
    """Yield the input of each softmax, and the bias that is added to the scores of each attention."""
    for node in model.graph.node:
        operator = find_operator(node)
        if node.op_type == "Softmax":
            yield node.input[0]
        elif operator is not None and operator.bias < len(node.input):
            yield node.input[operator.bias]


def _measure_ranges(model: ModelProto, dataset: Dataset) -> dict[str, tuple[float, float]]:
    """Return the minimum and maximum of each float32 value that nodes yield, over the dataset."""
    types = {value.name: value.type.tensor_type.elem_type for value in (*model.graph.value_info, *model.graph.output)}
    names = [name for node in model.graph.node for name in node.output if types.get(name) == TensorProto.FLOAT]
    copy = ModelProto()
    copy.CopyFrom(model)
    ends = {name: (f"{name}/least", f"{name}/most") for name in names}
    for name, pair in ends.items():
        for kind, output in zip(("ReduceMin", "ReduceMax"), pair, strict=True):
            copy.graph.node.append(helper.make_node(kind, [name], [output], keepdims=0))
    ranges: dict[str, tuple[float, float]] = {}
    for seen in iter_values(copy, [output for pair in ends.values() for output in pair], dataset):
        for name, (least, most) in ends.items():
            low, high = ranges.get(name, (np.inf, -np.inf))
            ranges[name] = float(np.minimum(low, seen[least])), float(np.maximum(high, seen[most]))
    return ranges
