"""Gates in groups, against several references, and slice by slice of a dataset."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Literal

import pytest

from orun.core.metrics import Metric
from orun.core.serialization import replace
from orun.core.verdict import GateOutcome, Verdict
from orun.gates.composite import combine
from orun.gates.judge import judge
from orun.gates.regression import Terms
from orun.pipeline.model import Gate, Group, Stage, Undecided, iter_gates
from orun.planning.key_diff import list_key_changes
from tests.facts import explain_verdict
from tests.gates.support import HERE, PLACE, accepted, action, compared, gate, metric, verdict_of

OUTCOMES: tuple[GateOutcome, ...] = ("passed", "failed", "undecided", "no baseline")
P50 = metric(0.0124, "s", "lower", "timing", (0.0121, 0.0127))
SPEEDUP = metric(1.4, "x", "higher", "timing", (1.35, 1.45))
MEASURED = {"p50": P50, "speedup": SPEEDUP}
FAST, SLOW, CLOSE = (gate("p50", "max", f"{ms}ms", ms / 1e3) for ms in (13, 11, 12.5))
QUICKER = gate("speedup", "min", "1.3", 1.3)
NEW = gate("p50", "max_regression", "5%", 0.05)  # while nothing was accepted


def group(rule: Literal["all", "any"], *members: Gate | Group) -> Group:
    return Group(rule, members, PLACE)


def judged(condition: Gate | Group, measured: Mapping[str, Metric] = MEASURED) -> tuple[Verdict, ...]:
    stage = Stage("latency", "measure/latency", PLACE, needs={"model": "int8"}, gates=(condition,))
    return judge(stage, action(measured), Terms(None, HERE, list_key_changes))


def test_one_that_passes_is_enough_for_any() -> None:
    verdict, slow, quicker = judged(group("any", SLOW, QUICKER))
    assert (verdict.title, verdict.outcome, verdict.fails, verdict.depth) == ("latency any of 2", "passed", False, 0)
    assert explain_verdict(verdict) == "passed: speedup min 1.3; failed: p50 max 11ms"
    assert (verdict.measured, verdict.interval, verdict.position) == (None, None, PLACE)
    assert (slow.title, slow.outcome, slow.fails, slow.depth) == ("latency p50 max 11ms", "failed", False, 1)
    assert (
        explain_verdict(slow) == "p50 is 12.4 ms on EPYC (95 % interval 12.1 ms to 12.7 ms), above the maximum of 11ms"
    )
    assert (quicker.outcome, quicker.fails, quicker.depth) == ("passed", False, 1)


def test_one_that_fails_is_enough_against_all() -> None:
    verdict, *members = judged(group("all", SLOW, QUICKER, CLOSE))
    assert (verdict.title, verdict.outcome, verdict.fails) == ("latency all of 3", "failed", True)
    assert explain_verdict(verdict) == "passed: speedup min 1.3; failed: p50 max 11ms; undecided: p50 max 12.5ms"
    assert [member.fails for member in members] == [False, False, False]


@pytest.mark.parametrize(
    ("undecided", "fails", "blocks"), [("allow", False, False), ("block", False, True), ("fail", True, True)]
)
@pytest.mark.parametrize("rule", ["all", "any"])
def test_an_undecided_group_does_what_the_gravest_of_its_undecided_members_would(
    rule: Literal["all", "any"], undecided: Undecided, fails: bool, blocks: bool
) -> None:
    sure = FAST if rule == "all" else SLOW
    allowed = replace(CLOSE, undecided="allow")
    verdict, *members = judged(group(rule, sure, allowed, replace(CLOSE, undecided=undecided)))
    assert (verdict.outcome, verdict.fails, verdict.blocks) == ("undecided", fails, blocks)
    assert not any(member.fails or member.blocks for member in members)


@pytest.mark.parametrize(("strict", "fails"), [(False, False), (True, True)])
def test_a_group_whose_members_have_no_baseline_blocks_in_a_strict_run_alone(strict: bool, fails: bool) -> None:
    verdict, *_ = judged(group("any", SLOW, replace(NEW, strict=strict)))
    assert (verdict.outcome, verdict.fails, verdict.blocks) == ("no baseline", fails, fails)
    assert explain_verdict(verdict) == "failed: p50 max 11ms; no baseline: p50 max_regression 5%"


def test_groups_in_groups() -> None:
    inner = group("all", FAST, SLOW)
    verdicts = judged(group("any", inner, QUICKER))
    assert [(verdict.title, verdict.outcome, verdict.depth) for verdict in verdicts] == [
        ("latency any of 2", "passed", 0),
        ("latency all of 2", "failed", 1),
        ("latency p50 max 13ms", "passed", 2),
        ("latency p50 max 11ms", "failed", 2),
        ("latency speedup min 1.3", "passed", 1),
    ]
    assert explain_verdict(verdicts[0]) == "passed: speedup min 1.3; failed: all of 2"
    assert list(iter_gates((group("any", inner, QUICKER),))) == [FAST, SLOW, QUICKER]


def test_any_and_all_are_those_of_kleenes_logic() -> None:
    """A gate that was not decided may be either: the group is decided if it comes to the same either way.

    Of outcomes in any order.
    """
    for rule, size in itertools.product(("all", "any"), (1, 2, 3)):
        for outcomes in itertools.product(OUTCOMES, repeat=size):
            ways = {_decided(rule, way) for way in _ways(outcomes)}
            unsure = "undecided" if "undecided" in outcomes else "no baseline"
            assert combine(rule, outcomes) == (ways.pop() if len(ways) == 1 else unsure)


def _ways(outcomes: tuple[GateOutcome, ...]) -> Iterator[list[bool]]:
    choices = [
        [True, False] if outcome in ("undecided", "no baseline") else [outcome == "passed"] for outcome in outcomes
    ]
    return map(list, itertools.product(*choices))


def _decided(rule: str, passed: list[bool]) -> GateOutcome:
    return "passed" if (all(passed) if rule == "all" else any(passed)) else "failed"


def test_a_gate_against_a_further_reference() -> None:
    near, far = compared(1.0, (0.995, 0.992, 0.998)), compared(1.0, (0.9, 0.88, 0.92), "by test", 9)
    measured = {"recall": replace(metric(0.8, "ratio", "higher", "sample", reference=near), references={"fused": far})}
    drop = gate("recall", "max_drop", "1%", 0.01)
    (plain,) = judged(drop, measured)
    (fused,) = judged(replace(drop, against="fused"), measured)
    (other,) = judged(replace(drop, against="other"), measured)
    assert plain.outcome == "passed"
    assert [each.finding.arguments["against"] for each in (plain, fused, other)] == [
        "reference", "reference.fused", "reference.other",
    ]  # fmt: skip
    assert (fused.title, fused.outcome) == ("latency recall max_drop 1% against fused", "failed")
    assert explain_verdict(fused) == (
        "the drop of recall against fused is 10 % (95 % interval 8 % to 12 %; by test): shown to be more than 1%"
    )
    assert explain_verdict(other) == (
        "other has no recall to compare with: the stage has no `reference.other` input, or the metric itself is what "
        "lies between the two: use min or max; or max_regression, which compares with the release that was accepted "
        "last, once there is one"
    )


def sliced(shares: Mapping[str, tuple[float, int]]) -> dict[str, Metric]:
    return {
        f"accuracy[label={name}]": replace(metric(share, "ratio", "higher", "sample"), examples=examples)
        for name, (share, examples) in shares.items()
    } | {"accuracy": metric(0.9, "ratio", "higher", "sample"), "accuracy[camera=3]": metric(0.0, "ratio", "higher")}


BY_LABEL = replace(gate("accuracy", "min", "60%", 0.6), by="label")


def test_every_slice_must_pass() -> None:
    (verdict,) = judged(BY_LABEL, sliced({"0": (0.95, 40), "1": (0.7, 1), "2": (0.8, 30)}))
    assert (verdict.title, verdict.outcome) == ("latency accuracy min 60% by label", "passed")
    assert (
        explain_verdict(verdict) == "3 of 3 slices passed; the smallest is 1 with 1 example; the worst is 1 with 70 %"
    )
    assert verdict.measured == 0.7


def test_a_slice_that_fails_is_named() -> None:
    (verdict,) = judged(BY_LABEL, sliced({"0": (0.95, 40), "1": (0.5, 12), "2": (0.8, 30)}))
    assert (verdict.outcome, verdict.fails, verdict.measured) == ("failed", True, 0.5)
    assert explain_verdict(verdict) == (
        "2 of 3 slices passed, 1 failed; the smallest is 1 with 12 examples; "
        "accuracy[label=1] is 50 %, below the minimum of 60%"
    )


def test_of_slices_that_fail_the_worst_is_told_first() -> None:
    """Of nine that fail five are named, and the figure in tables is that of one."""
    shares = {str(number): (0.5 - 0.05 * number, 9) for number in range(8)}
    (verdict,) = judged(BY_LABEL, sliced(shares | {"good": (0.9, 50), "none": (float("nan"), 9)}))
    assert verdict.measured is not None
    assert math.isnan(verdict.measured)
    assert explain_verdict(verdict) == "; ".join(
        [
            "1 of 10 slices passed, 9 failed",
            "the smallest is 0 with 9 examples",
            "accuracy[label=none] is nan, not a finite number",
            *(f"accuracy[label={number}] is {50 - 5 * number} %, below the minimum of 60%" for number in (7, 6, 5, 4)),
            "and 4 more",
        ]
    )
    (verdict,) = judged(BY_LABEL, sliced(shares))
    assert verdict.measured == pytest.approx(0.15)
    most = replace(gate("accuracy", "max", "60%", 0.6), by="label")
    (verdict,) = judged(most, sliced({"0": (0.2, 9), "1": (0.7, 9), "2": (0.9, 9)}))
    assert verdict.measured == 0.9


def test_what_is_the_same_of_every_slice_is_said_once() -> None:
    nothing = replace(gate("accuracy", "max_regression", "5%", 0.05, undecided="allow"), by="label")
    (verdict,) = judged(nothing, sliced({"0": (0.95, 40), "1": (0.7, 12)}))
    assert (verdict.outcome, verdict.measured) == ("no baseline", None)
    assert explain_verdict(verdict) == (
        "0 of 2 slices passed, 2 no baseline; the smallest is 1 with 12 examples; "
        "no baseline yet for `latency`; to accept this release: `orun baseline accept bert.yaml`"
    )


def test_a_slice_that_is_undecided() -> None:
    unsure = compared(0.8, (0.98, 0.9, 1.01), "by test", 20)
    measured = {
        f"accuracy[label={name}]": replace(metric(0.8, "ratio", "higher", "sample", reference=other), examples=20)
        for name, other in (("cat", compared(0.8, (1.0, 0.999, 1.001))), ("dog", unsure))
    }
    drop = replace(gate("accuracy", "max_drop", "1%", 0.01, undecided="allow"), by="label")
    (verdict,) = judged(drop, measured)
    assert (verdict.outcome, verdict.fails) == ("undecided", False)
    assert explain_verdict(verdict) == (
        "1 of 2 slices passed, 1 undecided; the smallest is cat with 20 examples; "
        "the drop of accuracy[label=dog] against the reference is 2 % (95 % interval -1 % to 10 %; by test): "
        "the interval holds 1%; about 160 more examples would decide it"
    )


def test_a_slice_that_was_accepted_and_is_not_measured_any_more() -> None:
    """A gate against the baseline must not pass for want of the examples that would fail it."""
    before = sliced({"0": (0.95, 40), "1": (0.7, 12)})
    now = {name: slice_metric for name, slice_metric in before.items() if name != "accuracy[label=1]"}
    known = accepted(before, model="aa11")
    regression = replace(gate("accuracy", "max_regression", "5%", 0.05), by="label")
    verdict = verdict_of(regression, now, known)
    assert (verdict.outcome, verdict.fails) == ("undecided", True)
    assert explain_verdict(verdict) == (
        "1 of 2 slices passed, 1 undecided; the smallest is 0 with 40 examples; "
        "accuracy[label=1] was accepted, and is not measured any more"
    )
    assert verdict_of(regression, before, known).outcome == "passed"
    assert verdict_of(BY_LABEL, now, known).outcome == "passed"  # of a fixed limit nothing was accepted


def test_slices_without_a_figure_are_named() -> None:
    """As where an area under a curve needs two classes: they are not judged, and do not count as passed."""
    measured = sliced({"0": (0.95, 40)}) | {"auc[label=1]": metric(0.9), "auc[label=2]": metric(0.9)}
    (verdict,) = judged(BY_LABEL, measured)
    assert (
        explain_verdict(verdict) == "1 of 1 slice passed; the smallest is 0 with 40 examples; 1, 2 have no figure of it"
    )
    del measured["auc[label=2]"]
    assert explain_verdict(judged(BY_LABEL, measured)[0]).endswith("; 1 has no figure of it")


def test_a_figure_of_all_examples_has_no_slices() -> None:
    condition = replace(gate("bleu", "min", "60%", 0.6), by="label")
    (verdict,) = judged(condition, sliced({"0": (0.95, 40)}) | {"bleu": metric(0.9, "ratio", "higher")})
    assert explain_verdict(verdict) == (
        "bleu was not measured by label: no slice has a figure of it; one number of your own needs `resamples`, and "
        "precision, recall, f1, iou, auc and average_precision need slices of several classes: a field that copies the "
        "label is `by: label`"
    )


def test_slices_that_were_not_measured() -> None:
    (verdict,) = judged(BY_LABEL, {"accuracy": metric(0.9)})
    assert (verdict.outcome, explain_verdict(verdict)) == (
        "failed",
        "accuracy was not measured by label: add it to `slices`",
    )
