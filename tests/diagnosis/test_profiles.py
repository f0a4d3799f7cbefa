"""Times of nodes over launches, from made-up profiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from orun.diagnosis.profiles import TICK, ModelTimes, combine_launches
from orun.measure.latency.nodes import Node, Profile


def profile(times: Mapping[str, list[float]], totals: list[float]) -> Profile:
    """Return a launch: times of each node in each inference, and times of the inferences."""
    nodes = tuple(Node(name, name, "MatMul", "CPUExecutionProvider", "1") for name in times)
    return Profile(nodes, np.array(list(times.values())).T.reshape(len(totals), len(times)), np.array(totals))


def by_name(model_times: ModelTimes) -> dict[str, float]:
    return {item.node.name: item.seconds for item in model_times.nodes}


def test_the_median_of_launches_of_the_fastest_times() -> None:
    """The fastest tenth of few inferences is one inference."""
    launches = [profile({"a": [first, 9.0], "b": [0.5, 0.4]}, [first + 1.0, 20.0]) for first in (2.0, 3.0, 7.0)]
    model_times = combine_launches(launches)
    assert by_name(model_times) == {"a": 3.0, "b": 0.4}
    assert model_times.totals == pytest.approx((2.4, 3.4, 7.4))
    assert model_times.total == pytest.approx(3.4)
    assert model_times.outside == pytest.approx(0.6)


def test_a_node_that_a_launch_lacks_counts_in_none() -> None:
    model_times = combine_launches([profile({"a": [2.0], "b": [1.0]}, [3.5]), profile({"a": [2.0]}, [2.5])])
    assert by_name(model_times) == {"a": 2.0}
    assert model_times.totals == (2.0, 2.0)


def test_what_is_too_short_to_be_told_is_a_tick_and_no_less_than_nothing() -> None:
    """The profiler rounds, so that nodes together may take longer than the inference."""
    model_times = combine_launches([profile({"a": [0.0]}, [0.0]), profile({"a": [0.0]}, [0.0])])
    assert (model_times.total, model_times.totals) == (TICK, (TICK, TICK))
    assert combine_launches([profile({"a": [2.0]}, [1.9])]).outside == 0.0
