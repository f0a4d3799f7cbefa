"""Attention rows that see nothing: every key is hidden from them, so that their result is arbitrary.

Each runtime and precision computes something else there: the mean of all values, zero, NaN. To find out which outputs
depend on such rows, a copy of the model yields a given number for them. Outputs that change with the number are
arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, shape_inference

from orun.core.targets import Target
from orun.measure.dataset import Array
from orun.stages._graph.domains import find_standard_opset, normalize_domain
from orun.stages._graph.io import load, load_graph, save
from orun.stages._graph.nodes import attribute, set_items
from orun.stages._graph.ort_graph import add_types
from orun.stages._graph.sessions import Feed, open_model

HIDDEN = -5e3  # lower scores belong to hidden keys: masks add at least -1e4, and no real score is as low
FILL = "orun_fill"  # input of the copy: the result of rows that see nothing
LAST = (-1, 3)  # axes of a Softmax over keys
HEADS = 4  # axes of scores: batch, heads, queries, keys
LENGTHS, QUERIES_TOO = 1, 3  # number of axes of a mask of text lengths, none of them 0, and of a mask of keys by query
AXES_ARE_INPUTS, REDUCTIONS_TAKE_AXES = 13, 18  # operator sets
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Operator:
    """Operator that computes a whole attention.

    Attributes:
        bias: index of the input that is added to the scores, or of a boolean mask.
        mask: index of the input that masks keys; None for none.
        causal: attribute that hides later keys from a query; None if the operator always does.
    """

    bias: int
    mask: int | None
    causal: str | None


OPERATORS = {
    ("", "Attention"): Operator(3, None, "is_causal"),
    (MICROSOFT, "Attention"): Operator(5, 3, "unidirectional"),
    (MICROSOFT, "MultiHeadAttention"): Operator(5, 4, "unidirectional"),
    (MICROSOFT, "GroupQueryAttention"): Operator(10, None, None),
}


def find_operator(node: NodeProto) -> Operator | None:
    """Return what is known of a node that computes a whole attention; None for other nodes."""
    return OPERATORS.get((normalize_domain(node.domain), node.op_type))


def open_filled(
    path: Path, outputs: Sequence[str], target: Target | None
) -> Callable[[Feed, float], Sequence[Array]] | None:
    """Return a copy of the model as a function of its inputs and of the result of rows that see nothing.

    It is None when no node of the model's main graph computes attention.
    """
    ranks = _infer_ranks(path)
    model = add_types(load(path))
    if not fill(model, ranks):
        return None
    with TemporaryDirectory(dir=".") as folder:
        copy = Path(folder, "filled.onnx")
        save(model, copy, external=True)
        run = open_model(copy, outputs, target)
    return lambda feed, number: run({**feed, FILL: np.array(number, np.float32)})


def _infer_ranks(path: Path) -> dict[str, int]:
    """Return the number of axes of values of the main graph, as far as ONNX can infer it."""
    graph = shape_inference.infer_shapes(load_graph(path)).graph
    values = [*graph.value_info, *graph.input, *graph.output]
    shapes = {value.name: value.type.tensor_type for value in values if value.type.tensor_type.HasField("shape")}
    return {name: len(tensor.shape.dim) for name, tensor in shapes.items()}


def fill(model: ModelProto, ranks: Mapping[str, int]) -> int:
    """Let rows that see nothing yield the new input `FILL`, in place; return the number of attentions.

    The element type of every value of the main graph must be declared. `ranks` has numbers of axes, as far as known.
    """
    graph = model.graph
    editor = _Editor(model, ranks)
    set_items(graph.node, (item for node in graph.node for item in (node, *editor.list_following(node))))
    if editor.count:
        graph.input.append(helper.make_tensor_value_info(FILL, TensorProto.FLOAT, []))
    return editor.count


class _Editor:
    """Maker of the nodes that follow each attention.

    Attributes:
        count: number of attentions so far.
    """

    def __init__(self, model: ModelProto, ranks: Mapping[str, int]) -> None:
        self.count = 0
        values = (*model.graph.value_info, *model.graph.input, *model.graph.output)
        self._types = {value.name: value.type.tensor_type.elem_type for value in values}
        self._types |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
        self._ranks = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer} | dict(ranks)
        self._version = find_standard_opset(model)
        self._nodes: list[NodeProto] = []

    def list_following(self, node: NodeProto) -> list[NodeProto]:
        """Return the nodes that follow an attention and take over its first output; none for other nodes."""
        self._nodes = []
        operator = find_operator(node)
        name, seen = (node.output[0], f"{FILL}/{self.count}/seen") if node.output else ("", "")
        blind = ""
        default = -1 if self._version >= AXES_ARE_INPUTS else 1
        if node.op_type == "Softmax" and attribute(node, "axis", default) in LAST:
            blind = self._name_hidden_rows(self._add_cast(node.input[0]), axes=[-1], keep=True)
        elif operator is not None and self._version >= AXES_ARE_INPUTS:
            blind = self._add_blind(node, operator, seen)
        if not blind:
            return []
        node.output[0] = seen
        number = self._add_node("Cast", [FILL], to=self._types[name])
        self._add_node("Where", [blind, number, seen], name=name)
        self.count += 1
        return self._nodes

    def _add_blind(self, node: NodeProto, operator: Operator, result: str) -> str:
        """Name a boolean for each row of an operator's result, `[batch, queries, 1]`; empty if nothing is hidden."""
        bias, mask = (_find_input(node, place) for place in (operator.bias, operator.mask))
        four = self._ranks.get(node.output[0]) == HEADS
        scores = [self._add_bias(bias)] if bias else []
        if mask and self._ranks.get(mask, 2) > LENGTHS:
            scores.append(self._mask(mask))
        if not scores:
            return ""
        if operator.causal is None or attribute(node, operator.causal, 0):
            scores.append(self._add_later(scores[0], result, queries=2 if four else 1))
        least = self._add_node("Min", scores)
        if four:
            return self._name_hidden_rows(least, axes=[-1], keep=True)
        return self._add_node(
            "Unsqueeze", [self._name_hidden_rows(least, axes=[1, -1], keep=False), self._add_constant([2])]
        )

    def _add_bias(self, bias: str) -> str:
        """Name the scores that a bias adds, `[batch, heads, queries, keys]`; a boolean shows or hides."""
        scores = self._choose(bias) if self._types.get(bias) == TensorProto.BOOL else self._add_cast(bias)
        return self._add_node("Add", [scores, self._add_constant(np.zeros((1,) * HEADS, np.float32))])

    def _mask(self, mask: str) -> str:
        """Name the scores of a mask of keys, `[batch, keys]` or `[batch, queries, keys]`."""
        axes = [1] if self._ranks.get(mask) == QUERIES_TOO else [1, 2]
        shown = self._add_node("Cast", [mask], to=TensorProto.BOOL)
        return self._choose(self._add_node("Unsqueeze", [shown, self._add_constant(axes)]))

    def _add_later(self, scores: str, result: str, queries: int) -> str:
        """Name scores that hide the keys after each query, `[queries, keys]`; the last query sees the last key.

        `scores` are `[batch, heads, queries, keys]`; `queries` is the axis of the queries in `result`.
        """
        zero, step = self._add_constant(0), self._add_constant(1)
        keys = self._add_node("Gather", [self._add_node("Shape", [scores]), self._add_constant(3)])
        count = self._add_node("Gather", [self._add_node("Shape", [result]), self._add_constant(queries)])
        places = self._add_node("Range", [self._add_node("Sub", [keys, count]), keys, step])
        column = self._add_node("Unsqueeze", [places, self._add_constant([1])])
        return self._choose(self._add_node("LessOrEqual", [self._add_node("Range", [zero, keys, step]), column]))

    def _choose(self, shown: str) -> str:
        """Name scores that are 0 where a boolean is true, and hide where it is not."""
        return self._add_node(
            "Where", [shown, self._add_constant(np.float32(0)), self._add_constant(np.float32(2 * HIDDEN))]
        )

    def _name_hidden_rows(self, scores: str, *, axes: list[int], keep: bool) -> str:
        """Name a boolean: whether every key along these axes is hidden."""
        if self._version >= REDUCTIONS_TAKE_AXES:
            most = self._add_node("ReduceMax", [scores, self._add_constant(axes)], keepdims=int(keep))
        else:
            most = self._add_node("ReduceMax", [scores], axes=axes, keepdims=int(keep))
        return self._add_node("Less", [most, self._add_constant(np.float32(HIDDEN))])

    def _add_cast(self, value: str) -> str:
        return self._add_node("Cast", [value], to=TensorProto.FLOAT)

    def _add_constant(self, value: int | list[int] | np.float32 | Array) -> str:
        return self._add_node("Constant", [], value=numpy_helper.from_array(np.asarray(value)))

    def _add_node(self, kind: str, inputs: list[str], name: str = "", **attributes: Any) -> str:
        """Make a node that yields one value; return the name of the value."""
        output = name or f"{FILL}/{self.count}/{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output


def _find_input(node: NodeProto, place: int | None) -> str:
    return node.input[place] if place is not None and place < len(node.input) else ""
