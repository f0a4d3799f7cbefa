"""Sizes that ONNX Runtime's inference finds, the same for each supported version."""

from __future__ import annotations

import pytest

from orun.stages._graph.symbolic import infer
from tests.stages.models import parse, shapes_of

FILLED = """
<ir_version: 9, opset_import: ["" : 20]>
filled (float[n, s, 8] x) => (float y)
{
  sizes = Shape <AXES> (x)
  ones = ConstantOfShape (sizes)
  y = ReduceSum <keepdims = 0> (ones)
}
"""


@pytest.mark.parametrize(
    ("axes", "sizes"),
    [
        ("start = 0, end = 1", ["n"]),
        ("start = 1", ["s", 8]),
        ("start = 0, end = -1", ["n", "s"]),
        ("start = -1, end = 9", [8]),
        ("start = -9, end = 2", ["n", "s"]),
        ("start = 0", ["n", "s", 8]),
    ],
)
def test_the_sizes_of_some_axes(axes: str, sizes: list[str | int]) -> None:
    model = infer(parse(FILLED.replace("AXES", axes)))
    assert shapes_of(model.graph.value_info)["ones"] == sizes
