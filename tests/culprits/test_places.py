"""How many places are put right together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from orun.culprits import accuracy, latency
from orun.culprits.found import Place


def places(shares: Sequence[float]) -> list[Place]:
    return [Place(f"node {number}", share, (), "MatMul") for number, share in enumerate(shares)]


@pytest.mark.parametrize(
    ("shares", "error", "time"),
    [
        ([0.9, 0.05], 1, 1),
        ([0.5, 0.4, 0.1], 2, 2),
        ([0.3, 0.2], 2, 2),
        ([0.1] * 7, 5, 5),  # not most of it, and as many as are put right at all
        ([0.03] * 7, 0, 5),  # error that comes from everywhere accuses none
        ([0.9, -0.4], 1, 1),
        ([0.5, -0.4, 0.4], 3, 3),
        ([], 0, 0),
    ],
)
def test_as_many_as_bring_most_of_it(shares: list[float], error: int, time: int) -> None:
    assert accuracy._chosen(places(shares)) == error
    assert latency._chosen(places(shares)) == time
