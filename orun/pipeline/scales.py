"""Check that a gate can mean what it says: the scale of its threshold, the direction of its rule.

Of built-in kinds that is known before anything runs; of functions of the user's own when they have measured.
"""

from __future__ import annotations

from orun.core.metrics import UNIT_WORDS, Better, Metric, Unit
from orun.core.serialization import Record
from orun.pipeline.model import Gate, Rule
from orun.text.units import show

PERCENT = 100
RELATIVE = ("max_drop", "max_increase", "max_regression")
ABSOLUTE = ("min", "max")
UNLIMITED = ("relative",)  # proportions that may be above 1
WORSE: dict[Better, Rule] = {"lower": "max_increase", "higher": "max_drop"}
EXPECTED: dict[Unit, str] = {
    "s": "a duration such as 12ms",
    "B": "a size such as 300MB",
    "ratio": "a proportion such as 5%, or a number",
    "x": "a factor such as 1.5 or 1.5x",
    "1/s": "a rate such as 90/s, or a number",
    "": "a number",
}


class Misfit(Record, frozen=True):
    """Why a threshold is none for its metric, what would be one, and perhaps what was meant."""

    message: str
    expected: str
    suggestion: str = ""


def misfit(gate: Gate, unit: Unit) -> Misfit | None:
    """Describe a threshold that cannot be right: in another unit, without the unit of a time, or out of range."""
    limit = gate.threshold
    held = f"{gate.metric!r} cannot be held against {limit.text!r}: it {UNIT_WORDS[unit]}"
    if unit == "ratio" and gate.metric.partition("[")[0] not in UNLIMITED and _is_beyond(gate):
        meant = "" if limit.unit or limit.value > PERCENT else f"{limit.text}%"
        return Misfit(f"{held}, at most 1", EXPECTED[unit], meant)
    if unit == "x" and gate.rule in RELATIVE and not limit.unit and limit.value >= 1:
        expected = "a proportion such as 5%, or a difference below 1"
        return Misfit(f"{held}, and may be meant in percent", expected, f"{limit.text}%")
    bare = unit in ("s", "B") and gate.rule != "min_speedup" and not limit.unit and limit.value != 0
    if gate.fits(unit) and not bare:  # 12 is as likely meant in milliseconds, 0.05 in proportion: no time would fail
        return None
    return Misfit(held, EXPECTED[unit] + (" or a proportion such as 5%" if gate.rule in RELATIVE else ""))


def no_proportion(gate: Gate, metric: Metric) -> str:
    """Return the message about a percentage as the limit of a metric that is no proportion; or an empty text.

    27 would be at or above 30 %, and every model would pass.
    """
    limit = gate.threshold
    if gate.rule not in ABSOLUTE or metric.unit or limit.unit != "ratio" or abs(metric.value) <= 1 or limit.value > 1:
        return ""
    return (
        f"{gate.metric!r} cannot be held against {limit.text!r}, which is {limit.value:g}: it is "
        f"{show(metric.value, metric.unit)}, and no proportion; expected a number without %"
    )


def lets_worse(gate: Gate, better: Better, unit: Unit | None = None) -> str:
    """Return the sentence about a rule that limits how far a metric improves; empty for every other.

    Args:
        gate: the gate.
        better: the direction in which its metric improves.
        unit: of its metric, where that is known.
    """
    if gate.rule not in WORSE.values() or better == "neither" or gate.rule == WORSE[better]:
        return ""
    subject = f"{UNIT_WORDS[unit]}, and" if unit else "is"
    return f"{gate.rule!r} lets {gate.metric!r} get worse: it {subject} better when {better}"


def _is_beyond(gate: Gate) -> bool:
    """Return whether no proportion can be so large, or differ by so much: 1 is as likely meant in percent."""
    limit = gate.threshold
    if limit.relative or gate.rule == "min_speedup":
        return False
    return limit.value >= 1 if gate.rule in RELATIVE else limit.value > 1
