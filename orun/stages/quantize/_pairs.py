"""Removal of QuantizeLinear and DequantizeLinear pairs from tensors that are to stay float."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from onnx import ModelProto, NodeProto, TensorProto

from orun.stages._graph.io import load
from orun.stages._graph.nodes import list_readers, set_items
from orun.stages.contract import Context
from orun.stages.quantize._fake_quantize import DEQUANTIZE, QUANTIZE

# Suffixes that ONNX Runtime's quantizer gives to the names of graph outputs and of weights.
BEFORE, INTEGERS = "_QuantizeLinear_Input", "_quantized"


def keep_in_float(
    context: Context, path: Path, result: ModelProto, include: Sequence[str], exclude: Sequence[str]
) -> None:
    """Keep tensors in float, in place, that are in `exclude`, or not in `include` if that is not empty."""

    def stays(name: str) -> bool:
        return name in exclude or bool(include and name not in include)

    weights = {tensor.name: tensor for tensor in load(path).graph.initializer}
    names = remove_pairs(result, weights, stays)
    context.log.info("%d tensors stay float:\n  %s", len(names), "\n  ".join(names))


def remove_pairs(
    model: ModelProto, weights: Mapping[str, TensorProto], stays: Callable[[str], bool]
) -> tuple[str, ...]:
    """Remove the pairs of some tensors, in place; return the names of those that had one, in the order of the graph."""
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
    return tuple(names)
