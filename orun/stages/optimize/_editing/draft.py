"""Model under edit, with its input domain and its relation to the model before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from orun.errors import StageFailed
from orun.measure.dataset import Array
from orun.stages._graph.input_domain import InputDomain
from orun.stages._graph.names import make_unique
from orun.stages._graph.sessions import Feed
from orun.stages._graph.symbolic import infer_shapes
from orun.stages.contract import Context


@dataclass
class Draft:
    """Model under edit.

    Attributes:
        context: of the stage.
        model: the model.
        domain: its input domain.
        outputs: outputs that the model before it computes too, each with its name there.
        steps_back: from the inputs after each edit to those before it, oldest edit first.
        fixed_values: values of inputs that were constants, by name; the comparison uses them.
        sizes: sizes that dynamic axes had before; the comparison uses them.
        altered: names of the edits so far that may change what the model computes.
        reshaped: whether shapes of outputs must be inferred anew.
    """

    context: Context
    model: ir.Model
    domain: InputDomain
    outputs: dict[str, str]
    steps_back: list[Callable[[Feed], Feed]] = field(default_factory=list)
    fixed_values: dict[str, Array] = field(default_factory=dict)
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    altered: list[str] = field(default_factory=list)
    reshaped: bool = False

    @property
    def inputs(self) -> dict[str, ir.Value]:
        """Inputs by name, without weights, which are inputs too before IR version 4."""
        return {value.name or "": value for value in self.model.graph.inputs if not value.is_initializer()}

    def iter_values(self) -> Iterator[ir.Value]:
        """Yield every value that has a name, those of nested graphs included."""
        for graph in (self.model.graph, *self.model.graph.subgraphs()):
            yield from graph.inputs
            yield from (value for value in graph.initializers.values() if not value.is_graph_input())
            for node in graph:
                yield from (value for value in node.outputs if value.name)

    def list_names(self) -> set[str]:
        """Return the names of all values."""
        return {value.name or "" for value in self.iter_values()}

    def infer(self) -> None:
        """Infer types and shapes of inner values, as far as an inference can follow the model."""
        self.model = ir.from_proto(infer_shapes(self.context, ir.to_proto(self.model)))

    def failed(self, place: str, problem: str, *, why: str = "", hint: str = "") -> StageFailed:
        """Return the error of an edit, such as `edits[2].rename`."""
        return self.context.failed(f"{place}: {problem}", why=why, hint=hint)


class Prologue:
    """Nodes that compute in the model what an input was before the edit; they go before all others."""

    def __init__(self, draft: Draft, name: str) -> None:
        self._draft = draft
        self._name = name
        self._used = draft.list_names()
        self._nodes: list[ir.Node] = []

    def add_constant(self, array: Array) -> ir.Value:
        """Add a constant."""
        tensor = ir.tensor(array, name=make_unique(f"{self._name}_constant", self._used))
        value = ir.val(tensor.name, const_value=tensor)
        self._draft.model.graph.register_initializer(value)
        return value

    def add_node(self, op_type: str, operands: Sequence[ir.Value], **attributes: int) -> ir.Value:
        """Add a node, and return its result."""
        node = ir.node(op_type, operands, attributes, name=make_unique(f"{self._name}_{op_type}", self._used))
        node.outputs[0].name = make_unique(f"{self._name}_{op_type.lower()}", self._used)
        self._nodes.append(node)
        return node.outputs[0]

    def replace(self, value: ir.Value, result: ir.Value) -> None:
        """Insert the nodes, and let their result take the place of a value."""
        graph = self._draft.model.graph
        result.type, result.shape = value.type, value.shape
        value.replace_all_uses_with(result, replace_graph_outputs=True)
        if len(graph):
            graph.insert_before(graph[0], self._nodes)
        else:
            graph.extend(self._nodes)


def list_axes(value: ir.Value) -> list[int | str | None]:
    """Return the axes of a value: sizes, names, or None where neither is known."""
    return [axis if isinstance(axis, int) else axis.value for axis in value.shape or ()]
