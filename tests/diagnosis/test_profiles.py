"""Times of nodes over launches, from profiles that nobody measured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from orun.diagnosis.profiles import TICK, ModelTimes, _times
from orun.measure.latency.nodes import Node, Profile


def profile(times: Mapping[str, list[float]], whole: list[float]) -> Profile:
    """A launch: the times of each node in its inferences, and those of the inferences."""
    nodes = tuple(Node(name, name, "MatMul", "CPUExecutionProvider", "1") for name in times)
    return Profile(nodes, np.array(list(times.values())).T.reshape(len(whole), len(times)), np.array(whole))


def by_name(found: ModelTimes) -> dict[str, float]:
    return {one.node.name: one.seconds for one in found.nodes}


def test_the_median_of_launches_of_the_fastest_times() -> None:
    """Of few inferences the fastest tenth is one."""
    launches = [profile({"a": [first, 9.0], "b": [0.5, 0.4]}, [first + 1.0, 20.0]) for first in (2.0, 3.0, 7.0)]
    found = _times(launches)
    assert by_name(found) == {"a": 3.0, "b": 0.4}
    assert found.totals == pytest.approx((2.4, 3.4, 7.4))
    assert found.total == pytest.approx(3.4)
    assert found.outside == pytest.approx(0.6)


def test_a_node_that_a_launch_lacks_counts_in_none() -> None:
    found = _times([profile({"a": [2.0], "b": [1.0]}, [3.5]), profile({"a": [2.0]}, [2.5])])
    assert by_name(found) == {"a": 2.0}
    assert found.totals == (2.0, 2.0)


def test_what_is_too_short_to_be_told_is_a_tick_and_no_less_than_nothing() -> None:
    """The profiler rounds: nodes may take longer together than the inference."""
    found = _times([profile({"a": [0.0]}, [0.0]), profile({"a": [0.0]}, [0.0])])
    assert (found.total, found.totals) == (TICK, (TICK, TICK))
    assert _times([profile({"a": [2.0]}, [1.9])]).outside == 0.0
