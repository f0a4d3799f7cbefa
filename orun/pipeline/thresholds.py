"""Thresholds as people write them: `12ms`, `300MB`, `5%`, `1.5x`, `90/s`."""

from __future__ import annotations

from orun.metrics import UNIT_WORDS, Unit
from orun.pipeline.model import Gate, Rule, Threshold
from orun.pipeline.nodes import Scalar, Span
from orun.pipeline.problems import Problems
from orun.units import DURATIONS, RATE, SIZES, parse_duration, parse_size, split

PERCENT = 100
RELATIVE = ("max_drop", "max_increase", "max_regression")
ERRORS = ("relative",)  # proportions that are better when lower, and may be above 1
GETS_WORSE: dict[Unit, Rule] = {"s": "max_increase", "B": "max_increase", "ratio": "max_drop", "1/s": "max_drop"}
EXPECTED: dict[Unit, str] = {
    "s": "a duration such as 12ms",
    "B": "a size such as 300MB",
    "ratio": "a proportion such as 5%, or a number",
    "x": "a factor such as 1.5 or 1.5x",
    "1/s": "a rate such as 90/s, or a number",
    "": "a number",
}


def threshold(rule: Rule, node: Scalar, problems: Problems) -> Threshold | None:
    """The limit that a rule is given; None when it is none, which is noted."""
    parts = split(node.text)
    number, unit = parts or (0.0, "")
    if parts is None or (unit and unit not in _units(rule)):
        problems.add(node.span, f"{rule!r} cannot be {node.text!r}", expected=_expected(rule))
        return None
    if number < 0 and rule not in ("min", "max"):
        problems.add(node.span, f"{rule!r} cannot be negative", expected=_expected(rule))
        return None
    if rule == "min_speedup" and number == 0:
        problems.add(node.span, "'min_speedup' cannot be 0", expected=_expected(rule))
        return None
    value, known = _value(node.text, number, unit)
    return Threshold(value, unit == "%" and rule in RELATIVE, node.text, known)


def check_unit(gate: Gate, unit: Unit, node: Scalar, problems: Problems) -> None:
    """Note a threshold that is in another unit than its metric, of a time or a size in none, or beyond all values."""
    if unit == "ratio" and gate.metric.partition("[")[0] not in ERRORS and _is_beyond(gate):
        problems.add(
            node.span,
            f"{gate.metric!r} cannot be held against {node.text!r}: it {UNIT_WORDS[unit]}, at most 1",
            expected=EXPECTED[unit],
            suggestion="" if gate.threshold.unit or gate.threshold.value > PERCENT else f"{node.text}%",
        )
        return
    if unit == "x" and gate.rule in RELATIVE and not gate.threshold.unit and gate.threshold.value >= 1:
        problems.add(
            node.span,
            f"{gate.metric!r} cannot be held against {node.text!r}: it {UNIT_WORDS[unit]}, and may be meant in percent",
            expected="a proportion such as 5%, or a difference below 1",
            suggestion=f"{node.text}%",
        )
        return
    bare = unit in ("s", "B") and gate.rule != "min_speedup" and not gate.threshold.unit and gate.threshold.value != 0
    if gate.fits(unit) and not bare:  # 12 is as likely meant in milliseconds, 0.05 in proportion: no time would fail
        return
    expected = EXPECTED[unit] + (" or a proportion such as 5%" if gate.rule in RELATIVE else "")
    problems.add(
        node.span, f"{gate.metric!r} cannot be held against {node.text!r}: it {UNIT_WORDS[unit]}", expected=expected
    )


def check_direction(gate: Gate, unit: Unit, key: Span, problems: Problems) -> None:
    """Note a `max_drop` of what gets worse by rising, as a time, or a `max_increase` of what gets worse by falling."""
    worse = GETS_WORSE.get(unit, gate.rule)
    if gate.rule in GETS_WORSE.values() and worse != gate.rule and gate.metric.partition("[")[0] not in ERRORS:
        better = "lower" if gate.rule == "max_drop" else "higher"
        message = f"{gate.rule!r} lets {gate.metric!r} get worse: it {UNIT_WORDS[unit]}, and better when {better}"
        problems.add(key, message, suggestion=worse)


def _is_beyond(gate: Gate) -> bool:
    """Whether no proportion can be so large, or differ by so much: 1 is as likely meant in percent."""
    limit = gate.threshold
    if limit.relative or gate.rule == "min_speedup":
        return False
    return limit.value >= 1 if gate.rule in RELATIVE else limit.value > 1


def _value(text: str, number: float, unit: str) -> tuple[float, Unit]:
    if unit in DURATIONS:
        return parse_duration(text), "s"
    if unit in SIZES:
        return float(parse_size(text)), "B"
    if unit == "%":
        return number / 100, "ratio"
    if unit == RATE:
        return number, "1/s"
    return number, "x" if unit == "x" else ""


def _units(rule: Rule) -> tuple[str, ...]:
    if rule == "min_speedup":
        return ("x",)
    return (*DURATIONS, *SIZES, "%", RATE) if rule in RELATIVE else (*DURATIONS, *SIZES, "%", RATE, "x")


def _expected(rule: Rule) -> str:
    if rule == "min_speedup":
        return "a factor such as 1.5 or 1.5x"
    return "a proportion such as 5%, or a difference such as 2ms, 10MB or 0.01"
