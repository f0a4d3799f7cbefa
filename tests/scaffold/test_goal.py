"""Goals of a release, as the command line says them."""

from __future__ import annotations

import pytest

from orun.errors import UsageError
from orun.scaffold.goal import Condition, build_gates, check_goal, choose_search, parse_goal

HINT = 'hint: --goal "size<25MB, p50<10ms, cosine>0.99"'
DURATION = "a duration such as 12ms, 1.5s, 2min or 1h (a plain number is in seconds)"
BEYOND = 'cannot be reached\n  agreement is a proportion, at most 1\n  hint: --goal "agreement>90%"'


def test_conditions() -> None:
    goal = parse_goal("size<25MB, p50 <= 10 ms and cosine>0.99; speedup≥1.5x, max_abs<1e-3")
    assert goal == (
        Condition("size", "max", "25MB", "tune"),
        Condition("p50", "max", "10ms", "latency"),
        Condition("cosine.mean", "min", "0.99", "accuracy"),
        Condition("speedup", "min", "1.5x", "latency"),
        Condition("max_abs", "max", "1e-3", "accuracy"),
    )
    assert choose_search(goal, "sqnr") == ("cosine.mean", "0.99", "min")
    assert build_gates(goal) == {
        "tune": {"size": {"max": "25MB"}},
        "latency": {"p50": {"max": "10ms"}, "speedup": {"min": "1.5x"}},
        "accuracy": {"cosine.mean": {"min": "0.99"}, "max_abs": {"max": "1e-3"}},
    }


def test_a_goal_without_an_accuracy_keeps_the_outputs_close() -> None:
    goal = parse_goal("size<25MB")
    assert choose_search(goal, "cosine") == ("cosine.mean", "0.99", "min")
    assert choose_search(goal, "sqnr") == ("sqnr", "20", "min")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p50", f"the goal 'p50' is not a condition\n  expected METRIC<VALUE or METRIC>VALUE\n  {HINT}"),
        ("cosin>0.9", f"the goal names no metric: 'cosin'\n  did you mean cosine?\n  {HINT}"),
        ("size>25MB", 'size is better when it is smaller\n  hint: --goal "size<25MB"'),
        ("p50<25MB", f"the goal 'p50<25MB' has no such threshold\n  '25MB' is not {DURATION}"),
        ("cosine>nan", "the goal 'cosine>nan' has no such threshold\n  'nan' is not a number"),
        ("speedup>2%", "the goal 'speedup>2%' has no such threshold\n  '2%' is not a factor such as 1.5 or 1.5x"),
        ("p50<10", "the goal 'p50<10' has no unit\n  p50 is a time\n  hint: --goal \"p50<10ms\""),
        ("p50<0.01", "the goal 'p50<0.01' has no unit\n  p50 is a time\n  hint: --goal \"p50<0.01s\""),
        ("size<25000000", "the goal 'size<25000000' has no unit\n  size is a size\n  hint: --goal \"size<25000000B\""),
        (
            "ece<150%",
            "the goal 'ece<150%' cannot be reached\n  ece is a proportion, at most 1\n  hint: --goal \"ece<10%\"",
        ),
        ("size < 25", "the goal 'size < 25' has no unit\n  size is a size\n  hint: --goal \"size<25MB\""),
        ("agreement>90", f"the goal 'agreement>90' {BEYOND}"),
        ("agreement>150%", f"the goal 'agreement>150%' {BEYOND}"),
        (
            "latency<10ms, cosine>0.9, p50<8ms",
            'the goal names p50 twice\n  p50<10ms and p50<8ms\n  hint: --goal "p50<10ms"',
        ),
        (", ", f"the goal is empty\n  {HINT}"),
        (
            "f1>0.9",
            (
                "the goal on f1 needs labels\n  examples that are made up have none\n"
                "  hint: name examples with labels: --data data.py:examples"
            ),
        ),
    ],
)
def test_goals_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_goal(text, "")
    assert str(caught.value) == message


def test_thresholds_that_every_gate_takes_need_no_unit() -> None:
    goal = parse_goal("max_abs<0.5, relative<2, speedup>2, throughput>90, agreement>1, p50<0")
    assert [condition.text for condition in goal] == [
        "max_abs<0.5", "relative<2", "speedup>2", "throughput>90", "agreement>1", "p50<0",
    ]  # fmt: skip


def test_labels_come_with_the_users_data() -> None:
    assert check_goal("f1>90%", "data.py:examples") == (Condition("f1", "min", "90%", "accuracy"),)


@pytest.mark.parametrize(
    ("goal", "measured", "miss"),
    [
        ("size<25MB", 31e6, "24 % above"),
        ("size<25MB", 25e6, ""),
        ("p50<10ms", 0.1, "900 % above"),
        ("cosine>0.99", 0.985, "0.505 % below"),
        ("speedup>1.5x", 1.6, ""),
        ("max_abs<0", 1e-6, "above"),
    ],
)
def test_how_near_a_model_comes(goal: str, measured: float, miss: str) -> None:
    (condition,) = parse_goal(goal)
    assert condition.describe_miss(measured) == miss
