"""Repair of what PyTorch's exporters write against the standard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import helper

from orun.stages._graph.domains import STANDARD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import ModelProto, NodeProto

ANGLES = (1, 2)  # places of the cosines and sines among the inputs of RotaryEmbedding
POSITIONS = 3  # place of the positions, without which there are angles for each text


def mend(model: ModelProto) -> None:
    """Give each RotaryEmbedding the cosines and sines of every text of the batch, in place.

    The rewriting rules of PyTorch's new exporter (as of onnxscript 0.7.2, operator set 23) put the operator where one
    row of angles serves all texts; the standard has `[batch, sequence, half]`, and no runtime takes `[1, ...]`.
    """
    nodes = [one for node in model.graph.node for one in (*_angles(node), node)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _angles(node: NodeProto) -> Iterator[NodeProto]:
    """Nodes that must come before a RotaryEmbedding, which then takes what they yield."""
    if node.op_type != "RotaryEmbedding" or node.domain not in STANDARD or any(node.input[POSITIONS:]):
        return
    batch, ones, shape = (f"{node.output[0]}_{name}" for name in ("batch", "ones", "shape"))
    yield helper.make_node("Shape", [node.input[0]], [batch], start=0, end=1)
    yield helper.make_node("Constant", [], [ones], value_ints=[1, 1])
    yield helper.make_node("Concat", [batch, ones], [shape], axis=0)
    for place in ANGLES:
        name = f"{node.output[0]}_angles_{place}"
        yield helper.make_node("Expand", [node.input[place], shape], [name])
        node.input[place] = name
