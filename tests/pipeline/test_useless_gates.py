"""Gates that only a better model fails, or that every one passes: they were probably meant otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.support import EXPORT, list_notes

MODELS = f"{EXPORT}  int8: {{uses: quantize/dynamic, needs: export}}\n"
ACCURACY = (
    f"stages:\n{MODELS}  accuracy:\n    uses: measure/accuracy\n    needs: {{model: int8, reference: export}}\n"
    "    with: {dataset: code.py:pairs, metrics: [accuracy, cosine, rmse, r2, code.py:load], better: {load: lower}}\n"
    "    gate: "
)
LATENCY = (
    f"stages:\n{MODELS}  latency:\n    uses: measure/latency\n    needs: {{model: int8, reference: export}}\n    gate: "
)
INT8 = f"stages:\n{EXPORT}  int8:\n    uses: quantize/dynamic\n    needs: export\n    gate: "
OWN = """
from orun import stage


@stage(inputs={}, output="metrics")
def score(context): ...
"""


@pytest.mark.parametrize(
    ("start", "gate", "metric"),
    [
        (ACCURACY, "{accuracy: {max: 90%}}", "accuracy"),
        (ACCURACY, "{cosine.min: {max: 0.9}}", "cosine.min"),
        (ACCURACY, "{rmse: {min: 3}}", "rmse"),
        (ACCURACY, "{load: {min: 3}}", "load"),
        (ACCURACY, "{all: [accuracy: {max: 90%}]}", "accuracy"),
        (LATENCY, "{speedup: {max: 1.2}}", "speedup"),
        (LATENCY, "{p50: {min: 12ms}}", "p50"),
        (LATENCY, "{throughput: {max: 90/s}}", "throughput"),
        (INT8, "{size: {min: 3MB}}", "size"),
        (INT8, "{max_abs_error: {min: 0.1}}", "max_abs_error"),
        (INT8, "{quantized: {max: 3}}", "quantized"),
    ],
)
def test_a_gate_that_no_worse_model_fails_is_noted(tmp_path: Path, start: str, gate: str, metric: str) -> None:
    """Such a gate passed every model that was bad, without a word."""
    rule, meant, better = ("max", "min", "higher") if "max:" in gate else ("min", "max", "lower")
    lines = f"{start}{gate}".splitlines()
    place = f"p.yaml:{len(lines)}:{lines[-1].index(f'{rule}:') + 1}"
    assert list_notes(tmp_path, f"{start}{gate}\n") == [
        f"{place}: only a better {metric!r} fails this {rule!r}, as it is better when {better}; did you mean {meant}?"
    ]


@pytest.mark.parametrize(
    "gate",
    [
        "{accuracy: {min: 90%}, rmse: {max: 3}}",
        "{accuracy: {min: 90%, max: 95%}}",  # a range
        "{any: [accuracy: {max: 90%}, rmse: {max: 3}]}",  # a better one must keep the other condition, too
        "{any: [{all: [accuracy: {max: 90%}, rmse: {max: 3}]}, cosine: {min: 0.9}]}",
    ],
)
def test_other_gates_are_not(tmp_path: Path, gate: str) -> None:
    assert list_notes(tmp_path, f"{ACCURACY}{gate}\n") == []


def test_a_metric_whose_direction_only_a_measurement_tells_is_not(tmp_path: Path) -> None:
    text = ACCURACY.replace(", better: {load: lower}", "")
    assert list_notes(tmp_path, f"{text}{{load: {{max: 3}}}}\n") == []
    (tmp_path / "own.py").write_text(OWN)
    assert list_notes(tmp_path, "stages:\n  own: {uses: ./own.py:score, gate: {score: {max: 3}}}\n") == []


def test_a_regression_of_a_metric_whose_direction_nobody_said_is_noted(tmp_path: Path) -> None:
    """A MAPE that rose passed as better."""
    text = ACCURACY.replace(", better: {load: lower}", "")
    (note,) = list_notes(tmp_path, f"{text}{{load: {{max_regression: 1%}}, rmse: {{max_regression: 1%}}}}\n")
    assert note.partition(": ")[2] == (
        "'max_regression' takes 'load' to be better when higher, as nothing says which way it improves; "
        "say it in the `with` of the stage: `better: {load: lower}`, or `higher`"
    )
    assert list_notes(tmp_path, f"{ACCURACY}{{load: {{max_regression: 1%}}}}\n") == []


def test_a_gate_of_several_instances_is_noted_once(tmp_path: Path) -> None:
    text = ACCURACY.replace("    with:", "    matrix: {batch: [1, 2]}\n    with:")
    text = text.replace("better:", 'batch: "${matrix.batch}", better:')
    assert len(list_notes(tmp_path, f"{text}{{accuracy: {{max: 90%}}}}\n")) == 1


@pytest.mark.parametrize(("least", "value", "meant"), [("0.93%", "0.0093", "93%"), (".9%", "0.009", "90%")])
def test_a_percentage_of_a_proportion_is_noted(tmp_path: Path, least: str, value: str, meant: str) -> None:
    """A gate of 0.93 % passed every model."""
    lines = f"{ACCURACY}{{accuracy: {{min: {least}}}}}".splitlines()
    place = f"p.yaml:{len(lines)}:{lines[-1].index(least) + 1}"
    assert list_notes(tmp_path, "\n".join(lines)) == [
        f"{place}: nearly every model passes this 'min' of 'accuracy', which is {value}; did you mean {meant}?"
    ]


@pytest.mark.parametrize("gate", ["{accuracy: {min: 1%}}", "{rmse: {max: 0.5}}", "{accuracy: {max_drop: 0.5%}}"])
def test_other_small_percentages_are_not(tmp_path: Path, gate: str) -> None:
    assert list_notes(tmp_path, f"{ACCURACY}{gate}\n") == []


@pytest.mark.parametrize(
    ("start", "metric", "rule", "limit", "bottom"),
    [
        (ACCURACY, "accuracy", "min", "-1", "0"),
        (ACCURACY, "accuracy", "min", "0%", "0"),
        (ACCURACY, "accuracy", "max_drop", "100%", "0"),
        (ACCURACY, "cosine.min", "min", "-1", "-1"),
        (LATENCY, "p50", "min", "0ms", "0"),
        (LATENCY, "speedup", "min", "0x", "0"),
        (INT8, "quantized", "min", "-1", "0"),
    ],
)
def test_a_limit_that_no_value_fails_is_noted(
    tmp_path: Path, start: str, metric: str, rule: str, limit: str, bottom: str
) -> None:
    """Such a gate passed every model without a word."""
    lines = f"{start}{{{metric}: {{{rule}: {limit}}}}}".splitlines()
    place = f"p.yaml:{len(lines)}:{lines[-1].index(limit) + 1}"
    assert list_notes(tmp_path, "\n".join(lines)) == [
        f"{place}: every model passes this {rule!r} of {metric!r}, which is never below {bottom}"
    ]


@pytest.mark.parametrize(
    "gate",
    [
        "{accuracy: {min: 0, max: 5%}}",  # a range
        "{r2: {min: -1}, load: {min: 0, max: 1}}",  # it has no least value, and that of the function is unknown
        "{accuracy: {max_drop: 99%}}",
        "{rmse: {max: 0}}",
    ],
)
def test_other_limits_at_the_end_of_a_scale_are_not(tmp_path: Path, gate: str) -> None:
    assert list_notes(tmp_path, f"{ACCURACY}{gate}\n") == []
