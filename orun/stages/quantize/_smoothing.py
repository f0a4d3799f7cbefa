"""SmoothQuant: move outliers of activations into the weights that multiply them, before both are rounded.

Xiao et al., "SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models", 2023: channel j
of an activation X is divided by `s[j] = max|X[j]| ** alpha / max|W[j]| ** (1 - alpha)`, and row j of the weights W is
multiplied by it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from orun.measure.dataset import Dataset
from orun.stages._graph.agreement import Trial, check_against_input
from orun.stages._graph.differences import Tolerance
from orun.stages._graph.inner_values import iter_rows
from orun.stages._graph.io import save
from orun.stages._graph.names import make_unique
from orun.stages._graph.nodes import attribute, list_reads
from orun.stages.contract import Context

Floats = NDArray[np.float32]

MATRIX = 2  # axes of a weight
LEAST = 1e-5  # lower bound of a maximum, so that nothing is divided by zero
PRODUCTS = ("MatMul", "Gemm")


def smooth_and_check(
    context: Context,
    model: ModelProto,
    alpha: float,
    dataset: Dataset,
    is_selected: Callable[[NodeProto], bool],
    trial: Trial,
) -> None:
    """Smooth a model in place, and check that it still computes the same.

    `context.result` is used for the check and is empty afterwards.

    Raises:
        StageFailed: when no product can be smoothed, or the smoothed model computes something else.
    """
    names = smooth(model, alpha, dataset, is_selected)
    if not names:
        raise context.failed(
            "`smooth` found nothing to do",
            why="no MatMul or Gemm that is to be quantized has a constant matrix on its right",
            hint="leave `smooth` out, or look at `op_types`, `include` and `exclude`",
        )
    context.log.info("%d products with smoothed inputs:\n  %s", len(names), "\n  ".join(names))
    save(model, context.result)  # the quantized model replaces it
    tolerance = Tolerance(1e-4, 1e-3)
    check_against_input(context, "the smoothed float model", trial, tolerance, hint="leave `smooth` out")
    onnx.load_external_data_for_model(model, str(context.output))  # `save` empties tensors in external data
    for path in context.output.iterdir():
        path.unlink()


def smooth(model: ModelProto, alpha: float, dataset: Dataset, is_selected: Callable[[NodeProto], bool]) -> list[str]:
    """Rewrite a model so that the inputs of its matrix products have channels of like size; it computes the same.

    A LayerNormalization whose output goes into such products alone takes the factors into its own scale and bias. Any
    other activation gets a Mul of its own. The model is whole in memory, the types of its values declared. `alpha`, 0
    to 1, tells how much of the outliers moves into the weights. The names of the products with smoothed inputs are
    returned.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    groups = _group_products(model, weights, is_selected)
    largest = _measure_largest(model, list(groups), dataset)
    uses = [name for node in model.graph.node for name in list_reads(node)]
    uses += [value.name for value in model.graph.output]
    for activation, nodes in groups.items():
        rows = [np.abs(_read_matrix(node, weights)).max(axis=1) for node in nodes]
        factors = _compute_factors(largest[activation], np.max(rows, axis=0), alpha)
        for node in nodes:
            matrix = _read_matrix(node, weights) * factors[:, None]
            _replace(model, node, 1, matrix.T if attribute(node, "transB", 0) else matrix, weights, uses)
        alone = uses.count(activation) == len(nodes)
        if not (alone and _scale_normalization(model, activation, weights, factors, uses)):
            _insert(model, activation, nodes, factors)
    return [node.name or node.output[0] for nodes in groups.values() for node in nodes]


def _group_products(
    model: ModelProto, weights: Mapping[str, TensorProto], is_selected: Callable[[NodeProto], bool]
) -> dict[str, list[NodeProto]]:
    """Return the products to be quantized whose right side is a constant matrix, by their left input."""
    groups: dict[str, list[NodeProto]] = defaultdict(list)
    for node in model.graph.node:
        if node.op_type not in PRODUCTS or node.domain or not is_selected(node) or attribute(node, "transA", 0):
            continue
        weight = weights.get(node.input[1])
        fits = weight is not None and len(weight.dims) == MATRIX and weight.data_type == TensorProto.FLOAT
        if fits and node.input[0] not in weights:
            groups[node.input[0]].append(node)
    return groups


def _read_matrix(node: NodeProto, weights: Mapping[str, TensorProto]) -> Floats:
    """Return the weights of a product, `[input channels, output channels]`."""
    matrix: Floats = numpy_helper.to_array(weights[node.input[1]])
    return matrix.T if attribute(node, "transB", 0) else matrix


def _measure_largest(model: ModelProto, names: Sequence[str], dataset: Dataset) -> dict[str, Floats]:
    """Return the largest absolute value of each channel (the last axis) of these values over the dataset."""
    largest: dict[str, Floats] = {}
    for values in iter_rows(model, names, dataset):
        for name, rows in values.items():
            channels = np.abs(rows).max(axis=0)
            largest[name] = np.maximum(largest.get(name, channels), channels)
    return largest


def _compute_factors(activations: Floats, rows: Floats, alpha: float) -> Floats:
    factors = np.maximum(activations, LEAST) ** alpha / np.maximum(rows, LEAST) ** (1 - alpha)
    return np.where(activations > 0, factors, 1).astype(np.float32)


def _scale_normalization(
    model: ModelProto, activation: str, weights: dict[str, TensorProto], factors: Floats, uses: list[str]
) -> bool:
    """Divide the output of a LayerNormalization; return False when another operator yields the value."""
    (maker,) = [node for node in model.graph.node if activation in node.output] or [None]
    if maker is None or maker.op_type != "LayerNormalization" or activation != maker.output[0]:
        return False
    places = [place for place in range(1, len(maker.input)) if maker.input[place]]
    if any(weights.get(maker.input[place]) is None for place in places):
        return False
    for place in places:
        value: Floats = numpy_helper.to_array(weights[maker.input[place]])
        _replace(model, maker, place, value / factors, weights, uses)
    return True


def _replace(
    model: ModelProto, node: NodeProto, place: int, value: Floats, weights: dict[str, TensorProto], uses: list[str]
) -> None:
    """Give a node another weight; a weight that other nodes use too stays as it is."""
    name = node.input[place]
    if uses.count(name) > 1:
        uses.remove(name)
        name = make_unique(f"{name}_smooth", {*weights})
        node.input[place] = name
        uses.append(name)
        weights[name] = model.graph.initializer.add()
    weights[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name))


def _insert(model: ModelProto, activation: str, nodes: Sequence[NodeProto], factors: Floats) -> None:
    """Divide a value before these nodes read it."""
    graph = model.graph
    factor, smoothed = f"{activation}_smooth_factor", f"{activation}_smooth"
    graph.initializer.append(numpy_helper.from_array(1 / factors, factor))
    for node in nodes:
        node.input[0] = smoothed
    first = min(list(graph.node).index(node) for node in nodes)
    graph.node.insert(first, helper.make_node("Mul", [activation, factor], [smoothed], name=smoothed))
    declared = [value for value in (*graph.value_info, *graph.input, *graph.output) if value.name == activation]
    for value in declared[:1]:
        graph.value_info.add().CopyFrom(value)
        graph.value_info[-1].name = smoothed
