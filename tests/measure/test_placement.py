"""Placement of nodes, as the session reports it, against the target's `fallback`."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from orun.core.targets import Fallback, Provider, Target
from orun.errors import UsageError
from orun.measure.placement import PlacedNode, Subgraph, check_fallback, cpu_nodes, read_placement
from orun.measure.session import open_session

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 2] x) => (float[2, 2] y) { m = Sigmoid(x)
y = Add(m, x) }
"""


def target(fallback: Fallback) -> Target:
    return Target("gpu", (Provider("CUDAExecutionProvider"),), fallback=fallback)


def placed(count: int) -> list[Subgraph]:
    nodes = tuple(PlacedNode(f"n{index}" if index else "", "Shape") for index in range(count))
    return [Subgraph("CUDAExecutionProvider", nodes), Subgraph("CPUExecutionProvider", nodes)]


def test_a_session_says_where_its_nodes_landed(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    found = read_placement(open_session(tmp_path / "model.onnx", Target("cpu"), watched=True))
    assert {one.provider for one in found} == {"CPUExecutionProvider"}
    assert sorted(str(node) for node in cpu_nodes(found)) == ["(unnamed) (Add)", "(unnamed) (Sigmoid)"]


def test_forbid_cpu_names_the_nodes() -> None:
    with pytest.raises(UsageError) as error:
        check_fallback(target("forbid-cpu"), placed(7))
    assert str(error.value) == (
        "target 'gpu' forbids the CPU, and 7 nodes landed on it\n"
        "  (unnamed) (Shape), n1 (Shape), n2 (Shape), n3 (Shape), n4 (Shape) and 2 more\n"
        "  hint: allow it with `fallback: warn`, or change the model so that the provider takes these nodes"
    )


def test_warn_says_it_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    check_fallback(target("warn"), placed(1))
    assert caplog.messages == ["target 'gpu': 1 node on the CPU: (unnamed) (Shape)"]


@pytest.mark.parametrize(("fallback", "count"), [("allow", 3), ("forbid-cpu", 0)])
def test_what_is_allowed_or_not_there_is_nothing_to_say(
    fallback: Fallback, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    check_fallback(target(fallback), placed(count))
    assert caplog.messages == []
