"""Ranking of a model's parts by the harm that quantizing them does for its gain."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.stages._graph.sessions import Model, session

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

    Array = NDArray[Any]

MakeOnly = Callable[[Sequence[str]], Path | None]  # of the nodes that stay in float; None when it cannot be made
QUANTIZED = ("MatMul", "Gemm", "Conv", "Attention")
MOST = 48  # groups: more are put together, neighbours first


@dataclass(frozen=True)
class Group:
    """Neighbouring nodes that stay in float together.

    Attributes:
        nodes: their names.
        weights: how many values their weights have: what they cost is about proportional to it.
        harm: energy of the error at the outputs when they alone are quantized, relative to that of the outputs; not a
            number when it was not measured.
    """

    nodes: tuple[str, ...]
    weights: int
    harm: float


def candidates(model: ModelProto) -> list[tuple[str, int]]:
    """Names of the nodes that quantization may change, in the order of the graph, and the size of their weights."""
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in model.graph.initializer}
    found = []
    for node in model.graph.node:
        weights = sum(sizes.get(name, 0) for name in node.input[1:2])
        if node.op_type in QUANTIZED and weights and node.name:
            found.append((node.name, weights))
    return found


def grouped(nodes: Sequence[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """The nodes in at most `MOST` runs of neighbours."""
    length = max(math.ceil(len(nodes) / MOST), 1)
    return [list(nodes[begin : begin + length]) for begin in range(0, len(nodes), length)]


def rank(
    model: Path, outputs: Sequence[str], feeds: Sequence[Mapping[str, Array]], make_only: MakeOnly, seconds: float
) -> list[Group]:
    """The groups of a model, those first that harm most for each value of their weights.

    Each group is quantized alone, and what comes out is compared with the model's own answers. Errors of layers add up
    about as energies do, so that leaving out the first groups of the list is a good guess at the best set of that cost.
    A group for which there was no time comes where its neighbours' mean would put it.

    Args:
        model: the model in float.
        outputs: names of its outputs.
        feeds: inputs of a few real examples.
        make_only: makes the model with these nodes alone quantized.
        seconds: after which no further group is tried.
    """
    from orun.stages._graph.io import load_graph

    nodes = candidates(load_graph(model))
    right = [answers(session(model, outputs), feed) for feed in feeds]
    every = [name for name, _ in nodes]
    began, found = time.monotonic(), list[Group]()
    for group in grouped(nodes):
        names = tuple(name for name, _ in group)
        harm = math.nan
        if time.monotonic() < began + seconds:
            made = make_only([name for name in every if name not in names])
            harm = (
                math.inf if made is None else energy(right, [answers(session(made, outputs), feed) for feed in feeds])
            )
        found.append(Group(names, sum(weights for _, weights in group), harm))
    known = [group.harm / group.weights for group in found if math.isfinite(group.harm)]
    middle = sum(known) / len(known) if known else 0.0
    return sorted(found, key=lambda group: -_per_weight(group, middle))


def _per_weight(group: Group, unknown: float) -> float:
    return unknown if math.isnan(group.harm) else group.harm / group.weights


def answers(model: Model, feed: Mapping[str, Array]) -> list[Array]:
    """The floating-point outputs of a model as doubles."""
    import numpy as np

    return [np.asarray(value, np.float64) for value in model(feed) if np.asarray(value).dtype.kind == "f"]


def energy(right: Sequence[Sequence[Array]], found: Sequence[Sequence[Array]]) -> float:
    """Energy of the error relative to that of the right values, over all examples and outputs."""
    import numpy as np

    error = total = 0.0
    for values, others in zip(right, found, strict=True):
        for value, other in zip(values, others, strict=True):
            error += float(np.sum((value - other) ** 2))
            total += float(np.sum(value**2))
    return error / total if total else 0.0
