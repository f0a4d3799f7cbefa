"""Notes on useless gates: every model passes them, or only a better one fails them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from orun.core.metrics import Better, Quantity
from orun.pipeline.model import Rule, Threshold
from orun.pipeline.nodes import Entry
from orun.pipeline.problems import Problems

USELESS: Mapping[Better, Literal["min", "max"]] = {"higher": "max", "lower": "min"}  # alone: a worse model passes it
LOW_SHARE = 0.01  # `min: 0.93%` of an accuracy: its writer may have meant 93 %


def note_useless(
    metric: str,
    quantity: Quantity,
    limits: Mapping[Rule, Threshold],
    rules: Mapping[Rule, Entry],
    problems: Problems,
    *,
    in_any: bool,
) -> None:
    """Note each useless condition of a gate.

    A `min` and a `max` together are a range. A member of an `any` group may say that a better model must keep another
    condition, too.
    """
    better, bottom = quantity.better, quantity.least
    is_range = {"min", "max"} <= limits.keys()
    always = [rule for rule, limit in limits.items() if bottom is not None and _is_below(rule, limit, bottom)]
    for rule in () if is_range else always:
        message = f"every model passes this {rule!r} of {metric!r}, which is never below {bottom:g}"
        problems.add_note(rules[rule].value.span, message)
    useless = USELESS.get(better)
    if useless and useless in limits and useless not in always and not is_range and not in_any:
        problems.add_note(
            rules[useless].key,
            f"only a better {metric!r} fails this {useless!r}, as it is better when {better}",
            suggestion="min" if useless == "max" else "max",
        )
    least = limits.get("min")
    if least and least.unit == "ratio" and 0 < least.value < LOW_SHARE and better == "higher":
        problems.add_note(
            rules["min"].value.span,
            f"nearly every model passes this 'min' of {metric!r}, which is {least.value:.4g}",
            suggestion=f"{10_000 * least.value:.4g}%",
        )


def _is_below(rule: Rule, limit: Threshold, bottom: float) -> bool:
    """Return whether a rule allows every value from the least one: a drop by 100 % leads to 0."""
    return limit.value <= bottom if rule == "min" else rule == "max_drop" and limit.relative and limit.value >= 1
