"""Work-around for RotaryEmbedding as PyTorch's exporters write it: with angles of one text for a whole batch."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import ModelProto, NodeProto, helper

from orun.stages._graph.domains import STANDARD
from orun.stages._graph.nodes import set_items

ANGLES = (1, 2)  # inputs of RotaryEmbedding: cosines and sines
POSITIONS = 3  # input of RotaryEmbedding; without it, each text has angles of its own


def expand_rotary_angles(model: ModelProto) -> None:
    """Give each RotaryEmbedding the cosines and sines of every text of the batch, in place.

    The rewriting rules of PyTorch's new exporter (as of onnxscript 0.7.2, operator set 23) put the operator where one
    row of angles serves all texts; the standard has `[batch, sequence, half]`, and no runtime takes `[1, ...]`.
    """
    set_items(model.graph.node, (part for node in model.graph.node for part in (*_expand_angles(node), node)))


def _expand_angles(node: NodeProto) -> Iterator[NodeProto]:
    """Yield the nodes before a RotaryEmbedding that expand its angles, and let it read their results."""
    if node.op_type != "RotaryEmbedding" or node.domain not in STANDARD or any(node.input[POSITIONS:]):
        return
    batch, units, shape = (f"{node.output[0]}_{name}" for name in ("batch", "units", "shape"))
    yield helper.make_node("Shape", [node.input[0]], [batch], start=0, end=1)
    yield helper.make_node("Constant", [], [units], value_ints=[1, 1])
    yield helper.make_node("Concat", [batch, units], [shape], axis=0)
    for place in ANGLES:
        name = f"{node.output[0]}_angles_{place}"
        yield helper.make_node("Expand", [node.input[place], shape], [name])
        node.input[place] = name
