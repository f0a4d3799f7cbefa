"""Pairs of QuantizeLinear and DequantizeLinear that are taken out again, of tensors that are to stay float."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orun.stages.contract import Context
from orun.stages.quantize._fake_quantize import DEQUANTIZE, QUANTIZE

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

# What ONNX Runtime's quantizer appends to the names of tensors: of an output of the graph, and of a weight.
BEFORE, INTEGERS = "_QuantizeLinear_Input", "_quantized"


def leave(context: Context, path: Path, result: ModelProto, include: Sequence[str], exclude: Sequence[str]) -> None:
    """Leave the tensors in float that are not to be rounded.

    Args:
        context: of the stage.
        path: of the float model.
        result: made of it.
        include: names of the only tensors to round; all when empty.
        exclude: names of those to leave.
    """
    from orun.stages._graph.io import load

    def stays(name: str) -> bool:
        return name in exclude or bool(include and name not in include)

    weights = {tensor.name: tensor for tensor in load(path).graph.initializer}
    left = leave_in_float(result, weights, stays)
    context.log.info("%d tensors stay float:\n  %s", len(left), "\n  ".join(left))


def leave_in_float(
    model: ModelProto, weights: Mapping[str, TensorProto], stays: Callable[[str], bool]
) -> tuple[str, ...]:
    """Let tensors be float again, in place.

    Args:
        model: with pairs, as ONNX Runtime's quantizer leaves it.
        weights: of the float model, by name.
        stays: whether the tensor of that name is to be float.

    Returns:
        The names of those that were not, in the order of the graph.
    """
    graph = model.graph
    outputs = {value.name for value in graph.output}
    stored = {tensor.name for tensor in graph.initializer}
    readers: dict[str, list[NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
    called: dict[str, str] = {}  # what there was, and what takes its place
    gone: dict[str, NodeProto] = {}  # by what they yield
    found: dict[str, None] = {}
    for node in graph.node:
        source = node.input[0] if node.op_type in (QUANTIZE, DEQUANTIZE) else ""
        if node.op_type == QUANTIZE and (source in called or stays(source.removesuffix(BEFORE))):
            gone[node.output[0]] = node
            found.setdefault(called.get(source, source).removesuffix(BEFORE))
            for reader in readers[node.output[0]]:
                gone[reader.output[0]] = reader
                was, now = reader.output[0], called.get(source, source)
                called.update({now: was} if was in outputs else {was: now})
        elif source in stored and source.endswith(INTEGERS) and stays(name := source.removesuffix(INTEGERS)):
            gone[node.output[0]], called[node.output[0]] = node, name
            found.setdefault(name)
            graph.initializer.append(weights[name])
    kept = [node for node in graph.node if node.output[0] not in gone]
    for node in kept:
        node.input[:] = [called.get(name, name) for name in node.input]
        node.output[:] = [called.get(name, name) for name in node.output]
    del graph.node[:]
    graph.node.extend(kept)
    _drop_unread(model, {name for node in gone.values() for name in node.input} & stored)
    return tuple(found)


def _drop_unread(model: ModelProto, names: set[str]) -> None:
    """Drop stored tensors of these names that no node reads."""
    unread = names - {name for node in model.graph.node for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in unread]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
