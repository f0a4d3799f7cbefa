from __future__ import annotations

import pytest

from orun.gates.judge import judge
from orun.gates.regression import Terms
from orun.metrics import Metric, Unit
from orun.pipeline.model import Gate, Rule, Stage, Threshold
from orun.places import Position
from tests.gates.support import HERE, action

PLACE = Position("bert.yaml", 44, 7)


def verdict(metric: Metric, rule: Rule, threshold: Threshold) -> tuple[str, str]:
    stage = Stage("latency", "measure/latency", PLACE, gates=(Gate("p50", rule, threshold, "pass", PLACE),))
    (found,) = judge(stage, action({"p50": metric}), Terms(None, HERE))
    return found.outcome, found.why


@pytest.mark.parametrize(
    ("unit", "threshold", "why"),
    [
        ("s", Threshold(300e6, False, "300MB", "B"), "p50 cannot be held against 300MB: it is a time"),
        ("B", Threshold(0.012, False, "12ms", "s"), "p50 cannot be held against 12ms: it is a size"),
        ("s", Threshold(0.05, False, "5%", "ratio"), "p50 cannot be held against 5%: it is a time"),
        ("ratio", Threshold(1.5, False, "1.5x", "x"), "p50 cannot be held against 1.5x: it is a proportion"),
        ("1/s", Threshold(1.0, False, "1s", "s"), "p50 cannot be held against 1s: it is a rate in 1/s"),
        ("", Threshold(1.0, False, "1B", "B"), "p50 cannot be held against 1B: it has no unit"),
    ],
)
def test_a_threshold_in_another_unit_fails(unit: Unit, threshold: Threshold, why: str) -> None:
    assert verdict(Metric(0.001, unit, "lower"), "max", threshold) == ("failed", why)


@pytest.mark.parametrize(
    ("unit", "threshold"),
    [
        ("s", Threshold(0.012, False, "12ms", "s")),
        ("s", Threshold(0.012, False, "0.012")),
        ("ratio", Threshold(0.05, False, "5%", "ratio")),
        ("", Threshold(0.05, False, "5%", "ratio")),
        ("x", Threshold(1.5, False, "1.5x", "x")),
    ],
)
def test_a_threshold_in_the_metrics_unit_is_judged(unit: Unit, threshold: Threshold) -> None:
    assert verdict(Metric(0.001, unit, "lower"), "max", threshold)[0] == "passed"
