"""Fused embeddings with positions of their own, such as RoBERTa's: ONNX Runtime's quantizer drops these, as of 1.31."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import ModelProto, NodeProto, helper

from orun.stages._graph.agreement import Trial, load_cases
from orun.stages._graph.inner_values import iter_values_of_feeds
from orun.stages._graph.io import load_graph
from orun.stages._graph.nodes import list_needed
from orun.stages.contract import Context

FUSED = "EmbedLayerNormalization"
POSITIONS = 8  # place of the input with the positions; without it they count from 0


def keep_positions(context: Context, model: ModelProto, is_selected: Callable[[NodeProto], bool], trial: Trial) -> None:
    """Split fused embeddings whose positions do not count from 0 into look-ups and a normalization.

    The quantizer takes these. A note says so. The trial shows the positions.

    Raises:
        StageFailed: when one cannot be split, as its mask is read.
    """
    fused = [
        node for node in model.graph.node if node.op_type == FUSED and node.input[POSITIONS:] and is_selected(node)
    ]
    positions = {node.input[POSITIONS] for node in fused} - {""}
    if not positions:
        return
    feeds = (case.feed for case in load_cases(context, load_graph(context.model()), trial))
    seen = list(iter_values_of_feeds(model, sorted(positions), feeds))
    counting = {
        name for name in positions if all(np.all(item[name] == np.arange(item[name].shape[-1])) for item in seen)
    }
    read = list_needed(model.graph)
    split = [node for node in fused if node.input[POSITIONS] in positions - counting]
    if losing := [node.name for node in split if read & {*node.output[1:2]}]:
        raise context.failed(
            f"quantized, the embeddings of {', '.join(losing)} would lose their positions",
            why="ONNX Runtime's quantizer drops these, and a node whose mask is read cannot be split",
            hint="name them in `exclude`",
        )
    for node in split:
        place = list(model.graph.node).index(node)
        for part in reversed(_build_parts(node)):
            model.graph.node.insert(place, part)
        model.graph.node.remove(node)
    if split:
        context.note(
            "the embeddings are quantized apart from their normalization, as ONNX Runtime's quantizer drops positions "
            "that do not count from 0"
        )


def _build_parts(node: NodeProto) -> list[NodeProto]:
    """Return the nodes that compute what a fused node does."""
    ids, segments, tokens, positions, kinds, scale, shift = node.input[:7]
    name = node.output[0]
    parts = [
        helper.make_node("Gather", [tokens, ids], [f"{name}_word"], name=f"{name}_word"),
        helper.make_node("Gather", [positions, node.input[POSITIONS]], [f"{name}_position"], name=f"{name}_position"),
    ]
    total = f"{name}_word"
    if kinds:
        parts += [
            helper.make_node("Gather", [kinds, segments], [f"{name}_segment"], name=f"{name}_segment"),
            helper.make_node("Add", [total, f"{name}_segment"], [f"{name}_sum"], name=f"{name}_sum"),
        ]
        total = f"{name}_sum"
    outputs = [name, "", "", *node.output[2:3]] if len(node.output) > 2 else [name]  # noqa: PLR2004 - the sum is third
    normalization = helper.make_node(
        "SkipLayerNormalization",
        [total, f"{name}_position", scale, shift],
        outputs,
        name=f"{name}_normalized",
        domain=node.domain,
    )
    normalization.attribute.extend(item for item in node.attribute if item.name == "epsilon")
    return [*parts, normalization]
