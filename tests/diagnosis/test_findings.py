"""Figures of a whole comparison of two models."""

from __future__ import annotations

import numpy as np
from onnx import parser

from orun.core.targets import Target
from orun.diagnosis.findings import Effort, analyse
from orun.diagnosis.values import Pair

FEEDS = [{"x": np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)}]
MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3] x) => (float y) {
  two = Constant<value = float {2}>()
  a = Mul(x, two)
  b = Dropout(a)
  sizes = Shape(b)
  c = Flatten<axis = 1>(b)
  y = ReduceSum<keepdims = 0>(c)
}
"""


def count_unmatched(text: str) -> int:
    """Return how many tensors of the model above a model lacks, by `analyse`."""
    model, reference = parser.parse_model(text), parser.parse_model(MODEL)
    for each in (model, reference):
        each.graph.node[2].output.append("")  # the mask, which is left out
    pair = Pair(model, reference, FEEDS, Target("cpu"))
    return analyse(pair, Effort(0, 0.0), lambda *_: None).unmatched


def test_every_tensor_of_a_model_is_matched_by_itself() -> None:
    assert count_unmatched(MODEL) == 0


def test_a_tensor_of_another_shape_is_unmatched() -> None:
    assert count_unmatched(MODEL.replace("axis = 1", "axis = 0")) == 1


def test_a_tensor_that_is_not_there_is_unmatched() -> None:
    assert count_unmatched(MODEL.replace("  sizes = Shape(b)\n", "")) == 1
