"""Ranking of a model's parts by the harm of quantizing them, relative to the gain."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto

from orun.measure.dataset import Array
from orun.stages._graph.io import load_graph
from orun.stages._graph.sessions import Model, open_model

MakeExcept = Callable[[Sequence[str]], Path | None]  # argument: nodes that stay in float; None if that cannot be made
QUANTIZED = ("MatMul", "Gemm", "Conv", "Attention")
MOST = 48  # groups; further ones are merged with their neighbours


@dataclass(frozen=True)
class Group:
    """Neighbouring nodes that stay in float together.

    Attributes:
        nodes: names of the nodes.
        weights: number of values of their weights, to which their cost is about proportional.
        harm: energy of the error at the outputs when only they are quantized, relative to the energy of the outputs;
            NaN when it was not measured.
    """

    nodes: tuple[str, ...]
    weights: int
    harm: float


def find_candidates(model: ModelProto) -> list[tuple[str, int]]:
    """Return the nodes that quantization may change, in the order of the graph: name, and size of the weights."""
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        weights = sum(sizes.get(name, 0) for name in node.input[1:2])
        if node.op_type in QUANTIZED and weights and node.name:
            nodes.append((node.name, weights))
    return nodes


def group_neighbours(nodes: Sequence[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """Split the nodes into at most `MOST` runs of neighbours."""
    length = max(math.ceil(len(nodes) / MOST), 1)
    return [list(nodes[begin : begin + length]) for begin in range(0, len(nodes), length)]


def rank(
    model: Path, outputs: Sequence[str], feeds: Sequence[Mapping[str, Array]], make_except: MakeExcept, seconds: float
) -> list[Group]:
    """Return the groups of a model, those with the most harm per weight first.

    Each group is quantized alone, and the outputs are compared with those of the float model. Errors of layers add up
    about as energies do, so that keeping the first groups in float is a good guess at the best set of that cost. A
    group that time did not suffice for counts with the mean of the others. `make_except` makes the model with some
    nodes in float and all others quantized. After so many seconds, no further group is tried.
    """
    nodes = find_candidates(load_graph(model))
    right = [run_model(open_model(model, outputs), feed) for feed in feeds]
    every = [name for name, _ in nodes]
    began, groups = time.monotonic(), list[Group]()
    for group in group_neighbours(nodes):
        names = tuple(name for name, _ in group)
        harm = math.nan
        if time.monotonic() < began + seconds:
            candidate = make_except([name for name in every if name not in names])
            harm = math.inf
            if candidate is not None:
                harm = measure_error(right, [run_model(open_model(candidate, outputs), feed) for feed in feeds])
        groups.append(Group(names, sum(weights for _, weights in group), harm))
    known = [group.harm / group.weights for group in groups if math.isfinite(group.harm)]
    mean = sum(known) / len(known) if known else 0.0
    return sorted(groups, key=lambda group: -(mean if math.isnan(group.harm) else group.harm / group.weights))


def run_model(model: Model, feed: Mapping[str, Array]) -> list[Array]:
    """Return the floating-point outputs of a model as doubles."""
    return [np.asarray(value, np.float64) for value in model(feed) if np.asarray(value).dtype.kind == "f"]


def measure_error(right: Sequence[Sequence[Array]], values: Sequence[Sequence[Array]]) -> float:
    """Return the energy of the error relative to that of the right values, over all examples and outputs."""
    error = total = 0.0
    for expected, actual in zip(right, values, strict=True):
        for reference, value in zip(expected, actual, strict=True):
            error += float(np.sum((reference - value) ** 2))
            total += float(np.sum(reference**2))
    return error / total if total else 0.0
