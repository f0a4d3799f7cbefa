"""Layers whose weight may become a product of two smaller matrices: MatMul, Gemm and Conv."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto

from orun.measure.dataset import Array
from orun.stages._graph.nodes import attribute
from orun.stages.optimize._pruning.channels import Stored, list_weights, read_stored

Floats = NDArray[np.float64]

MATRIX = 2  # axes of a matrix
IMAGE_KERNEL = 4  # axes of the weight of a convolution over images
# Operators with an integer weight.
QUANTIZED = frozenset({
    "ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "MatMulNBits", "QAttention",
    "QGemm", "QLinearConv", "QLinearMatMul",
})  # fmt: skip


@dataclass(frozen=True, eq=False)
class Layer:
    """MatMul, Gemm or Conv with a weight that nothing else reads; `weight` is its name, and `array` its values."""

    node: NodeProto
    weight: str
    array: Array

    @property
    def title(self) -> str:
        """Operator and name, for messages."""
        return _format_title(self.node)

    @property
    def is_convolution(self) -> bool:
        """Whether it is a Conv."""
        return self.node.op_type == "Conv"

    @property
    def is_transposed(self) -> bool:
        """Whether it is a Gemm that stores a row for each output."""
        return self.node.op_type == "Gemm" and bool(attribute(self.node, "transB", 0))

    def to_matrix(self) -> Floats:
        """Return the weight as `[inputs, outputs]`; the inputs of a Conv are the values under its kernel."""
        array = self.array.astype(np.float64)
        if self.is_convolution:
            return array.reshape(len(array), -1).T
        return array.T if self.is_transposed else array

    def restore(self, matrix: Array) -> Array:
        """Return a matrix `[inputs, outputs]` in the shape and type of the weight."""
        turned = matrix.T.reshape(self.array.shape) if self.is_convolution or self.is_transposed else matrix
        return np.ascontiguousarray(turned, self.array.dtype)

    def list_row_counts(self) -> tuple[int, ...]:
        """Return the number of rows of each matrix that the weight can be factorised as.

        - All inputs: the first factor reads the input, and the second mixes the results. After a Conv this is a
          convolution of kernel 1.
        - For a Conv over images also the inputs in one column of the kernel: a vertical convolution and a horizontal
          one.
        """
        inputs = self.array.size // self.array.shape[0 if self.is_convolution or self.is_transposed else 1]
        if self.array.ndim == IMAGE_KERNEL and min(self.array.shape[2:]) > 1:
            return inputs, inputs // self.array.shape[3]
        return (inputs,)

    def compute_max_rank(self, rows: int) -> int:
        """Return the largest rank whose factors hold fewer numbers than the weight."""
        return (self.array.size - 1) // (rows + self.array.size // rows)

    @property
    def reading(self) -> tuple[Any, ...]:
        """Identity of the rows that it reads: layers with equal ones read equal rows."""
        if not self.is_convolution:
            return (self.node.input[0],)
        attributes = sorted(item.SerializeToString() for item in self.node.attribute)
        return self.node.input[0], self.array.shape[2:], *attributes

    def unfold(self, value: Array) -> Floats:
        """Return a value that it reads as `[rows, inputs]`, the rows that `to_matrix` multiplies."""
        if not self.is_convolution:
            return value.reshape(-1, value.shape[-1]).astype(np.float64)
        kernel = self.array.shape[2:]
        axes = len(kernel)
        strides, dilations = (attribute(self.node, name, [1] * axes) for name in ("strides", "dilations"))
        spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
        pads = _compute_pads(self.node, value.shape[2:], spans, strides)
        padded = np.pad(value, [(0, 0), (0, 0), *zip(pads[:axes], pads[axes:], strict=True)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, spans, tuple(range(2, 2 + axes)))
        steps = [slice(None, None, step) for step in (*strides, *dilations)]
        chosen = np.moveaxis(windows[(slice(None), slice(None), *steps)], 1, 1 + axes)  # [n, *places, channel, *kernel]
        return chosen.reshape(-1, self.array.shape[1] * math.prod(kernel)).astype(np.float64)


def _compute_pads(node: NodeProto, sizes: Sequence[int], spans: Sequence[int], strides: Sequence[int]) -> Sequence[int]:
    """Return the zeros that a Conv puts before each axis of its input, then those after each."""
    mode = attribute(node, "auto_pad", b"NOTSET").decode()
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        pads: Sequence[int] = (
            attribute(node, "pads", [0] * 2 * len(spans)) if mode == "NOTSET" else [0] * 2 * len(spans)
        )
        return pads
    totals = [
        max((math.ceil(size / stride) - 1) * stride + span - size, 0)
        for size, span, stride in zip(sizes, spans, strides, strict=True)
    ]
    less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return [*less, *more] if mode == "SAME_UPPER" else [*more, *less]


def find_layers(
    model: ModelProto, op_types: Collection[str], exclude: Collection[str], tell: Callable[[str], None]
) -> list[Layer]:
    """Return the layers that can be factorised.

    The model has no functions, and stores its weights in initializers. `tell` is called with a message for each other
    layer that stays as it is.
    """
    kept = read_stored(model)
    layers = []
    for node, name, _ in list_weights(model, kept):
        if node.op_type not in op_types or node.name in exclude:
            continue
        layer = Layer(node, name, kept.arrays[name])
        if why := _find_obstacle(layer, kept):
            tell(f"{layer.title} keeps its weight: {why}")
        else:
            layers.append(layer)
    return layers


def find_quantized(model: ModelProto) -> list[str]:
    """Return the titles of the products and convolutions with a quantized weight."""
    tensors = {tensor.name for tensor in model.graph.initializer}
    dequantized = {
        node.output[0]
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in tensors
    }  # fmt: skip
    return [
        _format_title(node)
        for node in model.graph.node
        if node.op_type in QUANTIZED
        or (node.op_type in ("Conv", "Gemm", "MatMul") and not dequantized.isdisjoint(node.input[1:2]))
    ]


def _format_title(node: NodeProto) -> str:
    return f"{node.op_type} {node.name or node.output[0]!r}"


def _find_obstacle(layer: Layer, kept: Stored) -> str:
    """Return why a layer cannot be factorised; empty if it can."""
    node, name = layer.node, layer.weight
    if not layer.array.size:
        return "it is empty"
    if kept.uses.get(name, 0) > 1:
        return f"{name!r} is shared, {kept.uses[name]} nodes read it"
    if name in kept.fixed:
        return f"{name!r} is an input or output of the model, or read inside of a node"
    if node.input[0] in kept.arrays:
        return "its input is stored as well"
    if layer.is_convolution and attribute(node, "group", 1) != 1:
        return "it has groups"
    if not layer.is_convolution and layer.array.ndim > MATRIX:
        return "it is a batch of matrices"
    if node.op_type == "Gemm" and attribute(node, "transA", 0):
        return "the layer transposes its input"
    if not np.isfinite(layer.array).all():
        return "it holds values that are not finite"
    if not any(layer.compute_max_rank(rows) for rows in layer.list_row_counts()):
        return "two factors would be no smaller"
    return ""
