"""Number of places that are restored together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from orun.blame import accuracy, latency
from orun.blame.diagnosis import Place
from orun.core.serialization import replace
from orun.pipeline.model import Stage
from tests.gates.support import PLACE


def places(shares: Sequence[float]) -> list[Place]:
    return [Place(f"node {number}", share, (), "MatMul") for number, share in enumerate(shares)]


@pytest.mark.parametrize(
    ("shares", "error", "time"),
    [
        ([0.9, 0.05], 1, 1),
        ([0.5, 0.4, 0.1], 2, 2),
        ([0.3, 0.2], 2, 2),
        ([0.1] * 7, 5, 5),  # not most of it, and as many as are restored at all
        ([0.03] * 7, 0, 5),  # error from everywhere has no culprit
        ([0.9, -0.4], 1, 1),
        ([0.5, 0.4, -0.4], 2, 2),
        ([0.29, 0.28, 0.001, 0.0, -254.6], 2, 5),  # a place that compensates for others is not restored with them
        ([], 0, 0),
    ],
)
def test_as_many_as_bring_most_of_it(shares: list[float], error: int, time: int) -> None:
    assert accuracy.count_chosen(places(shares)) == error
    assert latency.count_chosen(places(shares)) == time


@pytest.mark.parametrize("cut_off", [True, False])
def test_an_error_of_the_kernels_of_this_processor_says_what_to_do(
    cut_off: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "saturates", lambda: cut_off)
    table = {"error": 0.1, "optimized_error": 8.7}
    stage = Stage("int8", "quantize/static", PLACE, params={"reduce_range": False})
    start = (
        "with ONNX Runtime's optimizations the error is 87 times as large: a kernel of ONNX Runtime causes it, "
        "not a node"
    )
    why = "this processor, without VNNI, saturates sums of 8-bit products"
    advice = f"{why}: `reduce_range: true` of `int8` avoids it"
    assert [*accuracy.describe_kernel_error(table, stage)] == [start, *([advice] if cut_off else [])]
    assert [*accuracy.describe_kernel_error(table, replace(stage, params={"reduce_range": True}))] == [start]
    assert [*accuracy.describe_kernel_error(table, replace(stage, uses="optimize/float16", params={}))] == [start]
    assert [*accuracy.describe_kernel_error(table | {"optimized_error": 0.1}, stage)] == []
