"""Goal of a release, as the command line says it: `size<25MB, p50<10ms, cosine>0.99`."""

from __future__ import annotations

import re
from typing import Literal

from orun.core.metrics import RATE, SIZE, SPEEDUP, TIME, UNIT_WORDS, Quantity, Unit
from orun.core.serialization import Record
from orun.errors import UsageError
from orun.measure.accuracy.names import FIDELITY, QUANTITIES, TASK
from orun.pipeline.scales import EXPECTED
from orun.text.suggestions import suggest
from orun.text.units import PERCENT, SUFFIXES, parse_duration, parse_ratio, parse_size, show, split

GoalStage = Literal["tune", "accuracy", "latency"]

Objective = Literal["latency", "size"]

CONDITION = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(<=?|>=?|≤|≥)\s*([^<>=\s]+(?: [A-Za-z%]+)?)\s*")
EXAMPLE = "size<25MB, p50<10ms, cosine>0.99"
TIMES = ("p50", "p90", "p95", "p99", "cpu", "first", "load")
ALIASES = {"cosine": "cosine.mean", "latency": "p50", "memory": "size"}
USUAL: dict[Unit, str] = {"s": "ms", "B": "MB"}  # units in which a bare number is most likely meant
MOST_MEGABYTES = 100_000  # of a model
Fidelity = Literal["cosine", "sqnr"]
"""Metric by which the release is compared with the original."""
DEFAULTS: dict[Fidelity, tuple[str, str]] = {"cosine": ("cosine.mean", "0.99"), "sqnr": ("sqnr", "20")}
"""What a search keeps when the goal does not name an accuracy."""


class Condition(Record, frozen=True):
    """A condition of a goal."""

    metric: str  # its name in the stage
    rule: Literal["min", "max"]
    threshold: str
    stage: GoalStage  # measures the metric

    @property
    def text(self) -> str:
        """The condition as it is typed: `p50<10ms`."""
        return f"{self.metric}{'<' if self.rule == 'max' else '>'}{self.threshold}"

    @property
    def title(self) -> str:
        """The condition as a gate says it: `p50 max 10ms`."""
        return f"{self.metric} {self.rule} {self.threshold}"

    def describe_miss(self, measured: float) -> str:
        """Return how far a measured value is beyond the threshold: `24 % above`; empty when it is not."""
        _, quantity = _list_metrics()[self.metric]
        limit = _parse_threshold(self.threshold, quantity.unit or "")
        if (measured <= limit) if self.rule == "max" else (measured >= limit):
            return ""
        side = "above" if self.rule == "max" else "below"
        return f"{show(abs(measured - limit) / abs(limit), 'ratio')} {side}" if limit else side


def _list_metrics() -> dict[str, tuple[GoalStage, Quantity]]:
    """Return every metric that a goal may name, with its stage."""
    table: dict[str, tuple[GoalStage, Quantity]] = {
        "size": ("tune", SIZE),
        "speedup": ("latency", SPEEDUP),
        "throughput": ("latency", RATE),
    }
    table |= dict.fromkeys(TIMES, ("latency", TIME))
    for name in (*(metric for metrics in FIDELITY.values() for metric in metrics), *TASK):
        table[name] = ("accuracy", QUANTITIES[name])
    return table


def _parse_threshold(threshold: str, unit: Unit) -> float:
    """Return the threshold of a metric as a number.

    Raises:
        ValueError: when it is no quantity of that unit; the message says what is expected.
    """
    if unit == "s":
        return parse_duration(threshold)
    if unit == "B":
        return parse_size(threshold)
    if unit == "ratio":
        return parse_ratio(threshold)
    parts = split(threshold)
    if parts is None or parts[1] not in ("", SUFFIXES.get(unit, "")):
        raise ValueError(f"{threshold!r} is not {EXPECTED[unit]}")
    return parts[0]


def parse_goal(text: str) -> tuple[Condition, ...]:
    """Parse a goal.

    Raises:
        UsageError: when a condition cannot be read, names no metric or the metric of another one, asks for the wrong
            direction, or has a threshold that no gate can have.
    """
    conditions: dict[str, Condition] = {}
    for part in (part.strip() for part in re.split(r"[,;]| and ", text) if part.strip()):
        condition = _parse_condition(part)
        if first := conditions.get(condition.metric):
            raise UsageError(
                f"the goal names {condition.metric} twice",
                why=f"{first.text} and {condition.text}",
                hint=f'--goal "{first.text}"',
            )
        conditions[condition.metric] = condition
    if not conditions:
        raise UsageError("the goal is empty", hint=f'--goal "{EXAMPLE}"')
    return tuple(conditions.values())


def _parse_condition(text: str) -> Condition:
    matched = CONDITION.fullmatch(text)
    if matched is None:
        raise UsageError(
            f"the goal '{text}' is not a condition",
            why="expected METRIC<VALUE or METRIC>VALUE",
            hint=f'--goal "{EXAMPLE}"',
        )
    name, sign, threshold = matched[1], matched[2], matched[3].replace(" ", "")
    known = _list_metrics()
    metric = ALIASES.get(name, name)
    if metric not in known:
        why = suggest(name, [*ALIASES, *known], ", ".join(known))
        raise UsageError(f"the goal names no metric: '{name}'", why=why, hint=f'--goal "{EXAMPLE}"')
    stage, quantity = known[metric]
    unit: Unit = quantity.unit or ""
    rule: Literal["min", "max"] = "max" if quantity.better == "lower" else "min"
    try:
        value = _parse_threshold(threshold, unit)
    except ValueError as error:
        raise UsageError(f"the goal '{text}' has no such threshold", why=str(error)) from error
    right = f"{name}{'<' if rule == 'max' else '>'}{threshold}"
    if rule != ("max" if sign in "<=≤" else "min"):
        better = "smaller" if rule == "max" else "larger"
        raise UsageError(f"{name} is better when it is {better}", hint=f'--goal "{right}"')
    is_bare = re.search(r"[A-Za-zµ%]$", threshold) is None
    if is_bare and value and unit in USUAL:
        raise UsageError(
            f"the goal '{text}' has no unit",
            why=f"{name} {UNIT_WORDS[unit]}",
            hint=f'--goal "{right}{_guess_unit(value, unit)}"',
        )
    if unit == "ratio" and quantity.greatest is not None and value > quantity.greatest:
        usual = "<10%" if rule == "max" else ">90%"
        raise UsageError(
            f"the goal '{text}' cannot be reached",
            why=f"{name} {UNIT_WORDS[unit]}, at most 1",
            hint=f'--goal "{right}%"' if is_bare and value <= PERCENT else f'--goal "{name}{usual}"',
        )
    return Condition(metric, rule, threshold, stage)


def _guess_unit(value: float, unit: Unit) -> str:
    """Return the unit in which a bare number is most likely meant: `p50<0.01` in seconds, `size<25000000` in bytes."""
    in_base_unit = value < 1 if unit == "s" else value >= MOST_MEGABYTES
    return unit if in_base_unit else USUAL[unit]


def list_objectives(conditions: tuple[Condition, ...]) -> tuple[Objective, ...]:
    """Return the figures to minimize, in the order of the searches: each minimizes one and bounds the accuracy."""
    stages = {condition.stage for condition in conditions}
    if "tune" not in stages:
        return ("latency",)
    return ("latency", "size") if "latency" in stages else ("size",)


def choose_search(conditions: tuple[Condition, ...], fidelity: Fidelity) -> tuple[str, str, Literal["min", "max"]]:
    """Return the bound of a search: metric, threshold and rule of the first accuracy in the goal."""
    for condition in conditions:
        if condition.stage == "accuracy":
            return condition.metric, condition.threshold, condition.rule
    return (*DEFAULTS[fidelity], "min")


def check_goal(text: str, data: str) -> tuple[Condition, ...]:
    """Parse a goal that may be empty, and refuse metrics that need labels where the examples are made up.

    Raises:
        UsageError: as `parse_goal` does.
    """
    conditions = parse_goal(text) if text.strip() else ()
    labelled = [condition.metric for condition in conditions if condition.metric in TASK]
    if labelled and not data:
        raise UsageError(
            f"the goal on {labelled[0]} needs labels",
            why="examples that are made up have none",
            hint="name examples with labels: --data data.py:examples",
        )
    return conditions


def build_gates(conditions: tuple[Condition, ...]) -> dict[str, dict[str, dict[str, str]]]:
    """Return the gates of a goal: stage -> metric -> rule -> threshold."""
    gates: dict[str, dict[str, dict[str, str]]] = {}
    for condition in conditions:
        gates.setdefault(condition.stage, {}).setdefault(condition.metric, {})[condition.rule] = condition.threshold
    return gates


def list_accuracy_metrics(conditions: tuple[Condition, ...], fidelity: Fidelity) -> list[str]:
    """Return the metrics of a goal in the form of the parameter `metrics` of `measure/accuracy`."""
    names: list[str] = [fidelity]
    for condition in conditions:
        if condition.stage == "accuracy":
            name = next((item for item, metrics in FIDELITY.items() if condition.metric in metrics), condition.metric)
            names.append(name)
    return list(dict.fromkeys(names))
