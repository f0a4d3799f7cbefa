"""The table of gates: its intervals, and what is counted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks.gate_power import judge_measurement, order_cases
from benchmarks.gate_table import share, table
from benchmarks.rival_gates import RIVALS
from orun.measure.latency.measurement import Measurement
from orun.measure.latency.pressure import Pressure
from tests.measure.support import launched


def test_a_share_with_its_interval() -> None:
    assert share(1, 2) == "1: 50.0 % (1.3 to 98.7)"


def line(
    planted: float, ours: str, seconds: float, ratio: float, rivals: dict[str, bool] | None = None
) -> dict[str, Any]:
    record = {"planted": planted, "limit": 0.05, "ours": ours, "seconds": seconds, "cpu_seconds": 6.0, "load": 4.0}
    return record | {"pressure": 0.5, "launches": [math.log1p(ratio)] * 3} | ({"rivals": rivals} if rivals else {})


def test_what_the_table_counts() -> None:
    rivals = dict.fromkeys(RIVALS, False) | {"mean of 100 runs": True}
    lines = [line(0.0, "passed", 7.0, 0.0, rivals), line(0.0, "undecided", 21.0, 0.0), line(0.05, "failed", 9.0, 0.048)]
    rows = table(lines)
    assert rows[2] == (
        "| 0% (0.0%) | 5% | **orun** | 2 | 0: 0.0 % (0.0 to 84.2) | 1: 50.0 % (1.3 to 98.7) | 14.0 / 20.3 | 6.0 |"
    )
    assert rows[3] == "| 0% (0.0%) | 5% | mean of 100 runs | 1 | 1: 100.0 % (2.5 to 100.0) | | | |"
    assert rows[-4] == (
        "| 5% (4.8%) | 5% | **orun** | 1 | 1: 100.0 % (2.5 to 100.0) | 0: 0.0 % (0.0 to 97.5) | 9.0 / 9.0 | 6.0 |"
    )
    assert rows[-2:] == [
        "load while measuring: median 4.0, from 4.0 to 4.0",
        "some thread waited for a core: median 50% of the time, to 50% of it",
    ]


def test_what_is_missing_is_spread_evenly() -> None:
    records = [{"planted": 0.0, "limit": 0.05}]
    equal, slower = (0.0, 0.05), (0.05, 0.05)
    assert order_cases({equal: 4, slower: 2}, records) == [slower, equal, equal, slower, equal]


@pytest.mark.parametrize(("ratio", "outcome"), [(0.0, "passed"), (0.05, "failed")])
def test_a_gate_of_the_benchmark_is_one_of_a_pipeline(ratio: float, outcome: str) -> None:
    launches = [
        launched({"model": [0.02], "baseline": [0.02]}, {"baseline": ratio + off}) for off in (-0.002, 0, 0.002)
    ]
    verdict, why = judge_measurement(Measurement(launches, 6.5, Pressure(0.25, 3.0)), 0.05, 1)
    assert verdict == outcome
    assert why.startswith("the regression of p50 against the accepted baseline is ")
