"""Sizes of dynamic axes that the weights of a model fix."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.stages._graph.implied_sizes import find_implied_sizes

CASES: dict[str, tuple[str, dict[str, tuple[int, ...]], dict[str, int]]] = {
    "y = Conv <pads = [1, 1, 1, 1]> (x, k)": ("batch, c, h, w", {"k": (8, 3, 3, 3)}, {"c": 3}),
    "y = Conv <group = 2, pads = [1, 1, 1, 1]> (x, k)": ("batch, c, h, w", {"k": (8, 3, 3, 3)}, {"c": 6}),
    "y = ConvTranspose(x, k)": ("batch, c, h, w", {"k": (5, 3, 3, 3)}, {"c": 5}),
    "t = Transpose <perm = [0, 3, 1, 2]> (x)  u = Relu(t)  y = Conv <pads = [1, 1, 1, 1]> (u, k)": (
        "batch, h, w, c", {"k": (8, 3, 3, 3)}, {"c": 3},
    ),
    "u = Sub(x, k)  y = Abs(u)": ("batch, c, h, w", {"k": (3, 1, 1)}, {"c": 3}),
    "y = MatMul(x, k)": ("batch, length, f", {"k": (64, 32)}, {"f": 64}),
    "y = Gemm <transB = 1> (x, k)": ("batch, f", {"k": (32, 64)}, {"f": 64}),
    "y, h, s = LSTM <hidden_size = 4> (x, k, r)": (
        "time, n, f", {"k": (1, 16, 7), "r": (1, 16, 4)}, {"f": 7},
    ),
    "a, b, s = DynamicQuantizeLinear(x)  y = MatMulInteger(a, k, b)": ("batch, f", {"k": (64, 32)}, {"f": 64}),
    "u = Transpose <perm = [1, 0]> (k)  y = MatMul(x, u)": ("batch, f", {"k": (32, 64)}, {"f": 64}),
    "a = Conv <pads = [1, 1, 1, 1]> (x, k)  y = Neg(x)": ("batch, c, c, w", {"k": (8, 3, 3, 3)}, {"c": 3}),
    "u = MatMul(x, k)  v = Mul(x, l)  y = Neg(x)": ("batch, f", {"k": (64, 32), "l": (9,)}, {}),  # no size fits
    "y = Neg(x)": ("batch, f", {"k": (1,)}, {}),
    "y = MatMul(x, k)  z = Gemm(x, l)": ("f, g", {"k": (9, 32), "l": (9, 32)}, {"g": 9}),  # the first axis is the batch
}  # fmt: skip


@pytest.mark.parametrize("body", CASES)
def test_weights_fix_the_sizes_of_axes(body: str) -> None:
    axes, weights, sizes = CASES[body]
    assert find_implied_sizes(build(axes, body, weights)) == {axis: (size,) for axis, size in sizes.items()}


def test_a_nameless_axis_is_named_by_its_place() -> None:
    model = build("batch, c, h, w", "y = Conv(x, k)", {"k": (8, 3, 3, 3)})
    for axis in model.graph.input[0].type.tensor_type.shape.dim:
        axis.Clear()
    assert find_implied_sizes(model) == {"x.1": (3,), "x.2": (16, 24), "x.3": (16, 24)}


def test_axes_are_long_enough_for_kernels() -> None:
    """As in models of speech, whose first kernels are long."""
    kernels = {"k": (16, 1, 10), "l": (16, 16, 3)}
    body = "c = Conv <strides = [5]> (x, k)  d = Conv <strides = [2]> (c, l)  y = MaxPool <kernel_shape = [4]> (d)"
    assert find_implied_sizes(build("batch, 1, samples", body, kernels)) == {"samples": (400, 600)}
    assert find_implied_sizes(build("batch, 1, samples", f"u = Neg(x)  {body}", kernels | {"k": (16, 1, 900)})) == {
        "samples": (4000, 6000)
    }
    assert find_implied_sizes(build("batch, 1, samples", "y = Conv <pads = [1, 1]> (x, k)", {"k": (4, 1, 3)})) == {}


CONV = "c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, k)  "
FLAT = "f = Flatten(c)  y = Gemm <transB = 1> (f, l)"
VIEW = "s = Shape(c)  b = Gather(s, i)  t = Concat <axis = 0> (b, n)  f = Reshape(c, t)  y = Gemm <transB = 1> (f, l)"
SIDES: list[tuple[str, tuple[int, ...], dict[str, tuple[int, ...]]]] = [
    (CONV + FLAT, (10, 4 * 32 * 32), {"h": (64,), "w": (64,)}),
    (CONV + FLAT, (10, 4 * 32 * 32 + 1), {}),  # no side fits
    (CONV + VIEW, (10, 4 * 32 * 32), {"h": (64,), "w": (64,)}),  # `x.view(x.shape[0], -1)`
    (CONV + "f = Reshape(c, r)  y = MatMul(f, l)", (4 * 14 * 14, 9), {"h": (27,), "w": (27,)}),
    (CONV + "y = Add(c, l)", (1, 4, 112, 112), {"h": (224,), "w": (224,)}),  # an embedding of positions
    (CONV + "p = GlobalAveragePool(c)  f = Flatten(p)  y = Gemm <transB = 1> (f, l)", (10, 4), {}),
]


@pytest.mark.parametrize(("body", "weight", "sizes"), SIDES)
def test_an_image_is_as_large_as_the_layers_behind_ask_for(
    body: str, weight: tuple[int, ...], sizes: dict[str, tuple[int, ...]]
) -> None:
    model = build("batch, 3, h, w", body, {"k": (4, 3, 3, 3), "l": weight})
    indices = {"r": [0, -1], "i": [0], "n": [-1]}
    model.graph.initializer.extend(numpy_helper.from_array(np.array(value), name) for name, value in indices.items())
    assert find_implied_sizes(model) == sizes


def build(axes: str, body: str, weights: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> g (float[{axes}] x) => (float y) {{ {body} }}'
    )
    kind = np.int8 if "Integer" in body else np.float32
    model.graph.initializer.extend(numpy_helper.from_array(np.ones(weights[name], kind), name) for name in weights)
    return model
