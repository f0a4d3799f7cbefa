"""The conditions of a stage: thresholds as people write them, and whether its metrics and inputs allow them."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from orun.metrics import Unit
from orun.pipeline.instances import Instance
from orun.pipeline.model import RULES, Gate, Rule, Threshold
from orun.pipeline.nodes import Entry, Map, Path, Scalar, Span
from orun.pipeline.problems import Problems
from orun.spelling import closest, one_of
from orun.stages.kind import Kind
from orun.units import DURATIONS, SIZES, parse_duration, parse_size, split

REFERENCE = "reference"
AGAINST_REFERENCE = ("max_drop", "max_increase", "min_speedup")
RELATIVE = ("max_drop", "max_increase", "max_regression")
UNDECIDED = "undecided"


def gates(
    instance: Instance,
    kind: Kind,
    metrics: Collection[str] | None,
    unsound: Collection[Path],
    problems: Problems,
) -> tuple[Gate, ...]:
    """The gates of a stage, one for each rule.

    Args:
        instance: the stage.
        kind: what it uses.
        metrics: the names of the metrics that it yields; None when any may come, or when that is not known.
        unsound: paths of nodes that are wrong, which was said.
        problems: takes what is wrong.
    """
    found: list[Gate] = []
    for metric, entry in instance.node.map("gate").entries.items():
        if metrics is not None and metric not in metrics:
            _tell_unknown(metric, entry.key, kind, metrics, problems)
        path = ("stages", instance.id, "gate", metric)
        if isinstance(entry.value, Map) and path not in unsound:
            sound = {rule: one for rule, one in entry.value.entries.items() if (*path, rule) not in unsound}
            found += _of_metric(instance, kind, metric, Entry(entry.key, entry.value.with_entries(sound)), problems)
            if not entry.value.entries.keys() - {UNDECIDED}:
                problems.add(entry.key, f"the gate on {metric!r} has no condition", expected=one_of(RULES))
    return tuple(found)


def _tell_unknown(metric: str, key: Span, kind: Kind, metrics: Collection[str], problems: Problems) -> None:
    message = f"{kind.name} does not measure {metric!r}"
    problems.add(
        key,
        message if metrics else f"{kind.name} measures nothing, so it can have no gate",
        expected=one_of(metrics),
        suggestion=closest(metric, metrics),
        hint=f"orun stages {kind.name}" if kind.origin != "file" else "",
    )


def _of_metric(instance: Instance, kind: Kind, metric: str, entry: Entry, problems: Problems) -> list[Gate]:
    rules = cast("Map", entry.value)
    undecided = rules.get(UNDECIDED)
    fails = isinstance(undecided, Scalar) and undecided.text == "fail"
    made: list[Gate] = []
    for rule in (rule for rule in rules.entries if rule in RULES):
        key, node = rules.entries[rule].key, rules.get(rule)
        if rule in AGAINST_REFERENCE:
            _need_reference(instance, kind, rule, key, problems)
        if isinstance(node, Scalar) and not node.broken and (threshold := _threshold(rule, node, problems)):
            made.append(Gate(metric, rule, threshold, "fail" if fails else "pass", key.position))
    return made


def _threshold(rule: Rule, node: Scalar, problems: Problems) -> Threshold | None:
    number, unit = split(node.text) or (0.0, "")
    if unit and unit not in _units(rule):
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


def _value(text: str, number: float, unit: str) -> tuple[float, Unit]:
    if unit in DURATIONS:
        return parse_duration(text), "s"
    if unit in SIZES:
        return float(parse_size(text)), "B"
    if unit == "%":
        return number / 100, "ratio"
    return number, "x" if unit == "x" else ""


def _units(rule: Rule) -> tuple[str, ...]:
    if rule == "min_speedup":
        return ("x",)
    return (*DURATIONS, *SIZES, "%") if rule in RELATIVE else (*DURATIONS, *SIZES, "%", "x")


def _expected(rule: Rule) -> str:
    if rule == "min_speedup":
        return "a factor such as 1.5 or 1.5x"
    return "a proportion such as 5%, or a difference such as 2ms, 10MB or 0.01"


def _need_reference(instance: Instance, kind: Kind, rule: Rule, key: Span, problems: Problems) -> None:
    if any(link.port == REFERENCE for link in instance.links):
        return
    if REFERENCE not in kind.spec.inputs:
        problems.add(
            key,
            f"{rule!r} compares with the input 'reference', which {kind.name} does not have",
            expected="min, max or max_regression",
        )
        return
    problems.add(
        key,
        f"{rule!r} compares with the input 'reference', which is not connected",
        expected=f"a stage for it: `needs: {{{next(iter(kind.spec.inputs))}: ..., reference: ...}}`",
    )
