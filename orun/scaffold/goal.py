"""Goal of a release, as the command line says it: `size<25MB, p50<10ms, cosine>0.99`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from orun.core.serialization import Record
from orun.errors import UsageError
from orun.measure.accuracy.names import ERRORS, FIDELITY, SHARES, TASK
from orun.text.suggestions import closest
from orun.text.units import parse_duration, parse_ratio, parse_size, show

GoalStage = Literal["tune", "accuracy", "latency"]

Objective = Literal["latency", "size"]

CONDITION = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(<=?|>=?|≤|≥)\s*([^<>=\s]+(?: [A-Za-z%]+)?)\s*")
EXAMPLE = "size<25MB, p50<10ms, cosine>0.99"
TIMES = ("p50", "p90", "p95", "p99", "cpu", "first", "load")
ALIASES = {"cosine": "cosine.mean", "latency": "p50", "memory": "size"}
SPEEDUP, THROUGHPUT, SIZE = "speedup", "throughput", "size"
DEFAULT = ("cosine.mean", "0.99")  # what a search keeps when the goal does not name an accuracy


class Condition(Record, frozen=True):
    """A condition of a goal.

    Attributes:
        metric: name of the metric in the stage.
        rule: `min` or `max`.
        threshold: text of the threshold.
        stage: the stage that measures the metric.
    """

    metric: str
    rule: Literal["min", "max"]
    threshold: str
    stage: GoalStage

    @property
    def text(self) -> str:
        """The condition as it is typed: `p50<10ms`."""
        return f"{self.metric}{'<' if self.rule == 'max' else '>'}{self.threshold}"

    @property
    def title(self) -> str:
        """The condition as a gate says it: `p50 max 10ms`."""
        return f"{self.metric} {self.rule} {self.threshold}"

    def miss(self, measured: float) -> str:
        """Return how far a measured value is beyond the threshold: `24 % above`; empty when it is not."""
        _, _, parse = _metrics()[self.metric]
        limit = parse(self.threshold)
        if (measured <= limit) if self.rule == "max" else (measured >= limit):
            return ""
        side = "above" if self.rule == "max" else "below"
        return f"{show(abs(measured - limit) / abs(limit), 'ratio')} {side}" if limit else side


def _metrics() -> dict[str, tuple[GoalStage, Literal["min", "max"], Callable[[str], float]]]:
    """Return every metric that a goal may name: its stage, the rule of its direction, the parser of its thresholds."""
    table: dict[str, tuple[GoalStage, Literal["min", "max"], Callable[[str], float]]] = {
        SIZE: ("tune", "max", parse_size),
        SPEEDUP: ("latency", "min", _factor),
        THROUGHPUT: ("latency", "min", _rate),
    }
    table |= dict.fromkeys(TIMES, ("latency", "max", parse_duration))
    for name in (*(metric for metrics in FIDELITY.values() for metric in metrics), *TASK):
        rule: Literal["min", "max"] = "max" if name.partition(".")[0] in ERRORS else "min"
        table[name] = ("accuracy", rule, parse_ratio if name in SHARES else float)
    return table


def _factor(text: str) -> float:
    return float(text.removesuffix("x"))


def _rate(text: str) -> float:
    return float(text.removesuffix("/s"))


def parse_goal(text: str) -> tuple[Condition, ...]:
    """Parse a goal.

    Raises:
        UsageError: when a condition cannot be read, names no metric, or asks for the wrong direction.
    """
    conditions = tuple(_condition(part) for part in re.split(r"[,;]| and ", text) if part.strip())
    if not conditions:
        raise UsageError("the goal is empty", hint=f'--goal "{EXAMPLE}"')
    return conditions


def _condition(text: str) -> Condition:
    matched = CONDITION.fullmatch(text)
    if matched is None:
        raise UsageError(
            f"the goal '{text.strip()}' is not a condition",
            why="expected METRIC<VALUE or METRIC>VALUE",
            hint=f'--goal "{EXAMPLE}"',
        )
    name, sign, threshold = matched[1], matched[2], matched[3].replace(" ", "")
    known = _metrics()
    metric = ALIASES.get(name, name)
    if metric not in known:
        near = closest(name, [*ALIASES, *known])
        why = f"did you mean {near}?" if near else f"expected {', '.join(known)}"
        raise UsageError(f"the goal names no metric: '{name}'", why=why, hint=f'--goal "{EXAMPLE}"')
    stage, rule, parse = known[metric]
    try:
        parse(threshold)
    except ValueError as error:
        raise UsageError(f"the goal '{text.strip()}' has no such threshold", why=str(error)) from error
    if rule != ("max" if sign in "<=≤" else "min"):
        better = "smaller" if rule == "max" else "larger"
        right = f"{name}{'<' if rule == 'max' else '>'}{threshold}"
        raise UsageError(f"{name} is better when it is {better}", hint=f'--goal "{right}"')
    return Condition(metric, rule, threshold, stage)


def objectives(conditions: tuple[Condition, ...]) -> tuple[Objective, ...]:
    """Return the figures to minimize, in the order of the searches: each minimizes one and bounds the accuracy."""
    stages = {condition.stage for condition in conditions}
    if "tune" not in stages:
        return ("latency",)
    return ("latency", "size") if "latency" in stages else ("size",)


def searched(conditions: tuple[Condition, ...]) -> tuple[str, str, Literal["min", "max"]]:
    """Return the bound of a search: metric, threshold and rule of the first accuracy in the goal."""
    for condition in conditions:
        if condition.stage == "accuracy":
            return condition.metric, condition.threshold, condition.rule
    return (*DEFAULT, "min")


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


def gates_of(conditions: tuple[Condition, ...]) -> dict[str, dict[str, dict[str, str]]]:
    """Return the gates of a goal: stage -> metric -> rule -> threshold."""
    gates: dict[str, dict[str, dict[str, str]]] = {}
    for condition in conditions:
        gates.setdefault(condition.stage, {}).setdefault(condition.metric, {})[condition.rule] = condition.threshold
    return gates


def accuracy_metrics(conditions: tuple[Condition, ...]) -> list[str]:
    """Return the metrics of a goal in the form of the parameter `metrics` of `measure/accuracy`."""
    names = ["cosine"]
    for condition in conditions:
        if condition.stage == "accuracy":
            name = next((item for item, metrics in FIDELITY.items() if condition.metric in metrics), condition.metric)
            names.append(name)
    return list(dict.fromkeys(names))
