"""GPTQ: rounding of weights row by row, with each error compensated in the rows that follow.

Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2023. ONNX Runtime
1.31 has a function of this name that multiplies with the zeros of a triangular matrix: it compensates nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from orun.measure.dataset import Dataset
from orun.stages._graph.inner_values import iter_rows
from orun.stages._graph.nodes import list_needed, set_items

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

MATRIX = 2  # axes of a weight
DAMPING = 0.01  # of the mean of the Hessian's diagonal, added to it, as in the paper
NIBBLE = 4  # bits


@dataclass(frozen=True)
class Grid:
    """Integers that a weight is rounded to: `bits` wide, with a scale for each `block_size` rows of a column."""

    bits: int
    block_size: int
    symmetric: bool

    def fit(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return scale and zero point of each column of a block `[rows, columns]`."""
        top = 2**self.bits - 1
        low, high = np.minimum(rows.min(axis=0), 0), np.maximum(rows.max(axis=0), 0)
        if self.symmetric:
            high = np.maximum(-low, high)
            low = -high
        scale = np.where(high > low, (high - low) / top, 1.0).astype(np.float32).astype(np.float64)
        zero = np.full(scale.shape, 2.0 ** (self.bits - 1)) if self.symmetric else np.round(-low / scale)
        return scale, np.clip(zero, 0, top)


@dataclass(frozen=True)
class Rounded:
    """Rounded weight: integers `[rows, columns]`, scales and zero points `[blocks, columns]`."""

    integers: Bytes
    scales: NDArray[np.float32]
    zeros: Bytes


def round_weight(weight: Floats, hessian: Floats, grid: Grid) -> Rounded:
    """Round a weight so that its product with typical inputs changes little.

    The weight is `[rows, columns]`, with a row for each channel of the input. The Hessian of the error, `[rows, rows]`,
    is the sum of `x.T @ x` over inputs `x`.
    """
    weight, hessian = weight.astype(np.float64), hessian.copy()
    rows = len(weight)
    diagonal = np.arange(rows)
    hessian[diagonal, diagonal] += max(DAMPING * float(np.mean(np.diag(hessian))), 1e-12)
    upper = np.linalg.cholesky(np.linalg.inv(hessian)).T
    integers = np.zeros(weight.shape, np.uint8)
    scales, zeros = [], []
    for start in range(0, rows, grid.block_size):
        end = min(start + grid.block_size, rows)
        scale, zero = grid.fit(weight[start:end])
        errors = np.zeros((end - start, weight.shape[1]))
        for row in range(start, end):
            rounded = np.clip(np.round(weight[row] / scale) + zero, 0, 2**grid.bits - 1)
            integers[row] = rounded
            errors[row - start] = (weight[row] - (rounded - zero) * scale) / upper[row, row]
            weight[row + 1 : end] -= np.outer(upper[row, row + 1 : end], errors[row - start])
        weight[end:] -= upper[start:end, end:].T @ errors
        scales.append(scale)
        zeros.append(zero)
    return Rounded(integers, np.array(scales, np.float32), np.array(zeros, np.uint8))


def quantize(model: ModelProto, grid: Grid, dataset: Dataset, excluded: Collection[str], accuracy_level: int) -> None:
    """Replace each MatMul whose right side is a constant matrix by MatMulNBits, in place.

    The attribute `accuracy_level` is left out if 0.
    """
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    products = [
        node
        for node in graph.node
        if node.op_type == "MatMul" and not node.domain and node.name not in excluded and node.input[0] not in weights
        and (weight := weights.get(node.input[1])) is not None
        and weight.data_type == TensorProto.FLOAT and len(weight.dims) == MATRIX
    ]  # fmt: skip
    hessians: dict[str, Floats] = {}
    for values in iter_rows(model, list(dict.fromkeys(node.input[0] for node in products)), dataset):
        for name, rows in values.items():
            inputs = rows.astype(np.float64)
            hessians[name] = hessians.get(name, 0.0) + inputs.T @ inputs
    for node in products:
        weight = numpy_helper.to_array(weights[node.input[1]])
        _replace(model, node, round_weight(weight, hessians[node.input[0]], grid), grid, accuracy_level)
    used = list_needed(graph)
    set_items(graph.initializer, (tensor for tensor in graph.initializer if tensor.name in used))
    removed = weights.keys() - used  # before IR version 4, weights are inputs as well
    set_items(graph.input, (value for value in graph.input if value.name not in removed))


def _replace(model: ModelProto, node: NodeProto, weight: Rounded, grid: Grid, accuracy_level: int) -> None:
    rows, columns = weight.integers.shape
    name = f"{node.input[1]}_{node.name or node.output[0]}"
    padded = np.repeat(weight.zeros, grid.block_size, axis=0)  # padding of the last block stands for 0
    padded[:rows] = weight.integers
    blocks = padded.T.reshape(columns, len(weight.scales), grid.block_size)
    tensors = [
        numpy_helper.from_array(
            _pack_nibbles(blocks, grid.bits), f"{name}_integers"
        ),  # [columns, blocks, bytes of a block]
        numpy_helper.from_array(np.ascontiguousarray(weight.scales.T), f"{name}_scales"),
    ]
    if not grid.symmetric:
        tensors.append(numpy_helper.from_array(_pack_nibbles(weight.zeros.T, grid.bits), f"{name}_zeros"))
    model.graph.initializer.extend(tensors)
    node.CopyFrom(
        helper.make_node(
            "MatMulNBits",
            [node.input[0], *(tensor.name for tensor in tensors)],
            list(node.output),
            name=node.name,
            domain="com.microsoft",
            K=rows,
            N=columns,
            bits=grid.bits,
            block_size=grid.block_size,
        )
    )
    if accuracy_level:
        node.attribute.append(helper.make_attribute("accuracy_level", accuracy_level))


def _pack_nibbles(values: Bytes, bits: int) -> Bytes:
    """Pack two 4-bit integers into a byte along the last axis, the first in the lower half; 8-bit ones stay."""
    if bits != NIBBLE:
        return np.ascontiguousarray(values)
    odd = values.shape[-1] % 2
    even = np.concatenate([values, np.zeros((*values.shape[:-1], odd), np.uint8)], axis=-1)
    packed: Bytes = even[..., ::2] | even[..., 1::2] << NIBBLE
    return packed
