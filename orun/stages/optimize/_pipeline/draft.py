"""Model under change: new nodes before its inputs and after its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from orun.measure.extension_operators import DOMAIN
from orun.stages._graph.domains import find_standard_opset
from orun.stages._graph.io import iter_graphs, list_input_names
from orun.stages._graph.names import rename_values
from orun.stages._graph.nodes import set_items
from orun.stages.contract import Context
from orun.stages.name_checks import require_known

LEAST_OPSET = 13  # from which axes are inputs of the reductions


class Nodes:
    """Nodes of one step, in order, whose names begin with that of the step."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.nodes: list[NodeProto] = []

    def add(self, operator: str, *inputs: str, outputs: Sequence[str] = (), domain: str = "", **attributes: Any) -> str:
        """Add a node; return its first output, which gets the name of the node unless `outputs` names it."""
        name = f"{self.step}/{operator}_{len(self.nodes)}"
        named = list(outputs) or [name]
        self.nodes.append(helper.make_node(operator, inputs, named, name=name, domain=domain, **attributes))
        return named[0]

    def add_constant(self, value: NDArray[Any]) -> str:
        """Add a constant."""
        return self.add("Constant", value=numpy_helper.from_array(value))


@dataclass
class Draft:
    """A model and the stage that changes it."""

    context: Context
    model: ModelProto

    def begin_step(self, step: str, least: int = LEAST_OPSET) -> Nodes:
        """Return the nodes of a new step, whose operators need an operator set of at least `least`.

        Raises:
            StageFailed: when the model has values of that step already, or its operators are too old.
        """
        names = {
            name for graph in iter_graphs(self.model) for node in graph.node for name in (*node.input, *node.output)
        }
        if any(name.startswith(f"{step}/") for name in names):
            raise self.context.failed(f"the model has a step {step!r} already")
        if (opset := find_standard_opset(self.model)) < least:
            raise self.context.failed(
                f"the model is of operator set {opset}, and this needs {least}",
                hint=f"put a stage of `convert/opset` with `version: {least}` before this one",
            )
        return Nodes(step)

    def require_input(self, name: str) -> ValueInfoProto:
        """Return an input of the model."""
        names = list_input_names(self.model)
        require_known("input", [name], names)
        inputs: dict[str, ValueInfoProto] = {value.name: value for value in self.model.graph.input}
        return inputs[name]

    def require_output(self, name: str | None) -> ValueInfoProto:
        """Return an output of the model; the only one when no name is given."""
        outputs: dict[str, ValueInfoProto] = {value.name: value for value in self.model.graph.output}
        if name is None and len(outputs) > 1:
            raise self.context.failed(
                f"the model has {len(outputs)} outputs", hint=f"say which in `output`: {', '.join(outputs)}"
            )
        chosen = next(iter(outputs)) if name is None else name
        require_known("output", [chosen], outputs)
        if all(chosen not in node.output for node in self.model.graph.node):
            raise self.context.failed(f"output {chosen!r} is an input or a weight, and no node yields it")
        return outputs[chosen]

    def replace_inputs(self, names: Sequence[str], new: ValueInfoProto, nodes: Nodes) -> None:
        """Let nodes compute some inputs of the model from one new input."""
        graph = self.model.graph
        if any(value.name == new.name for value in (*graph.input, *graph.output)):
            raise self.context.failed(
                f"the model has a value {new.name!r} already", hint="rename it: `rename` of `optimize/edit`"
            )
        place = min(number for number, value in enumerate(graph.input) if value.name in names)
        kept = [value for value in graph.input if value.name not in names]
        kept.insert(place, new)
        set_items(graph.input, kept)
        set_items(graph.node, (*nodes.nodes, *graph.node))
        if all(item.domain != DOMAIN for item in self.model.opset_import):
            self.model.opset_import.append(helper.make_opsetid(DOMAIN, 1))

    def take_output(self, name: str, nodes: Nodes) -> str:
        """Return the value of an output under another name, so that a new output may have its name."""
        inner = f"{nodes.step}/given"
        rename_values(self.model, {name: inner})
        return inner

    def replace_output(self, name: str, new: Sequence[ValueInfoProto], nodes: Nodes) -> None:
        """Let nodes compute new outputs in the place of one output of the model."""
        graph = self.model.graph
        kept = [item for value in graph.output for item in (new if value.name == name else [value])]
        used = {value.name for value in (*graph.input, *graph.output)} - {name}
        if clashing := {value.name for value in new} & used:
            raise self.context.failed(f"the model has an input or output {min(clashing)!r} already")
        set_items(graph.output, kept)
        graph.node.extend(nodes.nodes)
