"""A model that computes each of many places as another model does, or does not, as inputs of it say.

It takes far longer to open a model than to run it. So one session tries all the places, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from orun.diagnosis.alignment import constants
from orun.diagnosis.patching import LOCAL, MARK, Elements, beside, in_order, join_operators, transplanted
from orun.diagnosis.segments import Segment
from orun.diagnosis.values import Array

SWITCH = "switch::"  # before the name of a tensor: the input that says whose nodes compute it


def switched(model: ModelProto, reference: ModelProto, chosen: Sequence[Segment], elements: Elements) -> ModelProto:
    """The model with a switch for each of some segments, which puts the reference's nodes in place of its own.

    Its own nodes run all the same; what they compute goes by `<name>::local`.

    Args:
        model: the model.
        reference: the other one.
        chosen: segments of the two.
        elements: of the tensors where they begin and end.

    Raises:
        UsageError: when their operator sets do not go together, a segment holds a graph, or all of them together
            form a cycle.
    """
    made = ModelProto()
    made.CopyFrom(model)
    join_operators(made, reference)
    stored = constants(reference)
    replaced = {one.ours.tensor for one in chosen}
    nodes = [beside(node, replaced) for node in made.graph.node]
    for one in chosen:
        name = one.ours.tensor
        end = f"{MARK}{name}"
        theirs, weights = transplanted(one, stored, elements, end)
        ours = helper.make_node("Identity", [f"{name}{LOCAL}"], [f"{end}{LOCAL}"])
        kind = elements.ours[name]
        branches = {"then_branch": _branch(theirs, end, kind), "else_branch": _branch([ours], f"{end}{LOCAL}", kind)}
        nodes.append(helper.make_node("If", [f"{SWITCH}{name}"], [name], **branches))
        made.graph.input.append(helper.make_tensor_value_info(f"{SWITCH}{name}", TensorProto.BOOL, []))
        made.graph.initializer.extend(weights.values())
    nodes = in_order(nodes, made)
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    del made.graph.value_info[:]  # names have changed their meaning
    return made


def positions(chosen: Sequence[Segment], on: Segment | None = None) -> dict[str, Array]:
    """What to feed the switches, with one of them on, or none."""
    return {f"{SWITCH}{one.ours.tensor}": np.array(one is on) for one in chosen}


def _branch(nodes: Sequence[NodeProto], end: str, kind: int) -> GraphProto:
    return helper.make_graph(nodes, end, [], [helper.make_tensor_value_info(end, kind, None)])
