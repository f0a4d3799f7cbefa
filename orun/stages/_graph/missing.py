"""Check for NaN in a dataset, for models that need numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from orun.measure.accuracy.names import format_title
from orun.stages._graph.io import load_graph
from orun.stages.contract import Context

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

    from orun.measure.dataset import Dataset, Values

QUANTIZERS = frozenset({"QuantizeLinear", "DynamicQuantizeLinear"})  # they turn NaN into an integer
RECURRENT = frozenset({"GRU", "LSTM", "DynamicQuantizeLSTM"})  # ONNX Runtime's clip NaN to a number, as of 1.31
# Operators whose outputs hold no NaN: trees have a branch for it, encoders a class or none, and comparisons an answer.
ANSWERING = frozenset(
    {"OneHotEncoder", "Shape", "Size", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"}
)
TESTS = frozenset({"Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"})
CHOOSING = frozenset({"Compress", "GatherND", "ScatterElements", "ScatterND", "Where"})  # they replace NaN by a test
HINT = "put a value in its place, or leave the example out, in what makes the dataset"


def require_ranges(context: Context, dataset: Dataset) -> None:
    """Refuse calibration examples without a range of values.

    Raises:
        StageFailed: when an example holds NaN, and the model does not replace it.
    """
    _refuse(context, dataset, "model", None, "values with NaN among them have no range")


def require_numbers(context: Context, dataset: Dataset) -> None:
    """Refuse examples with missing values that a model with integers or recurrent operators treats as numbers.

    Raises:
        StageFailed: when an example holds NaN, and a model of the stage turns it into a number without handling NaN.
    """
    why = (
        "it quantizes its values, and an integer cannot say that one is missing: the answer would be of another example"
    )
    clipped = "ONNX Runtime's recurrent operators turn NaN into a number, where the framework answers NaN"
    for role in context.inputs:
        _refuse(context, dataset, role, QUANTIZERS, why)
        _refuse(context, dataset, role, RECURRENT, clipped)


def _refuse(context: Context, dataset: Dataset, role: str, harmed: frozenset[str] | None, why: str) -> None:
    """Refuse NaN in an input of a model if it reaches one of the harmed operators; without these, if an output."""
    missing = find_nan_inputs(dataset.inputs)
    if not missing:
        return
    from onnx import inliner

    graph = inliner.inline_local_functions(load_graph(context.model(role))).graph
    for name, (example, examples) in missing.items():
        values, nodes = trace_missing(graph, {name} & {value.name for value in graph.input})
        operators = {node.op_type for node in nodes}
        reached = values & {value.name for value in graph.output} if harmed is None else harmed & operators
        if reached:
            raise context.failed(
                f"example {example} of the {len(dataset)} used holds NaN in {name!r}, "
                f"which the {format_title(role)} treats as a number",
                why=f"{why}\n{examples} of {len(dataset)} examples hold one",
                hint=HINT,
            )


def trace_missing(graph: GraphProto, inputs: Collection[str]) -> tuple[set[str], list[NodeProto]]:
    """Follow NaN from inputs of a graph without functions to the operators that replace it or answer it.

    Returns:
        The values of the graph that may hold NaN, and the nodes that read one of them.
    """
    missing, tests = set(inputs), set[str]()
    nodes = []
    for node in graph.node:
        reads = {name for item in (node, *_iter_inner_nodes(node)) for name in item.input if name}
        is_chosen = not tests.isdisjoint(reads)
        if missing.isdisjoint(reads):
            tests.update(node.output if is_chosen else ())
            continue
        nodes.append(node)
        if node.op_type in TESTS:
            tests.update(node.output)
        elif not (_replaces(node) or (is_chosen and node.op_type in CHOOSING)):
            missing.update(node.output)
    missing.discard("")  # of outputs that a node leaves out
    return missing, nodes


def _replaces(node: NodeProto) -> bool:
    """Return whether a node yields numbers for NaN; one with inner graphs does if these test for it."""
    if node.op_type == "Imputer":
        return any(item.name == "replaced_value_float" and math.isnan(item.f) for item in node.attribute)
    return node.op_type in ANSWERING or any(
        item.op_type == "IsNaN" or _replaces(item) for item in _iter_inner_nodes(node)
    )


def _iter_inner_nodes(node: NodeProto) -> Iterator[NodeProto]:
    for attribute in node.attribute:
        for inner in (item for graph in (attribute.g, *attribute.graphs) for item in graph.node):
            yield inner
            yield from _iter_inner_nodes(inner)


def find_nan_inputs(inputs: Mapping[str, Values]) -> dict[str, tuple[int, int]]:
    """Return the inputs that hold NaN, with the first such example and the number of them."""
    import numpy as np

    result = {}
    for name, values in inputs.items():
        if isinstance(values, np.ndarray):
            floats = values.dtype.kind == "f"
            places = np.flatnonzero(np.isnan(values).reshape(len(values), -1).any(axis=1)).tolist() if floats else []
        else:
            places = [place for place, value in enumerate(values) if value.dtype.kind == "f" and np.isnan(value).any()]
        if places:
            result[name] = (places[0], len(places))
    return result
