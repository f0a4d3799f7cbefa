"""Thresholds of another scale or direction than their metric, which fail."""

from __future__ import annotations

import pytest

from orun.core.metrics import Better, Metric, Unit
from orun.gates.judge import judge
from orun.gates.regression import Terms
from orun.pipeline.model import Gate, Rule, Stage, Threshold
from orun.planning.key_diff import list_key_changes
from tests.facts import explain_verdict
from tests.gates.support import HERE, PLACE, action, compared


def verdict(metric: Metric, rule: Rule, threshold: Threshold) -> tuple[str, str]:
    stage = Stage("latency", "measure/latency", PLACE, gates=(Gate("p50", rule, threshold, "block", PLACE),))
    (judged,) = judge(stage, action({"p50": metric}), Terms(None, HERE, list_key_changes))
    return judged.outcome, explain_verdict(judged)


@pytest.mark.parametrize(
    ("unit", "threshold", "why"),
    [
        ("s", Threshold(300e6, False, "300MB", "B"), "'300MB': it is a time; expected a duration such as 12ms"),
        ("B", Threshold(0.012, False, "12ms", "s"), "'12ms': it is a size; expected a size such as 300MB"),
        ("s", Threshold(0.05, False, "5%", "ratio"), "'5%': it is a time; expected a duration such as 12ms"),
        (
            "ratio",
            Threshold(0.5, False, "0.5x", "x"),
            "'0.5x': it is a proportion; expected a proportion such as 5%, or a number",
        ),
        (
            "1/s",
            Threshold(1.0, False, "1s", "s"),
            "'1s': it is a rate in 1/s; expected a rate such as 90/s, or a number",
        ),
        ("", Threshold(1.0, False, "1B", "B"), "'1B': it has no unit; expected a number"),
        ("s", Threshold(12.0, False, "12"), "'12': it is a time; expected a duration such as 12ms"),
        ("B", Threshold(300.0, False, "300"), "'300': it is a size; expected a size such as 300MB"),
        (
            "ratio",
            Threshold(5.0, False, "5"),
            "'5': it is a proportion, at most 1; expected a proportion such as 5%, or a number; did you mean 5%?",
        ),
    ],
)
def test_a_threshold_in_another_scale_fails(unit: Unit, threshold: Threshold, why: str) -> None:
    """Of a function of the user's own the unit is known when it has measured: 12 s would let any latency pass."""
    judged = verdict(Metric(0.001, unit, "lower"), "max", threshold)
    assert judged == ("failed", f"'p50' cannot be held against {why}")


@pytest.mark.parametrize(
    ("unit", "threshold"),
    [
        ("s", Threshold(0.012, False, "12ms", "s")),
        ("s", Threshold(0.0, False, "0")),
        ("ratio", Threshold(0.05, False, "5%", "ratio")),
        ("", Threshold(0.05, False, "5%", "ratio")),
        ("x", Threshold(1.5, False, "1.5x", "x")),
    ],
)
def test_a_threshold_in_the_metrics_unit_is_judged(unit: Unit, threshold: Threshold) -> None:
    assert verdict(Metric(0.0, unit, "lower"), "max", threshold)[0] == "passed"


@pytest.mark.parametrize("rule", ["min", "max"])
def test_a_figure_from_0_to_100_is_not_held_against_a_proportion(rule: Rule) -> None:
    limit = Threshold(0.3, False, "30%", "ratio")
    assert verdict(Metric(27.3), rule, limit) == (
        "failed",
        "'p50' cannot be held against '30%', which is 0.3: it is 27.3, and no proportion; expected a number without %",
    )
    assert verdict(Metric(0.31), "min", limit)[0] == "passed"
    assert verdict(Metric(1.3), "min", Threshold(1.2, False, "120%", "ratio"))[0] == "passed"


def test_a_percentage_that_calls_itself_a_proportion_is_not_held_against_one() -> None:
    """93, meant as 93 %, passed a minimum of 90 % whatever the model was worth."""
    limit = Threshold(0.9, False, "90%", "ratio")
    assert verdict(Metric(93.0, "ratio"), "min", limit) == (
        "failed",
        (
            "'p50' cannot be held against '90%': it is 9300 %, and no proportion; "
            "for 93 percent return 0.93, for a factor the unit x"
        ),
    )
    assert verdict(Metric(0.93, "ratio"), "min", limit)[0] == "passed"
    assert verdict(Metric(1.2, "ratio"), "min", limit)[0] == "passed"
    above = "p50 is 160 %, above the maximum of 90%"  # an error rate may be above 1, and fails by right
    assert verdict(Metric(1.6, "ratio"), "max", limit) == ("failed", above)
    assert verdict(Metric(2.1, "ratio"), "min", Threshold(0.9, False, "0.9", ""))[0] == "passed"  # a factor
    assert verdict(Metric(2.1, "x"), "min", Threshold(1.5, False, "1.5", ""))[0] == "passed"


@pytest.mark.parametrize(
    ("rule", "better", "meant"), [("max_drop", "lower", "max_increase"), ("max_increase", "higher", "max_drop")]
)
def test_a_rule_that_lets_a_metric_get_worse_fails(rule: Rule, better: Better, meant: Rule) -> None:
    worse = compared(0.1, (3.0, 3.0, 3.0)) if better == "lower" else compared(0.9, (0.2, 0.2, 0.2))
    metric = Metric(worse.value * worse.ratio.value, "", better, reference=worse)
    limit = Threshold(0.01, True, "1%", "ratio")
    assert verdict(metric, rule, limit) == (
        "failed",
        f"{rule!r} lets 'p50' get worse: it is better when {better}; did you mean {meant}?",
    )
    assert verdict(metric, meant, limit)[0] == "failed"
    assert verdict(metric, meant, limit)[1].endswith(": more than 1%")
    assert verdict(Metric(0.3, "", "neither", reference=worse), rule, limit)[0] == "passed"


def test_of_a_metric_of_which_nobody_said_how_it_improves_the_rule_knows_it() -> None:
    """`measure/accuracy` takes `higher` where `better` is silent, and the word error rate may stand there."""
    rises = Metric(0.12, "", "higher", reference=compared(0.1, (1.2, 1.1, 1.3), count=60))
    limit = Threshold(0.5, True, "50%", "ratio")
    for params, outcome in (({"better": {}}, "passed"), ({"better": {"p50": "higher"}}, "failed")):
        gate = Gate("p50", "max_increase", limit, "block", PLACE)
        stage = Stage("accuracy", "measure/accuracy", PLACE, gates=(gate,), params=params)
        (judged,) = judge(stage, action({"p50": rises}), Terms(None, HERE, list_key_changes))
        assert judged.outcome == outcome
