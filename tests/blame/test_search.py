"""Order in which artifacts are measured to find the worst step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from orun.blame.search import choose_next_index
from orun.blame.upstream_metrics import choose_judged_metric, choose_sign
from orun.core.metrics import Better
from orun.core.serialization import replace
from orun.pipeline.model import Rule
from tests.gates.support import compared, gate, metric


def measured(values: Sequence[float | None], sign: int = 1) -> list[int]:
    """The places of a chain in the order in which they are measured."""
    known: dict[int, float | None] = {}
    while (place := choose_next_index(known, len(values), sign)) is not None:
        known[place] = values[place]
    return list(known)


@pytest.mark.parametrize(
    ("values", "order"),
    [
        ([1.0], [0]),
        ([1.0, 0.5], [1, 0]),
        ([1.0, 1.0, 1.0, 1.0, 0.5], [4, 0, 2, 3]),  # the last did it: half of the others are not needed
        ([1.0, 0.5, 0.5, 0.5, 0.5], [4, 0, 2, 1]),
        ([1.0, 0.9, 0.8, 0.2, 0.1], [4, 0, 2, 3]),
        ([1.0, 0.9, 0.6, 0.55, 0.1], [4, 0, 2, 3]),  # less was lost up to the third than in the last step
        ([1.0, 0.5, 0.6, 0.4, 0.2], [4, 0, 2, 1]),
        ([0.7, 0.7, 0.7], [2, 0, 1]),  # nothing was lost: all are looked at
        ([0.5, 0.6, 0.7], [2, 0, 1]),
        ([None, 1.0, 1.0, 0.5], [3, 0, 1, 2]),  # the first cannot be measured
        ([1.0, None, 1.0, 0.5], [3, 0, 2]),
        ([1.0, 1.0, None, 0.5], [3, 0, 2, 1]),
        ([None, None, None], [2, 0, 1]),
    ],
)
def test_no_more_than_it_takes(values: list[float | None], order: list[int]) -> None:
    assert measured(values) == order
    assert measured([None if value is None else -value for value in values], -1) == order


@pytest.mark.parametrize(
    ("rule", "better", "sign"),
    [
        ("min", "lower", 1),  # what makes the gate fail
        ("max_drop", "lower", 1),
        ("max", "higher", -1),
        ("max_increase", "higher", -1),
        ("min_speedup", "higher", 1),  # of those that go by the metric
        ("max_regression", "lower", -1),
        ("max_regression", "neither", -1),
    ],
)
def test_what_is_worse_is_said_by_the_rule_or_else_by_the_metric(rule: Rule, better: Better, sign: int) -> None:
    condition = gate("score", rule, "1", 1.0)
    assert choose_sign(condition, {"score": metric(1.0, better=better)}) == sign
    assert choose_sign(condition, {}) == choose_sign(condition, {"score": metric(1.0)})


def test_one_bad_step_of_many_takes_a_logarithm() -> None:
    for step in range(1, 64):
        values = [1.0] * step + [0.0] * (64 - step)
        assert len(measured(values)) <= 8


def test_of_a_gate_by_slices_the_worst_slice_is_looked_into() -> None:
    """The figure of all examples may not have moved, and is not what the gate judges."""
    drops = {"a": (0.9, 0.9), "b": (0.8, 0.99), "c": (0.7, 0.71)}
    metrics = {
        f"accuracy[part={name}]": metric(
            value, "ratio", "higher", "sample", reference=compared(other, (value / other,) * 3)
        )
        for name, (value, other) in drops.items()
    } | {"accuracy": metric(0.8, "ratio", "higher"), "accuracy[day=1]": metric(0.1, "ratio", "higher")}
    assert choose_judged_metric(gate("accuracy", "min", "75%", 0.75), metrics) == "accuracy"
    assert choose_judged_metric(replace(gate("accuracy", "min", "75%", 0.75), by="part"), metrics) == "accuracy[part=c]"
    assert choose_judged_metric(replace(gate("accuracy", "max", "75%", 0.75), by="part"), metrics) == "accuracy[part=a]"
    assert (
        choose_judged_metric(replace(gate("accuracy", "max_drop", "1%", 0.01), by="part"), metrics)
        == "accuracy[part=b]"
    )
    assert choose_judged_metric(replace(gate("accuracy", "min", "75%", 0.75), by="hour"), metrics) == "accuracy"
