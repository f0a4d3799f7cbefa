"""Advice of an undecided gate: its settings make the measurement go on, and long enough."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from orun.core.reason import Reason
from orun.core.serialization import replace
from orun.core.verdict import Verdict
from orun.gates.advice import advise_for_figure, advise_for_ratio, advise_for_slowdown
from orun.measure.latency import measurement
from orun.measure.latency.launch import Launch
from orun.measure.latency.metrics import build_metrics
from orun.measure.latency.sequential_test import Evidence
from orun.measure.workers import WorkerProcess
from orun.pipeline.model import Gate
from orun.stages.measure.latency import Params, build_budget
from orun.stages.params import Duration, Ratio
from orun.text.wording.advice import format_advice
from tests.facts import explain_verdict
from tests.gates.support import PARAMS, accepted, gate, verdict_of
from tests.measure.support import case_of, launched

TRIALS = 60
OPEN = Evidence(4, math.log(1.025), 0.01)  # half way to 5 %
FIVE = math.log1p(0.05)
AGAIN = "measure again with --fresh"
TOO_NEAR = "it is too near for this stage: choose another threshold"


def sentence(forecast: Reason) -> str:
    return format_advice((forecast,)).removeprefix(": ")


@pytest.mark.parametrize(
    ("evidence", "percent", "expected"),
    [
        (Evidence(3, math.log(3), 0.3), 900, "set `resolution: 900%`, and launches go on until they decide it"),
        (OPEN, 2.55, "its time was used up: set `resolution: 2.5%` and a longer `time`"),
        (OPEN, 5, "its time was used up: set a longer `time`"),
        (replace(OPEN, count=30), 5, "its time was used up: set a longer `time` and more `max_launches`"),
        (OPEN, 5.2, "its time was used up: set a longer `time`"),
        (Evidence(3, 0.002, 0.008), 0.4, "it is too near for this stage: choose another threshold"),
    ],
)
def test_a_slow_down_that_launches_are_made_for(evidence: Evidence, percent: float, expected: str) -> None:
    assert sentence(advise_for_slowdown("p50", evidence, math.log1p(percent / 100), PARAMS)) == expected


@pytest.mark.parametrize(
    ("spread", "params", "expected"),
    [
        (0.02, PARAMS, "about 28 launches would decide it: set `min_launches: 28`"),
        (0.03, PARAMS, "about 54 launches would decide it: set `min_launches: 54` and `max_launches: 54`"),
        (0.02, {"launches": 6}, "about 28 launches would decide it: set `launches: 28`"),
        (0.02, {"rounds": 6, "time": 2.0}, "about 28 rounds would decide it: set `rounds: 28`"),
        (0.2, PARAMS, "over 100 launches would decide it: choose another threshold, or measure where less disturbs"),
        (0.02, {}, AGAIN),
    ],
)
def test_what_other_figures_need(spread: float, params: Mapping[str, Any], expected: str) -> None:
    assert sentence(advise_for_slowdown("p99", replace(OPEN, spread=spread), FIVE, params)) == expected


@pytest.mark.parametrize(
    ("metric", "width", "share", "expected"),
    [
        ("speedup", 0.02, 0.7, "set `resolution: 2.2%`, and launches go on until they decide it"),
        ("speedup", 0.05, 0.9, "its time was used up: set a longer `time`"),
        ("speedup", 0.05, 0.62, "its time was used up: set a longer `time`"),
        ("speedup", 0.05, 0.59, TOO_NEAR),  # launches of a run have something in common, however many there are
        ("speedup", 0.02, 0.0, TOO_NEAR),
        ("mean", 0.02, 0.7, "about 16 launches would decide it: set `min_launches: 16`"),
        ("speedup", math.inf, 0.0, AGAIN),
    ],
)
def test_an_interval_that_is_too_wide(metric: str, width: float, share: float, expected: str) -> None:
    params = PARAMS if math.isfinite(width) else {}
    assert sentence(advise_for_ratio(metric, width, share, 4, params)) == expected


@pytest.mark.parametrize(
    ("metric", "bounded", "params", "expected"),
    [
        ("p50", True, PARAMS, "raise `min_launches` and `samples`"),
        ("p99", False, PARAMS, "raise `samples`"),
        ("cpu", True, PARAMS, "raise `min_launches`"),
        ("load", True, {"launches": 6}, "raise `launches`"),
        ("wait", True, {}, AGAIN),
    ],
)
def test_a_figure_by_itself(metric: str, params: Mapping[str, Any], expected: str, *, bounded: bool) -> None:
    assert sentence(advise_for_figure(metric, params, bounded=bounded)) == expected


CASES = {
    "x3, and far more allowed": ("baseline", gate("p50", "max_regression", "900%", 9.0), 3.0, 0.3),
    "a tenth, and a fifth allowed": ("baseline", gate("p50", "max_regression", "20%", 0.2), 1.1, 0.03),
    "none, finer than asked for": ("baseline", gate("p50", "max_regression", "2%", 0.02), 1.0, 0.01),
    "in milliseconds": ("baseline", gate("p50", "max_regression", "0.6s", 0.6), 1.3, 0.06),
    "a speed-up near its limit": ("reference", gate("p50", "min_speedup", "1.44", 1.44), 1 / 1.48, 0.012),
    "the same by its own name": ("reference", gate("speedup", "min", "1.44", 1.44), 1 / 1.48, 0.012),
}


@pytest.mark.parametrize(("other", "condition", "truth", "spread"), CASES.values(), ids=CASES)
def test_what_it_says_decides_it(
    monkeypatch: pytest.MonkeyPatch, other: str, condition: Gate, truth: float, spread: float
) -> None:
    """Measure as the stage does, with launches of a known spread, and do as the verdict says where it is undecided."""
    generator, advices, decided = random.Random(0), 0, 0

    def draw_launch(*_: object) -> Launch:
        ratio = generator.gauss(math.log(truth), spread)
        return launched({"model": [math.exp(ratio)] * 6, other: [1.0] * 6}, {other: ratio})

    monkeypatch.setattr(measurement, "run_launch", draw_launch)
    for _ in range(TRIALS):
        verdict = measured(other, condition, Params(time=Duration(1e6)))
        if verdict.outcome != "undecided" or TOO_NEAR in explain_verdict(verdict):
            continue
        advices += 1
        advised = re.search(r"`resolution: ([\d.]+)%`", explain_verdict(verdict))
        assert advised, explain_verdict(verdict)
        again = measured(other, condition, Params(time=Duration(1e6), resolution=Ratio(float(advised[1]) / 100)))
        decided += again.outcome != "undecided"
    assert advices >= 5
    assert decided >= 0.9 * advices


def measured(other: str, condition: Gate, params: Params) -> Verdict:
    cases = {name: case_of(Path(name)) for name in ("model", other)}
    result = measurement.measure(cases, build_budget(params), 0, lambda *_: None, WorkerProcess)
    known = accepted({}) if other == "baseline" else None
    parameters = {"resolution": params.resolution, "time": params.time, "max_launches": 30, "min_launches": 3}
    return verdict_of(condition, build_metrics(result, 1), known, params=parameters)


def test_as_many_launches_as_it_says_decide_it_for_the_most_part() -> None:
    """Of figures for which launches do not go on, how many there must be is forecast from those that there were."""
    advices = list(forecasts())
    assert len(advices) >= 10
    assert sum(advices) >= 0.8 * len(advices)


def forecasts() -> Iterator[bool]:
    generator = random.Random(0)

    def draw(count: int) -> Evidence:
        return Evidence.from_log_ratios([generator.gauss(math.log(1.1), 0.03) for _ in range(count)])

    for _ in range(TRIALS):
        first = draw(3)
        if first.answer(math.log(1.2)) == "undecided":
            advised = re.search(
                r"`min_launches: (\d+)`", sentence(advise_for_slowdown("mean", first, math.log(1.2), PARAMS))
            )
            assert advised
            yield draw(int(advised[1])).answer(math.log(1.2)) != "undecided"
