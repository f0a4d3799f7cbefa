"""Thresholds as people write them: `12ms`, `300MB`, `5%`, `1.5x`, `90/s`."""

from __future__ import annotations

from orun.core.metrics import Unit
from orun.pipeline.model import Rule, Threshold
from orun.pipeline.nodes import Scalar
from orun.pipeline.problems import Problems
from orun.pipeline.scales import RELATIVE
from orun.text.units import (
    DURATIONS,
    ENERGIES,
    PER_SECOND,
    SIZES,
    THRESHOLD_FORMS,
    THRESHOLD_UNITS,
    parse_duration,
    parse_energy,
    parse_size,
    split,
)


def read_threshold(rule: Rule, node: Scalar, problems: Problems) -> Threshold | None:
    """Return the limit of a rule; None for an invalid one, which is noted."""
    parts = split(node.text)
    if parts is None:
        problems.add(node.span, f"{rule!r} cannot be {node.text!r}: it is too large", expected=_describe_expected(rule))
        return None
    number, unit = parts
    if unit and not _is_allowed(unit, rule):
        problems.add(node.span, f"{rule!r} cannot be {node.text!r}", expected=_describe_expected(rule))
        return None
    if number < 0 and rule not in ("min", "max"):
        problems.add(node.span, f"{rule!r} cannot be negative", expected=_describe_expected(rule))
        return None
    if rule == "min_speedup" and number == 0:
        problems.add(node.span, "'min_speedup' cannot be 0", expected=_describe_expected(rule))
        return None
    value, known = _parse_value(node.text, number, unit)
    return Threshold(value, unit == "%" and rule in RELATIVE, node.text, known)


def _parse_value(text: str, number: float, unit: str) -> tuple[float, Unit]:
    if unit in DURATIONS:
        return parse_duration(text), "s"
    if unit in SIZES:
        return float(parse_size(text)), "B"
    if unit in ENERGIES:
        return parse_energy(text), "J"
    if unit == "%":
        return number / 100, "ratio"
    if unit == PER_SECOND:
        return number, "1/s"
    return number, "x" if unit == "x" else ""


def _is_allowed(unit: str, rule: Rule) -> bool:
    if rule == "min_speedup" or unit == "x":
        return unit == "x" and rule not in RELATIVE
    return unit in THRESHOLD_UNITS


def _describe_expected(rule: Rule) -> str:
    if rule == "min_speedup":
        return "a factor such as 1.5 or 1.5x"
    if rule not in RELATIVE:
        return THRESHOLD_FORMS
    return "a proportion such as 5%, or a difference such as 2ms, 10MB or 0.01"
