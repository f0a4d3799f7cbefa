"""`min` and `max`: exact values by the value, times by their interval, with three outcomes."""

from __future__ import annotations

import math

import pytest

from orun.core.metrics import Estimate
from orun.environment.hosts import name_device
from tests.facts import explain_verdict
from tests.gates.support import HERE, PLACE, gate, metric, verdict_of


def test_an_exact_value_within_its_minimum() -> None:
    verdict = verdict_of(gate("cosine", "min", "0.97", 0.97), {"cosine": metric(0.98734, better="higher")})
    assert verdict.outcome == "passed"
    assert not verdict.fails
    assert explain_verdict(verdict) == "cosine is 0.9873, at or above the minimum of 0.97"
    assert (verdict.measured, verdict.unit, verdict.interval) == (0.98734, "", None)
    assert (verdict.stage, verdict.metric, verdict.rule, verdict.threshold) == ("latency", "cosine", "min", "0.97")
    assert verdict.position == PLACE


def test_an_exact_value_at_its_limit_passes() -> None:
    assert verdict_of(gate("size", "max", "23MB", 23e6), {"size": metric(23e6, "B", "lower")}).outcome == "passed"


def test_a_value_that_looks_like_its_limit_is_shown_in_full() -> None:
    verdict = verdict_of(gate("cosine", "min", "0.97", 0.97), {"cosine": metric(0.96999, better="higher")})
    assert verdict.outcome == "failed"
    assert verdict.fails
    assert explain_verdict(verdict) == "cosine is 0.96999, below the minimum of 0.97"
    size = verdict_of(gate("size", "max", "25MB", 25e6), {"size": metric(25_000_001, "B", "lower")})
    assert explain_verdict(size) == "size is 25.000001 MB, above the maximum of 25MB"


def test_a_size_above_its_maximum() -> None:
    verdict = verdict_of(gate("size", "max", "20MB", 20e6), {"size": metric(22.9e6, "B", "lower")})
    assert verdict.outcome == "failed"
    assert explain_verdict(verdict) == "size is 22.9 MB, above the maximum of 20MB"


def test_a_value_on_a_sample_is_judged_itself() -> None:
    recall = metric(0.8, "ratio", "higher", "sample", (0.75, 0.84))
    verdict = verdict_of(gate("recall", "min", "79%", 0.79), {"recall": recall})
    assert verdict.outcome == "passed"
    assert explain_verdict(verdict) == "recall is 80 % (95 % interval 75 % to 84 %), at or above the minimum of 79%"


@pytest.mark.parametrize(
    ("limit", "text", "outcome", "ending"),
    [
        (0.013, "13ms", "passed", ", within the maximum of 13ms"),
        (0.011, "11ms", "failed", ", above the maximum of 11ms"),
        (
            0.0125, "12.5ms", "undecided",
            ", and the interval holds the maximum of 12.5ms: raise `min_launches` and `samples`",
        ),
    ],
)  # fmt: skip
def test_a_time_is_judged_by_its_interval(limit: float, text: str, outcome: str, ending: str) -> None:
    p50 = metric(0.0124, "s", "lower", "timing", (0.0121, 0.0127))
    verdict = verdict_of(gate("p50", "max", text, limit), {"p50": p50})
    assert verdict.outcome == outcome
    assert verdict.fails == (outcome != "passed")
    assert explain_verdict(verdict) == f"p50 is 12.4 ms on EPYC (95 % interval 12.1 ms to 12.7 ms){ending}"
    assert verdict.interval == Estimate(0.0124, 0.0121, 0.0127)


def test_a_wall_time_has_the_undisturbed_time_beside_it() -> None:
    measured = {
        "p50": metric(0.095, "s", "lower", "timing", (0.074, 0.122)),
        "p99": metric(0.195, "s", "lower", "timing"),
        "cpu": metric(0.0162, "s", "lower", "timing"),
        "load": metric(0.7, "s", "lower", "timing"),
    }
    assert explain_verdict(verdict_of(gate("p50", "max", "30ms", 0.03), measured)) == (
        "p50 is 95 ms on EPYC (95 % interval 74 ms to 122 ms; 16.2 ms without waiting for a core), "
        "above the maximum of 30ms"
    )
    alone = verdict_of(gate("cpu", "max", "30ms", 0.03), measured)
    assert explain_verdict(alone) == "cpu is 16.2 ms on EPYC, within the maximum of 30ms"
    tail = verdict_of(gate("p99", "max", "30ms", 0.03), measured)
    assert explain_verdict(tail) == "p99 is 195 ms on EPYC, above the maximum of 30ms"
    load = verdict_of(gate("load", "max", "1s", 1.0), measured)
    assert explain_verdict(load) == "load is 700 ms on EPYC, within the maximum of 1s"


def test_a_time_of_another_machine_says_so() -> None:
    p50 = {"p50": metric(0.0124, "s", "lower", "timing", (0.0121, 0.0127))}
    limit = gate("p50", "max", "13ms", 0.013)
    verdict = verdict_of(limit, p50, host={**HERE, "cpu": "Xeon"})
    newer = verdict_of(limit, p50, host={**HERE, "runtime": "onnxruntime 1.32"})
    assert explain_verdict(verdict) == (
        "p50 is 12.4 ms on another machine (EPYC) (95 % interval 12.1 ms to 12.7 ms), within the maximum of 13ms"
    )
    assert (
        explain_verdict(newer)
        == "p50 is 12.4 ms on EPYC (95 % interval 12.1 ms to 12.7 ms), within the maximum of 13ms"
    )


@pytest.mark.parametrize(
    ("host", "name"), [({}, ""), ({"cpu": "EPYC"}, "EPYC"), ({"cpu": "EPYC", "gpu name": "H100"}, "H100")]
)
def test_what_did_the_work(host: dict[str, str], name: str) -> None:
    assert name_device(host) == name


def test_a_size_is_the_same_on_every_machine() -> None:
    size = {"size": metric(22.9e6, "B", "lower")}
    verdict = verdict_of(gate("size", "max", "25MB", 25e6), size, host={**HERE, "cpu": "Xeon"})
    assert explain_verdict(verdict) == "size is 22.9 MB, within the maximum of 25MB"


@pytest.mark.parametrize(("limit", "outcome"), [(80, "passed"), (83, "failed"), (81.5, "undecided")])
def test_a_rate_must_reach_its_minimum(limit: float, outcome: str) -> None:
    rate = metric(81, "1/s", "higher", "timing", (80, 82))
    assert verdict_of(gate("throughput", "min", f"{limit}", limit), {"throughput": rate}).outcome == outcome


def test_a_quantile_that_nothing_bounds_above() -> None:
    p99 = metric(0.021, "s", "lower", "timing", (0.018, math.inf))
    undecided = verdict_of(gate("p99", "max", "30ms", 0.03), {"p99": p99})
    failed = verdict_of(gate("p99", "max", "10ms", 0.01), {"p99": p99})
    start = "p99 is 21 ms on EPYC (95 % interval 18 ms and up), "
    assert (undecided.outcome, failed.outcome) == ("undecided", "failed")
    assert explain_verdict(undecided) == f"{start}and the interval holds the maximum of 30ms: raise `samples`"
    assert explain_verdict(failed) == f"{start}above the maximum of 10ms"


def test_an_undecided_gate_may_pass() -> None:
    p50 = metric(0.0124, "s", "lower", "timing", (0.0121, 0.0127))
    verdict = verdict_of(gate("p50", "max", "12.5ms", 0.0125, undecided="allow"), {"p50": p50})
    assert verdict.outcome == "undecided"
    assert not verdict.fails


def test_a_time_without_an_interval_is_judged_itself() -> None:
    assert verdict_of(gate("mine", "max", "1s", 1.0), {"mine": metric(0.5, "s", "lower", "timing")}).outcome == "passed"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_fails_every_rule(value: float) -> None:
    for rule in ("min", "max", "max_drop", "max_increase", "max_regression", "min_speedup"):
        verdict = verdict_of(gate("cosine", rule, "0.97", 0.97), {"cosine": metric(value)})
        assert verdict.outcome == "failed"
        assert explain_verdict(verdict) == f"cosine is {value}, not a finite number"


def test_a_metric_that_is_not_there() -> None:
    times = {"p50": metric(1.0), "p90": metric(1.0)}
    close = verdict_of(gate("p5O", "max", "1s", 1.0), times)
    far = verdict_of(gate("recall", "max", "1s", 1.0), times)
    none = verdict_of(gate("recall", "max", "1s", 1.0), {})
    assert explain_verdict(close) == "latency measured no p5O; did you mean p50?"
    assert explain_verdict(far) == "latency measured no recall; it has p50, p90"
    assert explain_verdict(none) == "latency measured no recall; it has no metrics"
    assert {close.outcome, far.outcome, none.outcome} == {"failed"}


def test_no_slice_is_suggested_in_place_of_another() -> None:
    """A gate on the value that is spelt most alike would judge the opposite class."""
    scores = {name: metric(0.9) for name in ("f1", "f1[label=0]", "f1[label=1]", "f1[sex=bad]", "auc[label=bad]")}
    named = verdict_of(gate("f1[label=bad]", "min", "0.5", 0.5), scores)
    misspelt = verdict_of(gate("f2[label=1]", "min", "0.5", 0.5), scores)
    bare = verdict_of(gate("f11", "min", "0.5", 0.5), scores)
    assert explain_verdict(named) == "latency measured no f1[label=bad]; it has f1[label=0], f1[label=1]"
    assert explain_verdict(misspelt) == "latency measured no f2[label=1]; did you mean f1[label=1]?"
    assert explain_verdict(bare) == "latency measured no f11; did you mean f1?"
