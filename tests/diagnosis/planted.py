"""Small models with one planted fault each, which a diagnosis must find."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper, parser

LAYERS = """
<ir_version: 9, opset_import: ["" : 20]>
layers (float[n, 16] x) => (float[n, 4] y)
{
  [first] a = MatMul (x, w1)
  [bend] b = Relu (a)
  [second] c = MatMul (b, w2)
  [turn] d = Tanh (c)
  [third] y = MatMul (d, w3)
}
"""


def layers(outlier: float = 300.0) -> onnx.ModelProto:
    """Three products; one weight of the `second` is so large that int8 rounds all others to zero.

    Its row meets an input that is always zero, so that the float model does not feel it.
    """
    random = np.random.default_rng(0)
    model = parser.parse_model(LAYERS)
    first = random.standard_normal((16, 16))
    first[:, 3] = 0
    second = random.standard_normal((16, 16)) / 4
    second[3, 5] = outlier
    weights = {"w1": first, "w2": second, "w3": random.standard_normal((16, 4))}
    model.graph.initializer.extend(
        numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def detour(products: int = 6, width: int = 128) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """A model, and a slower equal one with additional products by the identity."""
    random = np.random.default_rng(0)
    text = """
    <ir_version: 9, opset_import: ["" : 20]>
    path (float[64, {width}] x) => (float[64, {width}] y)
    {{
      [first] a = MatMul (x, w1)
      [bend] b = Tanh (a)
      {extra}
      [second] c = MatMul ({last}, w2)
      [turn] y = Tanh (c)
    }}
    """
    names = ["b", *(f"b{number}" for number in range(products))]
    steps = [f"[detour_{n}] {names[n + 1]} = MatMul ({names[n]}, same{n})" for n in range(products)]
    weights = {name: random.standard_normal((width, width)) / width**0.5 for name in ("w1", "w2")}
    plain = parser.parse_model(text.format(width=width, extra="", last="b"))
    slow = parser.parse_model(text.format(width=width, extra=chr(10).join(steps), last=names[-1]))
    identities = {f"same{n}": np.eye(width) for n in range(products)}
    for model, stored in ((plain, weights), (slow, weights | identities)):
        model.graph.initializer.extend(
            numpy_helper.from_array(value.astype(np.float32), name) for name, value in stored.items()
        )
        onnx.checker.check_model(model, full_check=True)
    return plain, slow
