"""Model with a switch for each segment: an input selects its own nodes or those of another model.

Opening a model takes far longer than running it. So one session tries all segments, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from orun.diagnosis.patching import LOCAL, MARK, Elements, detach, sort_nodes, transplant
from orun.diagnosis.segments import Segment
from orun.diagnosis.values import Array

SWITCH = "switch::"  # prefix of the input that selects whose nodes compute a tensor


def add_switches(model: ModelProto, reference: ModelProto, chosen: Sequence[Segment], elements: Elements) -> ModelProto:
    """Return the model with a switch for each of some segments, which selects the reference's nodes.

    The model's own nodes run in any case; their results are named `<name>::local`.

    Raises:
        UsageError: when their operator sets are incompatible, a segment holds a graph, or the segments form a cycle.
    """
    result, nodes, stored = detach(model, reference, chosen)
    for segment in chosen:
        name = segment.ours.tensor
        end = f"{MARK}{name}"
        theirs, weights = transplant(segment, stored, elements, end)
        ours = helper.make_node("Identity", [f"{name}{LOCAL}"], [f"{end}{LOCAL}"])
        kind = elements.ours[name]
        branches = {
            "then_branch": _build_branch(theirs, end, kind),
            "else_branch": _build_branch([ours], f"{end}{LOCAL}", kind),
        }
        nodes.append(helper.make_node("If", [f"{SWITCH}{name}"], [name], **branches))
        result.graph.input.append(helper.make_tensor_value_info(f"{SWITCH}{name}", TensorProto.BOOL, []))
        result.graph.initializer.extend(weights.values())
    nodes = sort_nodes(nodes, result)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    del result.graph.value_info[:]  # renamed values have other types
    return result


def set_switches(chosen: Sequence[Segment], on: Segment | None = None) -> dict[str, Array]:
    """Return the inputs of the switches, with one switch on, or none."""
    return {f"{SWITCH}{segment.ours.tensor}": np.array(segment is on) for segment in chosen}


def _build_branch(nodes: Sequence[NodeProto], end: str, kind: int) -> GraphProto:
    return helper.make_graph(nodes, end, [], [helper.make_tensor_value_info(end, kind, None)])
