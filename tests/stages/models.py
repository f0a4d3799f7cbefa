"""Small ONNX models, written as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper, parser

ADD = """
<ir_version: 9, opset_import: ["" : 20]>
add (float[n, 3] x) => (float[n, 3] y) <float[3] one = {1, 1, 1}> { y = Add(x, one) }
"""
CONSTANT = '<ir_version: 9, opset_import: ["" : 20]> g () => (float[2] y) <float[2] c = {1, 2}> { y = Identity(c) }'
# Constants to fold, an identity and a double transpose around one matrix product.
TWO_PRODUCTS = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 2] x) => (float[n, 2] y) <float[2, 2] w = {0.1, 0.2, 0.3, 0.4}, float[2, 2] v = {0.5, 0.6, 0.7, 0.8}>
{
  [first] h = MatMul (x, w)
  [second] y = MatMul (h, v)
}
"""
WORDY = """
<ir_version: 9, opset_import: ["" : 20]>
wordy (float[n, 4] x) => (float[n, 4] y)
<float[4, 4] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6}>
{
  two = Constant <value = float {2.0}> ()
  twice = Add(two, two)
  same = Identity(x)
  turned = Transpose <perm = [1, 0]> (same)
  back = Transpose <perm = [1, 0]> (turned)
  product = MatMul(back, w)
  y = Mul(product, twice)
}
"""
# A table of words, stored once, that is the last product as well; `table` is for the test to store.
TIED = """
<ir_version: 10, opset_import: ["" : 20]>
decoder (int64[n] ids) => (float[n, 64] y, float[64] first)
{
  words = Gather (table, ids)  turned = Transpose <perm = [1, 0]> (table)  y = MatMul (words, turned)
  zero = Constant <value = int64 {0}> ()  first = Gather (table, zero)
}
"""
LOOKUP = """
<ir_version: 9, opset_import: ["" : 20]>
lookup (int64[batch, length] ids, int64[batch, length] mask, float[batch, 2] extra) => (float[batch, length, 2] y)
<float[5, 2] table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}>
{
  inner = Cast <to = 7> (ids)
  rows = Gather <axis = 0> (table, inner)
  weight = Cast <to = 1> (mask)
  axis = Constant <value = int64[1] {2}> ()
  wide = Unsqueeze (weight, axis)
  masked = Mul (rows, wide)
  middle = Constant <value = int64[1] {1}> ()
  more = Unsqueeze (extra, middle)
  y = Add (masked, more)
}
"""
# Two products, each of whose inputs, weights and outputs are fake-quantized; the second repeats a pair.
FAKE_QUANTIZED = """
<ir_version: 9, opset_import: ["" : 20]>
trained (float[n, 4] x) => (float[n, 4] y)
<float in_scale = {0.02}, uint8 in_zero = {128}, float out_scale = {0.05}, uint8 out_zero = {120},
 float[4] w_scale = {0.01, 0.02, 0.01, 0.03}, int8[4] w_zero = {0, 0, 0, 0},
 float[4, 4] w = {0.1, 0.2, 0.3, 0.4, 0.5, -0.6, 0.7, 0.8, -0.9, 1.0, 1.1, 1.2, 1.3, -1.4, 1.5, 1.6}>
{
  x_integers = QuantizeLinear (x, in_scale, in_zero)
  x_rounded = DequantizeLinear (x_integers, in_scale, in_zero)
  w_integers = QuantizeLinear <axis = 0> (w, w_scale, w_zero)
  w_rounded = DequantizeLinear <axis = 0> (w_integers, w_scale, w_zero)
  [first] z = Gemm <transB = 1> (x_rounded, w_rounded)
  z_integers = QuantizeLinear (z, out_scale, out_zero)
  z_rounded = DequantizeLinear (z_integers, out_scale, out_zero)
  again_integers = QuantizeLinear (z_rounded, out_scale, out_zero)
  again_rounded = DequantizeLinear (again_integers, out_scale, out_zero)
  [second] v = Gemm <transB = 1> (again_rounded, w_rounded)
  v_integers = QuantizeLinear (v, out_scale, out_zero)
  y = DequantizeLinear (v_integers, out_scale, out_zero)
}
"""
# Each weight is read by two nodes, one of which has it transposed; the weights are for the test to store.
SHARED_WEIGHTS = """
<ir_version: 9, opset_import: ["" : 17]>
shared (float[n, 8] x, float[5, n, 4] series) => (float[n, 4] a, float[n, 4] b, float[n, 8] c, float[n, 8] d,
                                                  float[1, n, 4] e, float[1, n, 4] f)
{
  [first] a = Gemm <transB = 1> (x, wide)
  [second] c = Gemm <transB = 1> (x, square)
  [third] b = Gemm <transB = 1> (c, wide)
  [fourth] d = MatMul (x, square)
  , e = LSTM <hidden_size = 4> (series, inner, recurrent)
  turned = Neg (series)
  , f = LSTM <hidden_size = 4> (turned, inner, recurrent)
}
"""
SHARED_SIZES: Mapping[str, tuple[int, ...]] = {
    "wide": (4, 8), "square": (8, 8), "inner": (1, 16, 4), "recurrent": (1, 16, 4),
}  # fmt: skip


def parse(text: str) -> onnx.ModelProto:
    """A checked model; weights are stored as raw bytes, as exporters store them."""
    model = parser.parse_model(text)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.checker.check_model(model, full_check=True)
    return model


def weights_of(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    """Values of the stored tensors of a model by their names."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def shapes_of(values: Iterable[onnx.ValueInfoProto]) -> dict[str, list[int | str]]:
    """Sizes and names of the axes of some values."""
    return {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim] for value in values
    }


def tied() -> onnx.ModelProto:
    """`TIED` with a table of 64 words."""
    model = parser.parse_model(TIED)
    table = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    return model


def store_weights(model: onnx.ModelProto, sizes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """Store weights of the same random values in each call; the first axis differs a thousandfold in size."""
    random = np.random.default_rng(0)
    for name, size in sizes.items():
        values = random.standard_normal(size) * np.logspace(-3, 0, size[0]).reshape(-1, *[1] * (len(size) - 1))
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    return model


def convolution() -> onnx.ModelProto:
    """From images `[n, 3, 8, 8]` to scores `[n, 5]`, with a batch normalization, by made-up weights."""
    random = np.random.default_rng(0)
    model = parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 20]>
    convolution (float[n, 3, 8, 8] image) => (float[n, 5] scores)
    {
      [conv] c = Conv <pads = [1, 1, 1, 1]> (image, kernel)
      [norm] b = BatchNormalization (c, scale, shift, mean, variance)
      [relu] r = Relu (b)
      [pool] p = GlobalAveragePool (r)
      [flat] f = Flatten (p)
      [head] scores = Gemm (f, weight, bias)
    }
    """)
    shapes: dict[str, tuple[int, ...]] = {"kernel": (6, 3, 3, 3), "weight": (6, 5), "bias": (5,)}
    shapes |= dict.fromkeys(("scale", "shift", "mean"), (6,))
    weights = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    weights["variance"] = random.uniform(0.5, 2, 6)
    model.graph.initializer.extend(
        numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()
    )
    onnx.checker.check_model(model, full_check=True)
    return model
