"""New names for the inputs and outputs of a graph, and for those of the graphs inside its nodes."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime

from orun.stages._graph.feeds import Case
from orun.stages._graph.names import declare_output_axes, name_values
from tests.stages.models import parse, shapes_of

BRANCHES = """
<ir_version: 9, opset_import: ["" : 20]>
g (bool flag, float[2] a) => (float[2] b)
{
  b = If (flag) <
    then_branch = one () => (float[2] y) { y = Neg (a) },
    else_branch = two () => (float[2] y) { y = Abs (a) }
  >
}
"""
LOOP = """
<ir_version: 9, opset_import: ["" : 20]>
g (int64 n, float[2] a) => (float[2] b)
{
  b = Loop (n, , a) <
    body = step (int64 i, bool go, float[2] x) => (bool on, float[2] y) { on = Identity (go)  y = Add (x, a) }
  >
}
"""


def run(model: onnx.ModelProto, **feed: object) -> list[list[float]]:
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return [value.tolist() for value in session.run(None, feed)]


def test_an_inner_graph_that_yields_a_value_of_the_new_name() -> None:
    model = parse(BRANCHES)
    name_values(model, ["c", "x"], ["y"])
    assert run(model, c=np.array(True), x=np.array([1, -2], np.float32)) == [[-1, 2]]
    assert run(model, c=np.array(False), x=np.array([1, -2], np.float32)) == [[1, 2]]


def test_an_inner_graph_that_takes_a_value_of_the_new_name() -> None:
    model = parse(LOOP)
    name_values(model, ["count", "x"], ["y"])
    assert run(model, count=np.array(2), x=np.array([1, -2], np.float32)) == [[3, -6]]


SELECTION = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[9] a) => (float[found, 2] rows, float[late] doubled, float[early] other)
{
  places = NonZero (a)
  columns = Transpose (places)
  pair = Concat <axis = 1> (columns, columns)
  rows = Cast <to = 1> (pair)
  mask = Cast <to = 9> (a)
  kept = Compress (a, mask)
  doubled = Add (kept, kept)
  other = Neg (a)
}
"""


def test_an_axis_that_depends_on_values_stays_dynamic() -> None:
    model = parse(SELECTION)
    declare_output_axes(model, [Case("", {}, {})] * 2, [[np.zeros((5, 2)), np.zeros(8), np.zeros(9)]] * 2)
    assert shapes_of(model.graph.output) == {"rows": ["rows_0", 2], "doubled": ["doubled_0"], "other": [9]}


def test_an_axis_that_depends_on_values_within_a_branch_stays_dynamic() -> None:
    model = parse(BRANCHES.replace("(float[2] b)", "(float[n] b)").replace("y = Abs (a)", "y = Compress (a, flag)"))
    declare_output_axes(model, [Case("", {}, {})] * 2, [[np.zeros(2)]] * 2)
    assert shapes_of(model.graph.output) == {"b": ["b_0"]}
