"""Checks of a gate's sense: the scale of its threshold, and the direction of its rule.

For built-in kinds they happen before anything runs, for the user's own functions after they have measured.
"""

from __future__ import annotations

from orun.core.metrics import UNIT_WORDS, Better, Metric, Quantity, Unit
from orun.core.serialization import Record
from orun.pipeline.model import Gate, Rule
from orun.text.units import show

PERCENT = 100
SMALLEST = 0.01  # bare number that stands for a proportion of a time or size; 0.001 may be a millisecond
LARGEST_PROPORTION = 1.5  # of unit `ratio`; a larger value is a percentage or a factor
RELATIVE = ("max_drop", "max_increase", "max_regression")
ABSOLUTE = ("min", "max")
WORSE: dict[Better, Rule] = {"lower": "max_increase", "higher": "max_drop"}
EXPECTED: dict[Unit, str] = {
    "s": "a duration such as 12ms",
    "B": "a size such as 300MB",
    "J": "an energy such as 20mJ",
    "ratio": "a proportion such as 5%, or a number",
    "x": "a factor such as 1.5 or 1.5x",
    "1/s": "a rate such as 90/s, or a number",
    "": "a number",
}


class Misfit(Record, frozen=True):
    """Reason why a threshold does not suit its metric, the expectation, and perhaps a suggestion."""

    message: str
    expected: str
    suggestion: str = ""


def find_misfit(gate: Gate, quantity: Quantity) -> Misfit | None:
    """Return the misfit of a threshold with another unit, without the unit of a time, or out of range."""
    limit, unit = gate.threshold, quantity.unit
    if wrong := _find_excess(gate, quantity):
        return wrong
    if unit is None:
        return None
    held = f"{gate.metric!r} cannot be held against {limit.text!r}: it {UNIT_WORDS[unit]}"
    if unit == "x" and gate.rule in RELATIVE and not limit.unit and limit.value >= 1:
        expected = "a proportion such as 5%, or a difference below 1"
        return Misfit(f"{held}, and may be meant in percent", expected, f"{limit.text}%")
    bare = unit in ("s", "B", "J") and gate.rule != "min_speedup" and not limit.unit and limit.value != 0
    if gate.fits(unit) and not bare:  # 12 may mean milliseconds, 0.05 a proportion: every time would pass
        return None
    if gate.rule not in RELATIVE:
        return Misfit(held, EXPECTED[unit])
    meant = f"{limit.value * PERCENT:g}%" if bare and SMALLEST <= limit.value < 1 else ""
    return Misfit(held, f"{EXPECTED[unit]} or a proportion such as 5%", meant)


def _find_excess(gate: Gate, quantity: Quantity) -> Misfit | None:
    """Return the misfit of a limit that no value of its metric reaches: above the greatest, or a `max` below all."""
    limit, least, greatest = gate.threshold, quantity.least, quantity.greatest
    held = f"{gate.metric!r} cannot be held against {limit.text!r}: it"
    if gate.rule == "max" and least is not None and limit.value < least:
        return Misfit(f"{held} is never below {least:g}", f"a limit from {least:g}")
    if greatest is None:
        return None
    may_be_percent = limit.value <= PERCENT and not limit.unit  # 95 may mean 95 %
    if quantity.unit == "ratio" and _is_beyond(gate, greatest):
        suggestion = f"{limit.text}%" if may_be_percent else ""
        return Misfit(f"{held} {UNIT_WORDS['ratio']}, at most {greatest:g}", EXPECTED["ratio"], suggestion)
    if quantity.unit == "" and gate.rule in ABSOLUTE and limit.value > greatest:
        suggestion = f"{limit.value / PERCENT:g}" if may_be_percent else ""
        return Misfit(f"{held} is at most {greatest:g}", f"a number up to {greatest:g}", suggestion)
    return None


def explain_percentage(gate: Gate, metric: Metric) -> str:
    """Return a message about a percentage as the limit of a metric that is no proportion, or an empty text.

    27 is above 30 %, so every model would pass. A metric of unit `ratio` may be a little above 1, as an error rate may.
    """
    limit = gate.threshold
    if metric.unit == "ratio" and gate.rule == "min" and limit.unit == "ratio" and metric.value > LARGEST_PROPORTION:
        return (
            f"{gate.metric!r} cannot be held against {limit.text!r}: it is {show(metric.value, metric.unit)}, and no "
            f"proportion; for {metric.value:g} percent return {metric.value / PERCENT:g}, for a factor the unit x"
        )
    if gate.rule not in ABSOLUTE or metric.unit or limit.unit != "ratio" or abs(metric.value) <= 1 or limit.value > 1:
        return ""
    return (
        f"{gate.metric!r} cannot be held against {limit.text!r}, which is {limit.value:g}: it is "
        f"{show(metric.value, metric.unit)}, and no proportion; expected a number without %"
    )


def explain_wrong_rule(gate: Gate, better: Better, unit: Unit | None) -> str:
    """Return a sentence about a rule that limits an improvement; empty for other rules."""
    if gate.rule not in WORSE.values() or better == "neither" or gate.rule == WORSE[better]:
        return ""
    subject = f"{UNIT_WORDS[unit]}, and" if unit else "is"
    return f"{gate.rule!r} lets {gate.metric!r} get worse: it {subject} better when {better}"


def _is_beyond(gate: Gate, greatest: float) -> bool:
    """Return whether a limit is too large for a proportion or its difference: 1 may mean 1 %."""
    limit = gate.threshold
    if limit.relative or gate.rule == "min_speedup":
        return False
    return limit.value >= greatest if gate.rule in RELATIVE else limit.value > greatest
