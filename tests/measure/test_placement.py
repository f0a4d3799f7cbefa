"""Placement of nodes, as the session reports it, against the target's `fallback`."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from orun.core.targets import Fallback, Provider, Target
from orun.errors import UsageError
from orun.measure.placement import (
    PlacedNode,
    Subgraph,
    check_fallback,
    list_cpu_nodes,
    read_placement,
    read_shape_nodes,
)
from orun.measure.session import open_session

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 2] x) => (float[2, 2] y) { m = Sigmoid(x)
y = Add(m, x) }
"""
SHAPES = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 4] x) => (float[a, b] y)
<int64[1] first = {0}, int64[1] rest = {-1}, int8[4] q = {1, 2, 3, 4}, float scale = {0.5}> {
  [shape] sizes = Shape (x)
  [gather] rows = Gather (sizes, first)
  [joined] both = Concat <axis = 0> (rows, rest)
  [reshape] z = Reshape (x, both)
  [weights] w = DequantizeLinear (q, scale)
  [add] y = Add (z, w)
}
"""


def target(fallback: Fallback) -> Target:
    return Target("gpu", (Provider("CUDAExecutionProvider"),), fallback=fallback)


def placed(count: int) -> list[Subgraph]:
    nodes = tuple(PlacedNode(f"n{index}" if index else "", "Shape") for index in range(count))
    return [Subgraph("CUDAExecutionProvider", nodes), Subgraph("CPUExecutionProvider", nodes)]


def test_a_session_says_where_its_nodes_landed(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    placements = read_placement(open_session(tmp_path / "model.onnx", Target("cpu"), watched=True))
    assert {placement.provider for placement in placements} == {"CPUExecutionProvider"}
    fallen, on_shapes = list_cpu_nodes(placements, tmp_path / "model.onnx")
    assert sorted(map(str, fallen)) == ["(unnamed) (Add)", "(unnamed) (Sigmoid)"]
    assert on_shapes == []


def test_nodes_that_compute_with_shapes_belong_on_the_cpu(tmp_path: Path) -> None:
    """Not so those that read values, or constants alone, such as quantized weights."""
    onnx.save(onnx.parser.parse_model(SHAPES), tmp_path / "model.onnx")
    assert read_shape_nodes(tmp_path / "model.onnx") == {"gather", "joined"}
    nodes = tuple(PlacedNode(name, name.title()) for name in ("gather", "joined", "reshape", "weights"))
    fallen, on_shapes = list_cpu_nodes([Subgraph("CPUExecutionProvider", nodes)], tmp_path / "model.onnx")
    assert [node.name for node in fallen] == ["reshape", "weights"]
    assert [node.name for node in on_shapes] == ["gather", "joined"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_forbid_cpu_names_the_nodes(model: Path) -> None:
    with pytest.raises(UsageError) as error:
        check_fallback(target("forbid-cpu"), placed(7), model)
    assert str(error.value) == (
        "target 'gpu' forbids the CPU, and 7 nodes landed on it\n"
        "  (unnamed) (Shape), n1 (Shape), n2 (Shape), n3 (Shape), n4 (Shape) and 2 more\n"
        "  hint: allow it with `fallback: warn`, or change the model so that the provider takes these nodes"
    )


def test_warn_says_it_in_the_log(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    check_fallback(target("warn"), placed(1), model)
    assert caplog.messages == ["target 'gpu': 1 node on the CPU: (unnamed) (Shape)"]


@pytest.mark.parametrize(("fallback", "count"), [("allow", 3), ("forbid-cpu", 0)])
def test_what_is_allowed_or_not_there_is_nothing_to_say(
    model: Path, fallback: Fallback, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    check_fallback(target(fallback), placed(count), model)
    assert caplog.messages == []
