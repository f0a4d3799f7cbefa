"""`max_regression`: side by side by the sequential test, exact figures by themselves, stored times as a last resort."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from orun.core.metrics import UNBOUNDED, Comparison, Estimate, Metric, Noise
from orun.core.serialization import replace
from orun.core.verdict import Verdict
from orun.gates.baseline_file import group_by_kind
from orun.gates.judge import judge
from orun.gates.measured import Ports
from orun.gates.regression import Terms
from orun.measure.latency.sequential_test import Evidence
from orun.pipeline.model import Stage
from orun.planning.key_diff import list_key_changes
from orun.store.records import Action
from tests.facts import components, explain_verdict
from tests.gates.support import HERE, PLACE, accepted, action, compared, gate, metric, verdict_of

METHOD = "paired on-CPU time, 4 launches"
LIMIT = gate("p50", "max_regression", "5%", 0.05)


def timed(mean: float, count: int = 4, spread: float = 0.01, *, higher: bool = False) -> dict[str, Metric]:
    """A metric of which each launch said about `mean` percent more than the baseline's."""
    ratio = Evidence(count, math.log1p(mean), spread).ratio
    comparison = compared(0.01, (ratio.value, ratio.low, ratio.high), METHOD, count, spread)
    value = 0.01 * (1 + mean)
    return {"p50": metric(value, "s", "higher" if higher else "lower", "timing", (value, value), baseline=comparison)}


def test_a_slow_down_fails() -> None:
    verdict = verdict_of(LIMIT, timed(0.048), accepted({}))
    assert verdict.outcome == "failed"
    assert explain_verdict(verdict) == (
        "the regression of p50 against the accepted baseline is 4.8 % (95 % interval 3.15 % to 6.48 %; "
        "paired on-CPU time, 4 launches): one of 5% or more fits 836 times better than none (95 times fail)"
        "; Ada accepted that baseline on 2026-11-02"
    )
    assert verdict.measured == pytest.approx(0.048)
    assert verdict.interval is not None
    assert verdict.interval.low == pytest.approx(0.0315, abs=1e-4)


def test_an_equal_model_passes() -> None:
    verdict = verdict_of(LIMIT, timed(0.002), accepted({}))
    assert verdict.outcome == "passed"
    assert explain_verdict(verdict) == (
        "the regression of p50 against the accepted baseline is 0.2 % (95 % interval -1.38 % to 1.81 %; "
        "paired on-CPU time, 4 launches): none fits 822 times better than one of 5% or more (20 times pass)"
    )


def test_a_faster_model_passes_beyond_doubt() -> None:
    verdict = verdict_of(LIMIT, timed(-0.4, count=9), accepted({}))
    assert verdict.outcome == "passed"
    assert explain_verdict(verdict).endswith(
        "none fits over a million times better than one of 5% or more (20 times pass)"
    )


def test_a_slow_down_that_is_clearly_smaller_passes() -> None:
    """It fits "none" no better than the limit, and is well below the limit all the same."""
    verdict = verdict_of(gate("p50", "max_regression", "900%", 9.0), timed(2.0, count=3), accepted({}))
    assert verdict.outcome == "passed"
    assert explain_verdict(verdict) == (
        "the regression of p50 against the accepted baseline is 200 % (95 % interval 193 % to 208 %; "
        "paired on-CPU time, 4 launches): it is clearly less than 900%"
    )


@pytest.mark.parametrize(("count", "mean"), [(4, 0.025), (2, 0.05)])
def test_too_few_launches_decide_nothing(count: int, mean: float) -> None:
    verdict = verdict_of(LIMIT, timed(mean, count), accepted({}))
    assert verdict.outcome == "undecided"
    assert verdict.fails
    assert explain_verdict(verdict).endswith(
        ": too few launches to tell one of 5% from none: its time was used up: set a longer `time`"
    )


def test_a_finer_threshold_is_judged_from_the_same_launches() -> None:
    metrics = timed(0.01)
    assert verdict_of(LIMIT, metrics, accepted({})).outcome == "passed"
    assert verdict_of(gate("p50", "max_regression", "2%", 0.02), metrics, accepted({})).outcome == "undecided"


def test_a_metric_that_should_be_high_regresses_downwards() -> None:
    verdict = verdict_of(LIMIT, timed(-0.05, higher=True), accepted({}))
    assert verdict.outcome == "failed"
    assert verdict.measured == pytest.approx(0.05)
    assert verdict_of(LIMIT, timed(0.05, higher=True), accepted({})).outcome == "passed"


def test_a_threshold_in_the_unit_of_the_metric() -> None:
    verdict = verdict_of(gate("p50", "max_regression", "0.5ms", 0.0005), timed(0.048), accepted({}))
    assert verdict.outcome == "failed"
    assert verdict.unit == "s"
    assert verdict.measured == pytest.approx(0.00048)
    assert explain_verdict(verdict) == (
        "the regression of p50 against the accepted baseline is 480 µs (95 % interval 315 µs to 648 µs; "
        "paired on-CPU time, 4 launches): one of 0.5ms or more fits 836 times better than none (95 times fail); "
        "Ada accepted that baseline on 2026-11-02"
    )
    allowed = gate("p50", "max_regression", "1ms", 0.001)  # a tenth
    assert verdict_of(allowed, timed(0.048, count=9), accepted({})).outcome == "passed"


def test_a_threshold_of_nothing() -> None:
    """It fails what is shown to be slower and passes what is shown not to be; in between it is explained."""
    nothing = gate("p50", "max_regression", "0%", 0.0)
    slower, faster, alike = (verdict_of(nothing, timed(mean), accepted({})) for mean in (0.048, -0.048, 0.001))
    assert (slower.outcome, faster.outcome, alike.outcome) == ("failed", "passed", "undecided")
    assert explain_verdict(slower).endswith("): shown to be more than 0%; Ada accepted that baseline on 2026-11-02")
    assert explain_verdict(alike).endswith(": a threshold of 0 tells no two times apart; allow 1 % or more")


def test_a_whole_regression_can_always_pass() -> None:
    regression = gate("p50", "max_regression", "100%", 1.0)
    assert verdict_of(regression, timed(-0.5, higher=True), accepted({})).outcome == "passed"


def test_a_sample_is_judged_by_its_paired_interval() -> None:
    comparison = compared(0.8, (0.9, 0.85, 0.94), "paired bootstrap over 312 examples", 312)
    recall = metric(0.72, "ratio", "higher", "sample", (0.7, 0.74), baseline=comparison)
    verdict = verdict_of(gate("recall", "max_regression", "5%", 0.05), {"recall": recall}, accepted({}))
    assert verdict.outcome == "failed"
    assert explain_verdict(verdict) == (
        "the regression of recall against the accepted baseline is 10 % (95 % interval 6 % to 15 %; "
        "paired bootstrap over 312 examples): shown to be more than 5%; Ada accepted that baseline on 2026-11-02"
    )


def test_nothing_was_accepted_yet() -> None:
    verdict = verdict_of(LIMIT, timed(0.0))
    assert (verdict.outcome, verdict.fails, verdict.blocks) == ("no baseline", False, False)
    assert (
        explain_verdict(verdict)
        == "no baseline yet for `latency`; to accept this release: `orun baseline accept bert.yaml`"
    )
    stage = Stage("latency[on=cpu]", "measure/latency", PLACE, gates=(LIMIT,))
    (renamed,) = judge(stage, action(timed(0.0)), Terms(None, HERE, list_key_changes, removed=("latency",)))
    assert explain_verdict(renamed) == (
        "no baseline yet for `latency[on=cpu]` (the baseline has `latency`, no longer in the file); "
        "to accept this release: `orun baseline accept bert.yaml`"
    )
    (moved,) = judge(stage, action(timed(0.0)), Terms(None, HERE, list_key_changes, abandoned="old.baseline.json"))
    assert explain_verdict(moved) == (
        "no baseline yet for `latency[on=cpu]` (old.baseline.json is of a pipeline file that is gone: if it was this "
        "one, rename it, too); to accept this release: `orun baseline accept bert.yaml`"
    )
    assert verdict.measured is None


def test_the_accepted_model_is_this_very_one() -> None:
    slow = {"p50": metric(0.02, "s", "lower", "timing", (0.019, 0.021))}
    verdict = verdict_of(LIMIT, slow, accepted({"p50": metric(0.01, "s", "lower", "timing")}, model="aa11"))
    assert verdict.outcome == "passed"
    assert verdict.measured == 0.0
    assert explain_verdict(verdict) == (
        "the regression of p50 against the accepted baseline is 0 % "
        "(the accepted baseline is this very model): within 5%"
    )


def test_an_exact_figure_is_compared_with_the_stored_one() -> None:
    known = accepted({"size": metric(20e6, "B", "lower")})
    bigger = verdict_of(gate("size", "max_regression", "5%", 0.05), {"size": metric(22e6, "B", "lower")}, known)
    smaller = verdict_of(gate("size", "max_regression", "1MB", 1e6), {"size": metric(19e6, "B", "lower")}, known)
    assert bigger.outcome == "failed"
    assert explain_verdict(bigger) == (
        "the regression of size against the accepted baseline is 10 % (figure stored on 2026-11-02): more than 5%"
        "; Ada accepted that baseline on 2026-11-02"
    )
    assert smaller.outcome == "passed"
    assert explain_verdict(smaller) == (
        "the regression of size against the accepted baseline is -1 MB (figure stored on 2026-11-02): within 1MB"
    )


def test_an_exact_figure_may_grow_from_nothing() -> None:
    known = accepted({"skipped": metric(0.0, better="lower")})
    condition = gate("skipped", "max_regression", "5%", 0.05)
    assert verdict_of(condition, {"skipped": metric(0.0, better="lower")}, known).outcome == "passed"
    assert verdict_of(condition, {"skipped": metric(3.0, better="lower")}, known).outcome == "failed"


def test_a_figure_that_was_not_accepted() -> None:
    verdict = verdict_of(gate("size", "max_regression", "5%", 0.05), {"size": metric(1.0, "B", "lower")}, accepted({}))
    assert (verdict.outcome, verdict.fails, verdict.blocks) == ("no baseline", False, False)
    assert explain_verdict(verdict) == (
        "no baseline yet for `size` of `latency`; to accept this release: `orun baseline accept bert.yaml`"
    )


def test_stored_times_serve_on_the_same_machine_only() -> None:
    known = accepted({"p50": metric(0.010, "s", "lower", "timing", (0.0098, 0.0102))})
    slower = {"p50": metric(0.012, "s", "lower", "timing", (0.0118, 0.0122))}
    here = verdict_of(LIMIT, slower, known, HERE | {"runtime": "onnxruntime 1.32.0"})
    verdict = verdict_of(LIMIT, slower, known, HERE | {"cpu": "Xeon"})
    assert here.outcome == "failed"
    assert explain_verdict(here) == (
        "the regression of p50 against the accepted baseline is 20 % (95 % interval 15.7 % to 24.5 %; figures stored "
        "on 2026-11-02 on this machine, not side by side: the accepted model is not in the store): "
        "shown to be more than 5%; Ada accepted that baseline on 2026-11-02"
    )
    assert verdict.outcome == "undecided"
    assert explain_verdict(verdict) == (
        "the accepted model is not in the store, and the accepted figures are of another machine (forge, EPYC); "
        "`orun baseline accept bert.yaml` on this one"
    )


def test_stored_times_whose_intervals_hold_the_threshold() -> None:
    known = accepted({"p50": metric(0.010, "s", "lower", "timing", (0.0095, 0.0105))})
    metrics = {"p50": metric(0.0103, "s", "lower", "timing", (0.0100, 0.0107))}
    verdict = verdict_of(LIMIT, metrics, known)
    assert verdict.outcome == "undecided"
    assert verdict.interval is not None
    assert verdict.interval.low == pytest.approx(0.01 / 0.0105 - 1)
    assert verdict.interval.high == pytest.approx(0.0107 / 0.0095 - 1)
    assert explain_verdict(verdict).endswith(": the interval holds 5%; intervals 4.8 times as narrow would decide it")


def test_a_stored_time_that_nothing_bounds_above() -> None:
    known = accepted({"p50": metric(0.010, "s", "lower", "timing", (0.0095, math.inf))})
    verdict = verdict_of(LIMIT, {"p50": metric(0.0103, "s", "lower", "timing", (0.0100, 0.0107))}, known)
    assert verdict.outcome == "undecided"
    assert verdict.interval is not None
    assert verdict.interval.low == -1.0


def test_a_sample_whose_baseline_is_gone() -> None:
    """Without the other model's answers to the same examples, the intervals of both figures add up."""
    known = accepted({"recall": metric(0.8, "ratio", "higher", "sample", (0.7, 0.9))})
    condition = gate("recall", "max_regression", "5%", 0.05)
    drop = {"recall": metric(0.72, "ratio", "higher", "sample", (0.6, 0.82))}
    worse, alone = (verdict_of(condition, drop, known, side_by_side=side_by_side) for side_by_side in (True, False))
    lost = verdict_of(condition, {"recall": metric(0.4, "ratio", "higher", "sample", (0.3, 0.5))}, known)
    assert (worse.outcome, alone.outcome, lost.outcome) == ("undecided", "undecided", "failed")
    assert explain_verdict(alone) == explain_verdict(worse).replace(
        "the accepted model is not in the store", "measure/latency measures no second model"
    )
    assert explain_verdict(worse) == (
        "the regression of recall against the accepted baseline is 10 % (95 % interval -7.68 % to 29.5 %; figures "
        "stored on 2026-11-02, not example by example: the accepted model is not in the store): the interval holds 5%; "
        "intervals 3.5 times as narrow would decide it"
    )


def test_a_sample_that_was_stored_without_an_interval_tells_nothing() -> None:
    known = accepted({"recall": metric(0.8, "ratio", "higher", "sample")})
    metrics = {"recall": metric(0.72, "ratio", "higher", "sample", (0.6, 0.82))}
    verdict = verdict_of(gate("recall", "max_regression", "5%", 0.05), metrics, known, side_by_side=False)
    assert verdict.outcome == "undecided"
    assert explain_verdict(verdict) == (
        "measure/latency measures no second model, and figures on a sample tell nothing without their intervals; "
        "`orun baseline accept bert.yaml`"
    )


@pytest.mark.parametrize("noise", ["timing", "sample"])
def test_the_accepted_figure_is_of_this_very_measurement(noise: Noise) -> None:
    """As right after it was accepted, of a stage that measures no model: nothing is there to be told apart."""
    measured = metric(0.010, "s", "lower", noise, (0.005, 0.015), reference=compared(0.02, (0.5, 0.4, 0.6)))
    known = accepted({"p50": replace(measured, reference=None)}, model="")
    verdict = verdict_of(LIMIT, {"p50": measured}, known, HERE | {"cpu": "Xeon"})
    assert verdict.outcome == "passed"
    assert explain_verdict(verdict) == (
        "the regression of p50 against the accepted baseline is 0 % "
        "(the figure that was accepted on 2026-11-02 is of this very measurement): within 5%"
    )


@pytest.mark.parametrize(
    ("model", "side_by_side", "reason"),
    [
        ("", True, "latency measures no model that could be measured again"),
        ("bb22", True, "the accepted model is not in the store"),
        ("bb22", False, "measure/latency measures no second model"),
    ],
)
def test_why_it_was_not_measured_side_by_side(model: str, side_by_side: bool, reason: str) -> None:
    known = accepted({"p50": metric(0.010, "s", "lower", "timing", (0.0095, 0.0105))}, model)
    metrics = {"p50": metric(0.0101, "s", "lower", "timing", (0.0096, 0.0106))}
    here = verdict_of(LIMIT, metrics, known, side_by_side=side_by_side)
    verdict = verdict_of(LIMIT, metrics, known, {"cpu": "Xeon"}, side_by_side=side_by_side)
    assert explain_verdict(here) == (
        "the regression of p50 against the accepted baseline is 1 % (95 % interval -8.57 % to 11.6 %; figures stored "
        f"on 2026-11-02 on this machine, not side by side: {reason}): the interval holds 5%; "
        "intervals 2.6 times as narrow would decide it"
    )
    assert explain_verdict(verdict) == (
        f"{reason}, and the accepted figures are of another machine (forge, EPYC); "
        "`orun baseline accept bert.yaml` on this one"
    )


def test_stored_samples_of_two_runs_are_told_apart_by_the_squares_of_their_intervals() -> None:
    known = accepted({"recall": metric(0.8, "ratio", "higher", "sample", (0.77, 0.84))})
    metrics = {"recall": metric(0.7, "ratio", "higher", "sample", (0.66, 0.73))}
    verdict = verdict_of(gate("recall", "max_regression", "0.06", 0.06), metrics, known)
    assert verdict.outcome == "undecided"
    assert verdict.interval is not None
    lost = [verdict.measured, verdict.interval.low, verdict.interval.high]
    assert lost == pytest.approx([0.1, 0.1 - math.hypot(0.03, 0.03), 0.1 + math.hypot(0.04, 0.04)])


def test_a_sample_below_0_whose_baseline_is_gone() -> None:
    known = accepted({"score": metric(-10.0, "", "higher", "sample", (-11.0, -9.0))})
    metrics = {"score": metric(-14.0, "", "higher", "sample", (-15.0, -13.0))}
    verdict = verdict_of(gate("score", "max_regression", "10%", 0.1), metrics, known)
    assert verdict.outcome == "failed"
    assert verdict.interval is not None
    assert [verdict.measured, verdict.interval.low, verdict.interval.high] == pytest.approx(
        [0.4, 0.4 - math.sqrt(2) / 10, 0.4 + math.sqrt(2) / 10]
    )


@pytest.fixture
def judge_beside_reference() -> Callable[[str, Metric, str], Verdict]:
    """Judges a metric of a model and a reference, where the baseline's reference is `aa` and its figure 0.99."""
    ports = Ports(references=("reference",))

    def judged(reference: str, measured: Metric, model: str = "aa11") -> Verdict:
        then = replace(measured, value=0.99, reference=None, baseline=None)
        known = replace(
            accepted({"cosine": then}), setup=group_by_kind(ports.list_setup(with_reference("aa", {"cosine": then})))
        )
        condition = gate("cosine", "max_regression", "1%", 0.01)
        needs = {"model": "int8", "reference": "export"}
        stage = Stage("accuracy", "measure/accuracy", PLACE, needs=needs, gates=(condition,))
        now = with_reference(reference, {"cosine": measured}, model)
        (verdict,) = judge(stage, now, Terms(known, HERE, list_key_changes, ports=ports))
        return verdict

    return judged


@pytest.mark.parametrize("model", ["aa11", "bb22"])  # another one than the accepted `bb22`, and the very same
@pytest.mark.parametrize("comparison", [compared(0.6, (1.6, 1.6, 1.6), "exact"), None])
def test_figures_of_two_models_are_each_against_their_own_reference(
    judge_beside_reference: Callable[..., Verdict], model: str, comparison: Comparison | None
) -> None:
    """The accepted model is always far from a reference that was trained again: 0.6 here."""
    verdict = judge_beside_reference("bb", metric(0.96, better="higher", baseline=comparison), model)
    assert verdict.outcome == "failed"
    assert explain_verdict(verdict) == (
        "the regression of cosine against the accepted baseline is 3.03 % (figure stored on 2026-11-02: the reference "
        "changed since, and each figure is against its own): more than 1%; Ada accepted that baseline on 2026-11-02"
    )


def test_figures_of_two_models_beside_the_same_reference(judge_beside_reference: Callable[..., Verdict]) -> None:
    verdict = judge_beside_reference("aa", metric(0.96, better="higher", baseline=compared(0.96, (1.0, 1.0, 1.0))))
    assert verdict.outcome == "passed"
    assert (
        explain_verdict(verdict) == "the regression of cosine against the accepted baseline is 0 % (by test): within 1%"
    )


def test_a_figure_of_one_model_is_measured_beside_the_accepted_one_whatever_the_reference(
    judge_beside_reference: Callable[..., Verdict],
) -> None:
    comparison = compared(0.96, (1.0, 1.0, 1.0))
    verdict = judge_beside_reference("bb", metric(0.96, better="higher", reference=comparison, baseline=comparison))
    assert verdict.outcome == "passed"
    assert (
        explain_verdict(verdict) == "the regression of cosine against the accepted baseline is 0 % (by test): within 1%"
    )


def with_reference(digest: str, metrics: dict[str, Metric], model: str = "aa11") -> Action:
    stored = action(metrics, model)
    return replace(stored, components=(*stored.components, *components({"input reference": digest})))


def test_a_figure_that_was_accepted_in_another_unit() -> None:
    known = accepted({"size": metric(20e6, "", "lower")})
    verdict = verdict_of(gate("size", "max_regression", "5%", 0.05), {"size": metric(20e6, "B", "lower")}, known)
    assert verdict.outcome == "undecided"
    assert explain_verdict(verdict) == (
        "size is a size, and in the accepted baseline it has no unit; `orun baseline accept bert.yaml`"
    )


def test_an_interval_that_is_no_number() -> None:
    known = accepted({"p50": metric(0.010, "s", "lower", "timing", (math.nan, math.nan))})
    measured = {"p50": metric(0.010, "s", "lower", "timing", (0.009, 0.011))}
    assert verdict_of(LIMIT, measured, known).outcome == "failed"


@pytest.mark.parametrize(
    "other",
    [
        Comparison(0.0, Estimate(UNBOUNDED, UNBOUNDED, UNBOUNDED), Estimate(0.01, 0.009, 0.011), "mine", 3),
        Comparison(0.01, Estimate(1.0, 0.0, math.inf), Estimate(0.0, -0.01, math.inf), "mine", 3),
        Comparison(-0.01, Estimate(-1.0, -2.0, -0.5), Estimate(0.02, 0.01, 0.03), "mine", 3),
    ],
)
def test_ratios_that_have_no_logarithm(other: Comparison) -> None:
    """As a metric of one's own may be compared: it is judged by the interval, not by launches."""
    wait = metric(0.01, "s", "lower", "timing", (0.009, 0.011), baseline=other)
    for text, value in (("5%", 0.05), ("1ms", 0.001)):
        verdict = verdict_of(gate("wait", "max_regression", text, value), {"wait": wait}, accepted({}))
        assert verdict.outcome == ("undecided" if math.isinf(other.ratio.high) else "failed")


def test_a_regression_needs_a_direction() -> None:
    verdict = verdict_of(gate("nodes", "max_regression", "5%", 0.05), {"nodes": metric(3.0)}, accepted({}))
    assert verdict.outcome == "failed"
    assert explain_verdict(verdict) == "nodes has no direction of improvement, so it has no regression"
