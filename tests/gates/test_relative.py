"""`max_drop`, `max_increase` and `min_speedup` against the reference, by the paired interval."""

from __future__ import annotations

import math

import pytest

from orun.core.metrics import UNBOUNDED, Comparison, Disturbance, Estimate, Metric
from orun.core.serialization import replace
from orun.measure.metrics.paired import estimate_tango_interval
from tests.facts import explain_verdict
from tests.gates.support import accepted, compared, gate, metric, verdict_of

METHOD = "paired bootstrap over 312 examples"


def recall(ratio: tuple[float, float, float], count: int = 312) -> dict[str, Metric]:
    return {"recall": metric(0.8, "ratio", "higher", "sample", (0.75, 0.84), compared(0.8, ratio, METHOD, count))}


@pytest.mark.parametrize(
    ("ratio", "outcome", "sentence"),
    [
        (
            (0.997, 0.992, 1.002), "passed",
            ("the drop of recall against the reference is 0.3 % (95 % interval -0.2 % to 0.8 %; "
            "paired bootstrap over 312 examples): shown to be within 1%"),
        ),
        (
            (0.97, 0.955, 0.985), "failed",
            ("the drop of recall against the reference is 3 % (95 % interval 1.5 % to 4.5 %; "
            "paired bootstrap over 312 examples): shown to be more than 1%"),
        ),
        (
            (0.995, 0.98, 1.01), "undecided",
            ("the drop of recall against the reference is 0.5 % (95 % interval -1 % to 2 %; "
            "paired bootstrap over 312 examples): the interval holds 1%; about 2500 more examples would decide it"),
        ),
    ],
)  # fmt: skip
def test_a_drop_on_a_sample(ratio: tuple[float, float, float], outcome: str, sentence: str) -> None:
    verdict = verdict_of(gate("recall", "max_drop", "1%", 0.01), recall(ratio))
    assert verdict.outcome == outcome
    assert explain_verdict(verdict) == sentence
    assert verdict.unit == "ratio"
    assert verdict.measured == pytest.approx(1 - ratio[0])
    assert verdict.interval is not None
    assert (verdict.interval.low, verdict.interval.high) == pytest.approx((1 - ratio[2], 1 - ratio[1]))


def test_a_drop_in_the_unit_of_the_metric() -> None:
    measured = {"cosine": metric(0.97, better="higher", reference=compared(1.0, (0.97, 0.97, 0.97), "exact"))}
    passed = verdict_of(gate("cosine", "max_drop", "0.03", 0.03), measured)
    failed = verdict_of(gate("cosine", "max_drop", "0.02", 0.02), measured)
    assert explain_verdict(passed) == "the drop of cosine against the reference is 0.03 (exact): within 0.03"
    assert explain_verdict(failed) == "the drop of cosine against the reference is 0.03 (exact): more than 0.02"
    assert (passed.outcome, failed.outcome) == ("passed", "failed")
    assert passed.unit == ""
    assert passed.interval is None


def test_an_increase_of_a_size() -> None:
    measured = {"size": metric(24e6, "B", "lower", reference=compared(20e6, (1.2, 1.2, 1.2), "exact"))}
    relative = verdict_of(gate("size", "max_increase", "10%", 0.1), measured)
    absolute = verdict_of(gate("size", "max_increase", "5MB", 5e6), measured)
    assert relative.outcome == "failed"
    assert explain_verdict(relative) == "the increase of size against the reference is 20 % (exact): more than 10%"
    assert absolute.outcome == "passed"
    assert explain_verdict(absolute) == "the increase of size against the reference is 4 MB (exact): within 5MB"


def test_the_direction_is_the_one_that_is_named() -> None:
    measured = {"depth": metric(15, reference=compared(20, (0.75, 0.75, 0.75), "exact"))}  # neither is better
    assert verdict_of(gate("depth", "max_drop", "10%", 0.1), measured).outcome == "failed"
    assert verdict_of(gate("depth", "max_increase", "10%", 0.1), measured).outcome == "passed"


def test_a_difference_of_proportions_is_told_as_its_threshold_is_written() -> None:
    """From 50 % to 45 % is 10 % of it; `5 %` would be read as half of that drop."""
    measured = {"recall": metric(0.45, "ratio", "higher", "sample", None, compared(0.5, (0.9, 0.88, 0.92), "test", 9))}
    points = verdict_of(gate("recall", "max_drop", "0.06", 0.06), measured)
    share = verdict_of(gate("recall", "max_drop", "6%", 0.06), measured)
    start = "the drop of recall against the reference is"
    assert explain_verdict(points) == f"{start} 0.05 (95 % interval 0.04 to 0.06; test): shown to be within 0.06"
    assert explain_verdict(share) == f"{start} 10 % (95 % interval 8 % to 12 %; test): shown to be more than 6%"
    assert (points.unit, share.unit) == ("ratio", "ratio")


def test_a_relative_drop_of_a_negative_value_is_a_drop() -> None:
    other = Comparison(-10.0, Estimate(1.2, 1.2, 1.2), Estimate(-2.0, -2.0, -2.0), "exact")
    verdict = verdict_of(gate("score", "max_drop", "10%", 0.1), {"score": metric(-12.0, reference=other)})
    assert verdict.measured == pytest.approx(0.2)
    assert verdict.outcome == "failed"


@pytest.mark.parametrize(
    ("text", "limit", "outcome", "ending"),
    [
        ("1.5", 1.5, "passed", "shown to be at least 1.5"),
        ("1.7", 1.7, "failed", "shown to be less than 1.7"),
        (
            "1.56", 1.56, "undecided",
            "the interval holds 1.56: set `resolution: 2.2%`, and launches go on until they decide it",
        ),
    ],
)  # fmt: skip
def test_a_speed_up(text: str, limit: float, outcome: str, ending: str) -> None:
    reference = compared(0.02, (0.632, 0.62, 0.645), "paired on-CPU time, 4 launches", 4)
    times = {"p50": metric(0.0125, "s", "lower", "timing", (0.012, 0.013), reference)}
    verdict = verdict_of(gate("p50", "min_speedup", text, limit), times)
    start = "the speed-up of p50 against the reference is 1.58x (95 % interval 1.55x to 1.61x; "
    assert verdict.outcome == outcome
    assert explain_verdict(verdict) == f"{start}paired on-CPU time, 4 launches): {ending}"
    assert verdict.unit == "x"


WAITED = (
    "threads waited for a core in 12 of 14 launches: set `session: {intra_op_num_threads: 1}` in the target, "
    "measure on a quieter machine, or set `undecided: allow` in the gate"
)


SHARED = (
    "another process or virtual machine used the same core in 12 of 14 launches: measure again with --fresh when it "
    "has ended, measure on another machine, or set `undecided: allow` in the gate"
)


@pytest.mark.parametrize(
    ("limit", "outcome", "itself", "compares"),
    [
        (1.2, "passed", ", at or above the minimum of 1.2", ": shown to be at least 1.2"),
        (1.5, "undecided", f": {SHARED}", f": {SHARED}"),
        (2.0, "failed", ", below the minimum of 2.0", ": shown to be less than 2.0"),
    ],
)
def test_launches_on_a_shared_core_decide_only_what_is_clear(
    limit: float, outcome: str, itself: str, compares: str
) -> None:
    disturbance = Disturbance(12, 14, shared=True)
    speedup = replace(metric(1.58, "x", "higher", "timing", (1.29, 1.93)), disturbance=disturbance)
    reference = replace(compared(0.02, (0.632, 0.517, 0.775), "paired", 14, 0.01), disturbance=disturbance)
    p50 = metric(0.0125, "s", "lower", "timing", (0.012, 0.013), reference)
    absolute = verdict_of(gate("speedup", "min", f"{limit}", limit), {"speedup": speedup})
    relative = verdict_of(gate("p50", "min_speedup", f"{limit}", limit), {"p50": p50})
    assert (absolute.outcome, relative.outcome) == (outcome, outcome)
    assert explain_verdict(absolute) == f"speedup is 1.58x on EPYC (95 % interval 1.29x to 1.93x){itself}"
    assert explain_verdict(relative) == (
        f"the speed-up of p50 against the reference is 1.58x (95 % interval 1.29x to 1.93x; paired){compares}"
    )


def test_disturbed_launches_decide_nothing() -> None:
    """However far the threshold: the ratio of threads that wait is that of fewer threads."""
    nothing = compared(0.02, (0.632, -math.inf, math.inf), "paired on-CPU time, 14 launches", 14, 0.01)
    nothing = replace(nothing, disturbance=Disturbance(12, 14))
    times = {"p50": metric(0.0125, "s", "lower", "timing", (0.012, 0.013), nothing, nothing)}
    speedup = verdict_of(gate("p50", "min_speedup", "9", 9.0), times)
    regression = verdict_of(gate("p50", "max_regression", "5%", 0.05), times, accepted({}))
    assert (speedup.outcome, regression.outcome) == ("undecided", "undecided")
    assert explain_verdict(speedup) == (
        "the speed-up of p50 against the reference is 1.58x (95 % interval unknown; "
        f"paired on-CPU time, 14 launches): {WAITED}"
    )
    assert explain_verdict(regression) == (
        "the regression of p50 against the accepted baseline is -36.8 % (95 % interval unknown; "
        f"paired on-CPU time, 14 launches): {WAITED}"
    )
    itself = replace(metric(1.58, "x", "higher", "timing", (-math.inf, math.inf)), disturbance=Disturbance(12, 14))
    verdict = verdict_of(gate("speedup", "min", "1.5", 1.5), {"speedup": itself})
    assert verdict.outcome == "undecided"
    assert explain_verdict(verdict) == f"speedup is 1.58x on EPYC (95 % interval unknown): {WAITED}"


def test_a_speed_up_of_what_should_be_high() -> None:
    rate = metric(90, "1/s", "higher", "timing", (88, 92), compared(50, (1.8, 1.7, 1.9), "test", 3))
    assert verdict_of(gate("throughput", "min_speedup", "1.5", 1.5), {"throughput": rate}).measured == 1.8


def test_a_speed_up_needs_a_direction() -> None:
    measured = {"nodes": metric(90, reference=compared(50, (1.8, 1.8, 1.8)))}
    verdict = verdict_of(gate("nodes", "min_speedup", "1.5", 1.5), measured)
    assert verdict.outcome == "failed"
    assert explain_verdict(verdict) == "nodes has no direction of improvement, so it has no speed-up"


def test_without_a_reference_there_is_nothing_to_compare() -> None:
    verdict = verdict_of(gate("recall", "max_drop", "1%", 0.01), {"recall": metric(0.8)})
    assert verdict.outcome == "failed"
    assert explain_verdict(verdict) == (
        "the reference has no recall to compare with: the stage has no `reference` input, or the metric itself is what "
        "lies between the two: use min or max; or max_regression, which compares with the release that was accepted "
        "last, once there is one"
    )


def of_nothing(value: float, low: float, high: float) -> dict[str, Metric]:
    """A metric whose reference is 0."""
    ratios = Estimate(*(math.copysign(UNBOUNDED, ratio) if ratio else 1.0 for ratio in (value, low, high)))
    other = Comparison(0.0, ratios, Estimate(value, low, high), METHOD, 312)
    return {"error": metric(value, "", "lower", "sample", (low, high), other)}


@pytest.mark.parametrize(
    ("figures", "outcome", "figure", "ending"),
    [
        ((0.1, 0.1, 0.1), "failed", "without bound (", "more than 5%"),
        ((-0.1, -0.1, -0.1), "passed", "without bound (", "within 5%"),
        ((0.1, -0.1, 0.3), "undecided", "without bound (95 % interval unknown; ", "5% is neither kept nor broken"),
        ((0.0, 0.0, 0.3), "undecided", "0 % (95 % interval 0 % and up; ", "the interval holds 5%"),
    ],
)
def test_nothing_is_a_proportion_of_nothing(
    figures: tuple[float, float, float], outcome: str, figure: str, ending: str
) -> None:
    verdict = verdict_of(gate("error", "max_increase", "5%", 0.05), of_nothing(*figures))
    assert verdict.outcome == outcome
    assert explain_verdict(verdict) == (
        f"the increase of error against the reference is {figure}{METHOD}; "
        f"nothing is a proportion of 0, which the reference has: write the threshold without %): {ending}"
    )
    in_its_unit = verdict_of(gate("error", "max_increase", "0.05", 0.05), of_nothing(*figures))
    assert in_its_unit.outcome == outcome
    assert "proportion" not in explain_verdict(in_its_unit)


@pytest.mark.parametrize("other", [0.0, -0.0])
def test_nothing_beside_nothing_is_the_same(other: float) -> None:
    known = Comparison(other, Estimate(1.0, 1.0, 1.0), Estimate(0.0, 0.0, 0.0), "exact")
    for rule in ("max_increase", "max_drop"):
        verdict = verdict_of(gate("error", rule, "0%", 0.0), {"error": metric(0.0, reference=known)})
        assert (verdict.outcome, verdict.measured) == ("passed", 0.0)


def test_a_figure_below_0_has_no_speed_up() -> None:
    """One of 2 beside one of -1 would be twice as good by its ratio, if the sign were not looked at."""
    for value, other in ((2.0, -1.0), (-1.0, 2.0), (-1.0, -2.0)):
        known = Comparison(other, Estimate(*[value / other] * 3), Estimate(*[value - other] * 3), "exact")
        verdict = verdict_of(
            gate("loss", "min_speedup", "1.5", 1.5), {"loss": metric(value, "", "lower", reference=known)}
        )
        assert verdict.outcome == "failed"
        assert explain_verdict(verdict) == (
            f"loss is {value:.0f}, and {other:.0f} of the reference: a figure below 0 has no speed-up"
        )


def test_a_speed_up_whose_ratio_may_be_anything() -> None:
    """The interval of a ratio by resampling may begin below 0: its inverse then has no upper end."""
    known = Comparison(0.4, Estimate(0.5, -1.0, 2.0), Estimate(-0.2, -0.5, 0.3), METHOD, 312)
    measured = {"loss": metric(0.2, "", "lower", "sample", (-0.2, 0.6), known)}
    verdict = verdict_of(gate("loss", "min_speedup", "1.5", 1.5), measured)
    assert (verdict.outcome, verdict.interval) == ("undecided", Estimate(2.0, 0.5, math.inf))


def test_an_interval_that_no_number_of_examples_narrows_enough() -> None:
    at_limit = verdict_of(gate("recall", "max_drop", "1%", 0.01), recall((0.99, 0.98, 1.0)))
    uncounted = verdict_of(gate("recall", "max_drop", "1%", 0.01), recall((0.995, 0.98, 1.01), count=0))
    assert explain_verdict(at_limit).endswith(": the interval holds 1%")
    assert explain_verdict(uncounted).endswith(": the interval holds 1%")


def test_too_few_examples_say_so() -> None:
    method = "4 examples of class 3, too few for an interval, which takes 6"
    nothing = Comparison(0.8, Estimate(1.0, -math.inf, math.inf), Estimate(0.0, -math.inf, math.inf), method, 60)
    for text, drop in (("1%", "0 %"), ("0.01", "0")):
        measured = {"f1": metric(0.8, "ratio", "higher", "sample", (-math.inf, math.inf), nothing)}
        verdict = verdict_of(gate("f1", "max_drop", text, 0.01), measured)
        assert verdict.outcome == "undecided"
        assert explain_verdict(verdict) == (
            f"the drop of f1 against the reference is {drop} (95 % interval unknown; {method}): "
            f"{text} is neither kept nor broken"
        )


def test_a_drop_that_is_next_to_its_limit() -> None:
    verdict = verdict_of(gate("recall", "max_drop", "1%", 0.01), recall((0.9901, 0.98, 1.0)))
    assert explain_verdict(verdict).endswith(
        ": the interval holds 1%; over 100 times as many examples would decide it: choose another threshold"
    )
    enough = verdict_of(gate("recall", "max_drop", "1%", 0.01), recall((0.991, 0.981, 1.001)))
    assert explain_verdict(enough).endswith(": the interval holds 1%; about 31000 more examples would decide it")


def test_a_comparison_without_a_figure_fails() -> None:
    other = Comparison(0.0, Estimate(math.nan, math.nan, math.nan), Estimate(0.0, 0.0, 0.0), "exact")
    verdict = verdict_of(gate("recall", "max_drop", "1%", 0.01), {"recall": metric(0.8, reference=other)})
    assert verdict.outcome == "failed"
    assert explain_verdict(verdict) == (
        "recall cannot be compared: the drop of recall against the reference is nan (95 % interval nan to nan; exact; "
        "nothing is a proportion of 0, which the reference has: write the threshold without %)"
    )


def right_or_wrong(better: int, worse: int, examples: int) -> Metric:
    """The accuracy of a model and of another, which gets 80 of 100 right."""
    low, high = estimate_tango_interval(better, worse, examples)
    change = (better - worse) / examples
    other = Comparison(
        0.8,
        Estimate(*(1 + difference / 0.8 for difference in (change, low, high))),
        Estimate(change, low, high),
        "by test",
        examples,
        better + worse,
    )
    return metric(0.8 + change, "ratio", "higher", "sample", (0.7, 0.9), other)


@pytest.mark.parametrize(
    ("better", "worse", "examples", "limit"),
    [
        (0, 0, 30, 0.01),
        (0, 0, 300, 0.01),
        (1, 1, 100, 0.01),
        (0, 1, 100, 0.03),
        (20, 20, 400, 0.01),
        (10, 30, 400, 0.02),
    ],
)
def test_as_many_more_examples_as_it_says_decide_it(better: int, worse: int, examples: int, limit: float) -> None:
    """Where none changed sides, the interval narrows with their number, and not with its root: 350, not 3800."""
    measured = {"accuracy": right_or_wrong(better, worse, examples)}
    verdict = verdict_of(gate("accuracy", "max_drop", f"{limit}", limit), measured)
    assert verdict.outcome == "undecided"
    more = int(explain_verdict(verdict).rpartition("; about ")[2].split(" ")[0])
    times = (examples + more) / examples
    for factor, decided in ((0.8, False), (1.2, True)):
        scaled = right_or_wrong(*(round(factor * times * count) for count in (better, worse, examples)))
        outcome = verdict_of(gate("accuracy", "max_drop", f"{limit}", limit), {"accuracy": scaled}).outcome
        assert (outcome != "undecided") == decided, (factor, more)


def test_a_proportion_of_little_asks_for_as_many_examples() -> None:
    measured = {"accuracy": right_or_wrong(0, 0, 30)}
    verdict = verdict_of(gate("accuracy", "max_drop", "1.25%", 0.0125), measured)
    assert explain_verdict(verdict).endswith("the interval holds 1.25%; about 350 more examples would decide it")
