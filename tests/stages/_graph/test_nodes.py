from __future__ import annotations

from graphlib import CycleError

import onnx
import pytest

from orun.stages._graph.nodes import sort_nodes

BRANCHES = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[4] x, bool c) => (float[4] y)
{
  y = If (c) <
    then_branch = yes () => (float[4] u) { v = Neg(b) u = Neg(v) },
    else_branch = no () => (float[4] k) {
      k = If (c) <then_branch = t () => (float[4] m) { m = Neg(a) }, else_branch = e () => (float[4] o) { o = Neg(x) }>
    }
  >
  d = Neg(x)
  b = Neg(a)
  a = Neg(x)
}
"""


def test_what_branches_read_comes_before_them_and_the_rest_stays() -> None:
    model = onnx.parser.parse_model(BRANCHES)
    sort_nodes(model.graph)
    assert [node.output[0] for node in model.graph.node] == ["d", "a", "b", "y"]
    onnx.checker.check_model(model)
    before = model.SerializeToString()
    sort_nodes(model.graph)
    assert model.SerializeToString() == before


def test_a_circle() -> None:
    model = onnx.parser.parse_model(BRANCHES.replace("a = Neg(x)", "a = Neg(y)"))
    with pytest.raises(CycleError):
        sort_nodes(model.graph)
