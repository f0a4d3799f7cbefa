from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from orun.core.metrics import HIGHER_SHARE, TIME, Comparison, Disturbance, Estimate, Metric, Quantity, make_unknown
from orun.core.serialization import decode, encode, from_json, replace, to_json
from orun.errors import OutputRefused
from orun.executors.local.returned_metrics import check_metrics, require_declared

NAME = "a name is a text of printable characters, not empty"
HINT = "  hint: Return a mapping of names to finite numbers or orun.Metric"


def test_numbers_of_any_library_become_metrics() -> None:
    metric = Metric(12, "s", "lower")
    assert check_metrics("a", {"a": 1, "b": 0.5, "c": np.float32(2), "d": np.int64(3), "e": metric}, {}) == {
        "a": Metric(1.0), "b": Metric(0.5), "c": Metric(2.0), "d": Metric(3.0), "e": Metric(12.0, "s", "lower"),
    }  # fmt: skip
    assert check_metrics("a", None, {}) == {}
    assert type(check_metrics("a", {"c": np.float64(2)}, {})["c"].value) is float


def test_a_number_gets_the_unit_and_the_direction_that_its_kind_declares() -> None:
    declared = {"p50": TIME, "score": HIGHER_SHARE, "own": Quantity()}
    assert check_metrics("a", {"p50": 0.5, "score[label=3]": 1, "own": 2, "more": 3}, declared) == {
        "p50": Metric(0.5, "s", "lower"),
        "score[label=3]": Metric(1.0, "ratio", "higher"),
        "own": Metric(2.0),
        "more": Metric(3.0),
    }


def test_a_metric_in_another_unit_or_direction_than_declared_is_refused() -> None:
    """Its gate was checked against the declaration before anything ran."""
    with pytest.raises(OutputRefused) as caught:
        check_metrics("acme", {"p50": Metric(12.0, "", "lower")}, {"p50": TIME})
    assert str(caught.value) == (
        "acme returned 'p50' otherwise than its kind declares it\n"
        f"  declared: unit 's', better 'lower'; returned: unit '', better 'lower'\n{HINT}"
    )
    own = Metric(12.0, "B", "higher")
    assert check_metrics("a", {"own": own}, {"own": Quantity()}) == {"own": own}


def test_numbers_of_any_library_may_be_in_a_metric() -> None:
    """Those of numpy cannot be sent between processes."""
    number: Any = np.float32(1)
    three: Any = np.int64(3)
    interval = Estimate(number, number, np.float64("inf"))
    compared = Comparison(number, interval, interval, "paired", three)
    returned = Metric(number, "ratio", "higher", "sample", interval, references={"fused": compared}, examples=three)
    metric = check_metrics("a", {"x": returned}, {})["x"]
    plain = Estimate(1.0, 1.0, INFINITE)
    assert metric == replace(
        returned, interval=plain, references={"fused": Comparison(1.0, plain, plain, "paired", 3)}, examples=3
    )
    assert decode(Metric, from_json(to_json(encode(metric)))) == metric


ESTIMATE = "(allowed: orun.Estimate(value, low, high), or None)"
INFINITE, UNKNOWN = float("inf"), float("nan")
ONE = Estimate(1.0, 1.0, 1.0)


def compared(ratio: Estimate) -> dict[str, Metric]:
    return {"x": Metric(1.0, reference=Comparison(1.0, ratio, Estimate(0, 0, 0), "paired"))}


def test_an_interval_may_be_open() -> None:
    returned = compared(Estimate(1.0, -INFINITE, INFINITE))
    assert check_metrics("a", returned, {}) == returned


def test_a_metric_of_which_nothing_is_known_says_why() -> None:
    disturbance = Disturbance(3, 3, shared=True)
    comparison = Comparison(1.0, make_unknown(1.2), make_unknown(0.2), "paired", 3, disturbance=disturbance)
    metric = Metric(1.2, "s", "lower", "timing", make_unknown(1.2), comparison, disturbance=disturbance)
    assert check_metrics("latency", {"p50": metric}, {}) == {"p50": metric}


def test_an_interval_may_miss_its_value_by_rounding() -> None:
    returned = compared(Estimate(0.3, 0.1 + 0.2, 0.4))
    assert check_metrics("a", returned, {}) == returned


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([1], "a returned a list, which holds no metrics"),
        ({1: 1.0}, f"a returned a metric that is named 1\n  {NAME}"),
        ({"": 1.0}, f"a returned a metric that is named ''\n  {NAME}"),
        ({"a\x1b[2J": 1.0}, f"a returned a metric that is named 'a\\x1b[2J'\n  {NAME}"),
        ({"x": "1"}, "a returned a metric 'x' that is no number\n  it is a str"),
        ({"x": Metric("0.9")}, "a returned a metric 'x' that is no number\n  value is a str"),  # type: ignore[arg-type]
        ({"x": Metric(None)}, "a returned a metric 'x' that is no number\n  value is a NoneType"),  # type: ignore[arg-type]
        (
            {"x": Metric(0.9, interval=(0.8, 0.95))},  # type: ignore[arg-type]
            f"`a` returned an invalid metric 'x': interval is a tuple {ESTIMATE}",
        ),
        (
            {"x": Metric(0.9, interval={"value": 0.9, "low": 0.8, "high": 0.95})},  # type: ignore[arg-type]
            f"`a` returned an invalid metric 'x': interval is a dict {ESTIMATE}",
        ),
        ({"x": np.ones(1)}, "a returned a metric 'x' that is no number\n  it is a ndarray"),
        ({"x": float("inf")}, "a returned a metric 'x' that is not finite\n  value is inf"),
        ({"x": 10**400}, "a returned a metric 'x' that is too large for a number"),
        ({"x": Metric(float("nan"))}, "a returned a metric 'x' that is not finite\n  value is nan"),
        (
            compared(Estimate(INFINITE, 1.0, INFINITE)),
            "a returned a metric 'x' that is not finite\n  reference.ratio.value is inf",
        ),
        (
            {"x": Metric(1.0, "ms")},  # type: ignore[arg-type] # as users do
            "`a` returned an invalid metric 'x': unknown unit 'ms' (allowed: s, B, J, ratio, x, 1/s, or empty)",
        ),
        (
            {"x": Metric(1.0, "s", "smaller")},  # type: ignore[arg-type]
            "`a` returned an invalid metric 'x': unknown direction 'smaller' (allowed: higher, lower, neither)",
        ),
        (
            {"x": Metric(1.0, "s", "lower", "clock")},  # type: ignore[arg-type]
            "`a` returned an invalid metric 'x': unknown noise 'clock' (allowed: none, sample, timing)",
        ),
        (
            {"x": Metric(1.0, ["s"])},  # type: ignore[arg-type]
            "`a` returned an invalid metric 'x': unknown unit ['s'] (allowed: s, B, J, ratio, x, 1/s, or empty)",
        ),
        (
            {"x": Metric(1.0, references={"fused": Comparison(UNKNOWN, ONE, ONE, "paired")})},
            "a returned a metric 'x' that is not finite\n  references.fused.value is nan",
        ),
        (
            compared(Estimate(1.0, 1.0, UNKNOWN)),
            "a returned a metric 'x' that is not finite\n  reference.ratio.high is nan",
        ),
        (
            {"x": Metric(0.02, "s", "lower", "timing", Estimate(0.02, 0.001, 0.002))},
            "a returned a metric 'x' whose interval does not hold it\n  interval: 0.02 is not between 0.001 and 0.002",
        ),
        (
            {"x": Metric(0.02, "s", "lower", "timing", Estimate(0.0015, 0.001, 0.002))},
            "a returned a metric 'x' whose interval does not hold it\n  interval: 0.02 is not between 0.001 and 0.002",
        ),
        (
            {"x": Metric(0.02, interval=Estimate(0.02, INFINITE, INFINITE))},
            "a returned a metric 'x' whose interval does not hold it\n  interval: 0.02 is not between inf and inf",
        ),
        (
            compared(Estimate(1.0, 1.1, 0.9)),
            "a returned a metric 'x' whose interval does not hold it\n  reference.ratio: 1 is not between 1.1 and 0.9",
        ),
    ],
)
def test_anything_else_is_refused(returned: Any, message: str) -> None:
    with pytest.raises(OutputRefused) as caught:
        check_metrics("a", returned, {})
    assert str(caught.value) == f"{message}\n{HINT}"


def test_a_model_is_not_returned_but_saved() -> None:
    with pytest.raises(OutputRefused) as caught:
        check_metrics("a", onnx.ModelProto(), {})
    assert str(caught.value) == (
        "a returned a ModelProto, which holds no metrics\n  hint: Save the model: onnx.save(model, context.result)"
    )


@pytest.mark.parametrize(("returned", "listed"), [(["m"], "m"), ([], "none"), (["n"], "n")])
def test_declared_metrics_must_be_returned(returned: list[str], listed: str) -> None:
    with pytest.raises(OutputRefused) as caught:
        require_declared("a", returned, ["n", "k"])
    missing = "'k'" if returned == ["n"] else "'n', 'k'"
    assert str(caught.value) == (
        f"a did not return {missing}\n  it declares the metrics n, k, and returned {listed}\n"
        "  hint: Return each of them, or take it out of `metrics` of @orun.stage"
    )


def test_slices_stand_for_a_declared_metric() -> None:
    require_declared("a", ["score[part=a]", "score[part=b]", "more"], ["score", "score[part=a]"])
