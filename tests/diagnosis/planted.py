"""Small models with a planted fault each, whose place a diagnosis has to find."""

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
    """Three products, of which the `second` has one weight that is so large that int8 leaves nothing of the others.

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
