"""The table of fresh runs: how their gates were judged, and how many intervals hold the pooled value."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.interval_coverage import Case, missing_cases, table, weighted_median
from orun.core.metrics import Comparison, Estimate, Metric
from orun.core.serialization import encode

FLOAT, INT8 = Case("20us", 1, "float", 0), Case("20us", 1, "int8", 0)


def line(case: Case, ratio: Estimate) -> dict[str, Any]:
    """A run of three launches in which the model took `ratio` times as long as the other, or was so much faster."""
    if case.pair == "int8":
        metrics = {"speedup": Metric(ratio.value, "x", "higher", "timing", ratio)}
    else:
        difference = Estimate(*(bound - 1 for bound in (ratio.value, ratio.low, ratio.high)))
        baseline = Comparison(1.0, ratio, difference, "by test, 3 launches", 3)
        metrics = {"p50": Metric(ratio.value, "s", "lower", "timing", ratio, baseline=baseline)}
    return {"case": case.name, "metrics": encode(metrics), "launches": [0.0] * 3, "seconds": 4.0, "load": 2.0}


def cells(lines: list[dict[str, Any]]) -> list[list[str]]:
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table(lines).splitlines()[2:]]


def test_a_regression_that_is_none() -> None:
    (row,) = cells([line(FLOAT, Estimate(1.0, 0.98, 1.02)), line(FLOAT, Estimate(1.2, 1.18, 1.22))])
    assert row[5:10] == ["p50 max_regression 5%", "2", "1", "1", "0"]
    assert row[10:] == ["1: 50.0 % (1.3 to 98.7)", "1.200", "4.0 / 4.0"]


def test_a_speed_up_has_a_limit_on_either_side_of_the_pooled_value() -> None:
    values = [Estimate(1.5, 1.45, 1.55), Estimate(1.5, 1.3, 1.7), Estimate(0.9, 0.85, 0.95)]
    kept, missed = cells([line(INT8, value) for value in values])
    assert kept[5:10] == ["speedup min 1.35", "3", "1", "1", "1"]
    assert missed[5:10] == ["speedup min 1.65", "3", "0", "2", "1"]
    assert kept[10] == missed[10] == "2: 66.7 % (9.4 to 99.2)"


def test_runs_that_know_little_do_not_move_the_pooled_value() -> None:
    assert weighted_median([(3.6, 1.0), (3.7, 1.0), (3.2, 9.0)]) == 3.2
    assert weighted_median([(3.6, 1.0), (3.2, 1.0), (3.4, 1.0)]) == 3.4


@pytest.mark.parametrize(("recorded", "missing"), [(0, 4), (1, 3), (4, 0)])
def test_a_benchmark_goes_on_where_it_stopped(recorded: int, missing: int) -> None:
    cases = [FLOAT, INT8]
    order = [(case, seed) for seed in range(2) for case in cases]
    lines = [line(case, Estimate(1.0, 0.9, 1.1)) for case, _ in order[:recorded]]
    assert missing_cases(cases, 2, lines) == order[recorded:]
    assert len(order[recorded:]) == missing
