"""Gates of a stage, single and in groups, with checks against its metrics, inputs and targets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, cast

from orun.core.metrics import Better, Unit, parse_extra_reference
from orun.core.serialization import Record, replace
from orun.measure.accuracy.names import ERRORS
from orun.measure.accuracy.names import UNITS as ACCURACY
from orun.pipeline.instances import Instance
from orun.pipeline.model import RULES, Gate, Group, Rule, Threshold, Undecided
from orun.pipeline.nodes import Entry, List, Map, Node, Path, Scalar, Span
from orun.pipeline.problems import Problems
from orun.pipeline.scales import WORSE, explain_wrong_rule, find_excess, find_misfit
from orun.pipeline.thresholds import read_threshold
from orun.stages.contract import Port
from orun.stages.kind import Kind
from orun.text.suggestions import find_closest, format_choices

REFERENCE = "reference"
AGAINST_REFERENCE = ("max_drop", "max_increase", "min_speedup")
GROUPS: tuple[Literal["all", "any"], ...] = ("all", "any")
LABEL = "label"  # field of a dataset for its labels
EVERYWHERE: Mapping[str, Unit] = {"size": "B"}  # metrics of every built-in kind with an artifact
BY_UNIT: Mapping[Unit, Better] = {"s": "lower", "B": "lower", "J": "lower", "1/s": "higher"}
DIRECTIONS: Mapping[str, Better] = {  # metrics of built-in kinds whose unit does not decide
    **{name: "lower" if name.partition(".")[0] in ERRORS else "higher" for name in ACCURACY},
    **dict.fromkeys(("coverage", "served", "speedup"), "higher"),
}
USELESS: Mapping[Better, Literal["min", "max"]] = {"higher": "max", "lower": "min"}  # alone: a worse model passes it
LOW_SHARE = 0.01  # `min: 0.93%` of an accuracy: its writer may have meant 93 %
UNDECIDED, AGAINST, BY, TARGET = "undecided", "against", "by", "target"


class Ground(Record, frozen=True):
    """Context in which the gates of a stage are checked."""

    instance: Instance
    kind: Kind
    metrics: Collection[str] | None  # names of the stage's metrics; None when unknown
    slices: Collection[str]  # fields of its dataset for slices
    classes: Sequence[str]  # names of the numbers in the slices by label; empty when unknown
    better: Mapping[str, Better]  # direction of the user's own metrics, from its parameters
    target: str  # name of the stage's target; `cpu` by default
    targets: Collection[str]  # names of all targets
    unsound: Collection[Path]  # paths of nodes whose mistakes are already reported
    problems: Problems

    @property
    def references(self) -> tuple[str, ...]:
        """Names of the connected references; empty for `reference` itself."""
        ports = [link.port or "" for link in self.instance.links]
        return tuple(
            name for port in ports if (name := REFERENCE if port == REFERENCE else parse_extra_reference(port))
        )

    def knows(self, metric: str) -> bool:
        """Return whether the stage may have a metric: of its kind, or of a slice such as `accuracy[label=3]`."""
        name, opened, rest = metric.partition("[")
        sliced = bool(opened) and rest.partition("=")[0] in self.slices and rest.endswith("]")
        return self.metrics is None or metric in self.metrics or (sliced and name in self.metrics)

    def find_unit(self, metric: str) -> Unit | None:
        """Return the unit of a metric; None when only a measurement shows it."""
        name = metric.partition("[")[0]
        known = EVERYWHERE.get(name) if self.kind.origin == "built-in" else None
        return self.kind.spec.units.get(name, known)

    def find_direction(self, metric: str) -> Better:
        """Return the direction in which a metric improves; `neither` when only a measurement shows it."""
        name, unit = metric.partition("[")[0], self.find_unit(metric)
        if self.kind.origin == "built-in" and name in DIRECTIONS:
            return DIRECTIONS[name]
        return self.better.get(name) or BY_UNIT.get(unit or "", "neither")


def read_gates(ground: Ground) -> tuple[Gate | Group, ...]:
    """Return the gates of a stage, a gate for each rule, and its groups."""
    return tuple(_read(ground, ground.instance.node.map("gate"), ("stages", ground.instance.id, "gate")))


def _read(ground: Ground, node: Map, path: Path) -> Iterator[Gate | Group]:
    for name, entry in node.entries.items():
        here = (*path, name)
        if here in ground.unsound:
            continue
        if name in GROUPS:
            yield from _parse_group(ground, name, entry, here)
            continue
        if not ground.knows(name):
            _tell_unknown(ground, name, entry.key)
        _need_port(ground, name, entry.key)
        if isinstance(entry.value, Map):
            yield from _parse_metric(ground, _number_class(ground, name, entry.key), entry, here)


def _parse_group(ground: Ground, rule: Literal["all", "any"], entry: Entry, path: Path) -> Iterator[Group]:
    """Yield the group of a list; an item with several conditions is an `all` group."""
    members: list[Gate | Group] = []
    for number, item in enumerate(entry.value.items if isinstance(entry.value, List) else ()):
        gates_of_item = tuple(_read(ground, item, (*path, number))) if isinstance(item, Map) else ()
        if len(gates_of_item) > 1 and rule == "any":
            members.append(Group("all", gates_of_item, item.span.position))
        else:
            members += gates_of_item
    if members:
        yield Group(rule, tuple(members), entry.key.position)


def _tell_unknown(ground: Ground, metric: str, key: Span) -> None:
    kind, metrics = ground.kind, ground.metrics or ()
    field = metric.partition("[")[2].partition("=")[0]
    message = f"{kind.name} does not measure {metric!r}"
    hint_parameter = _find_unrequested(kind, metric)
    hint = f"ask for it: metrics: [{hint_parameter}, ...]" if hint_parameter else f"orun stages {kind.name}"
    if metric in (kind.spec.metrics or ()):
        hint = f"a parameter of {kind.name} asks for it: orun stages {kind.name}"
    if field and field not in ground.slices and metric.partition("[")[0] in metrics:
        hint = f"ask for it: slices: [{field}]"
    ground.problems.add(
        key,
        message if metrics else f"{kind.name} measures nothing, so it can have no gate",
        expected=format_choices(metrics),
        suggestion="" if hint_parameter else find_closest(metric, [*metrics, *GROUPS]),
        hint=hint if kind.origin != "file" else "",
    )


def _number_class(ground: Ground, metric: str, key: Span) -> str:
    """Return the metric with the number of the class that it names: slices by label are measured by number."""
    name, _, rest = metric.partition(f"[{LABEL}=")
    label = rest.removesuffix("]")
    is_sliced = bool(rest) and LABEL in ground.slices
    if not is_sliced or not ground.classes or label in map(str, range(len(ground.classes))):
        return metric
    if label not in ground.classes:
        message = f"the `classes` of the dataset have no {label!r}"
        ground.problems.add(key, message, expected=format_choices(ground.classes))
        return metric
    return f"{name}[{LABEL}={ground.classes.index(label)}]"


def _find_unrequested(kind: Kind, metric: str) -> str:
    """Return the value of the kind's parameter `metrics` that yields a metric; empty if none does."""
    name = metric.partition("[")[0].partition(".")[0]
    types = (
        member for param in kind.params if param.name == "metrics" for item in param.type.items for member in item.items
    )
    return name if any(name in member.choices for member in types) else ""


def _parse_metric(ground: Ground, metric: str, entry: Entry, path: Path) -> Iterator[Gate]:
    node = cast("Map", entry.value)
    sound = {key: entry_of_rule for key, entry_of_rule in node.entries.items() if (*path, key) not in ground.unsound}
    rules = {rule: sound[rule] for rule in sound if rule in RULES}
    misspelt = node.entries.keys() - {*RULES, UNDECIDED, AGAINST, BY, TARGET}  # reported; perhaps the condition
    if not misspelt and not any(rule in node.entries for rule in RULES):
        ground.problems.add(entry.key, f"the gate on {metric!r} has no condition", expected=format_choices(RULES))
    against = _read_references(ground, sound, rules)
    by, here = _read_slicing(ground, sound), _is_here(ground, sound)
    undecided = cast("Undecided", _read_text(sound, UNDECIDED) or "block")
    limits: dict[Rule, Threshold] = {}
    for rule, entry_of_rule in rules.items():
        comparable = rule not in AGAINST_REFERENCE or _is_comparable(ground, metric, rule, entry_of_rule.key, sound)
        value = entry_of_rule.value
        if not isinstance(value, Scalar) or value.broken or not (limit := read_threshold(rule, value, ground.problems)):
            continue
        limits[rule] = limit
        gate = Gate(metric, rule, limit, undecided, entry_of_rule.key.position, by=by)
        unit, better = ground.find_unit(metric), ground.find_direction(metric)
        excess = find_excess(gate) if ground.kind.origin == "built-in" else None
        if wrong := excess or (find_misfit(gate, unit) if unit is not None else None):
            ground.problems.add(value.span, wrong.message, expected=wrong.expected, suggestion=wrong.suggestion)
        if comparable and REFERENCE in ground.kind.spec.inputs and (message := explain_wrong_rule(gate, better, unit)):
            ground.problems.add(entry_of_rule.key, message, suggestion=WORSE[better])
        if here:
            yield from (replace(gate, against=name) for name in (against if rule in AGAINST_REFERENCE else [""]))
    if (least := limits.get("min")) and (most := limits.get("max")) and least.value > most.value:
        message = f"no {metric!r} can pass: its 'min' is {least.text}, its 'max' {most.text}"
        ground.problems.add(rules["min"].value.span, message, expected="a 'min' that is not above the 'max'")
    _note_useless(ground, metric, {rule: rules[rule] for rule in limits}, path)
    if least and least.unit == "ratio" and 0 < least.value < LOW_SHARE and ground.find_direction(metric) == "higher":
        ground.problems.add_note(
            rules["min"].value.span,
            f"nearly every model passes this 'min' of {metric!r}, which is {least.value:.4g}",
            suggestion=f"{10_000 * least.value:.4g}%",
        )


def _note_useless(ground: Ground, metric: str, rules: Mapping[Rule, Entry], path: Path) -> None:
    """Note a `min` or `max` that only a better model fails.

    Both are a range. A member of an `any` group may say that a better model must keep another condition, too.
    """
    better = ground.find_direction(metric)
    useless = USELESS.get(better)
    if useless is None or useless not in rules or {"min", "max"} <= rules.keys() or "any" in path[3:]:
        return
    ground.problems.add_note(
        rules[useless].key,
        f"only a better {metric!r} fails this {useless!r}, as it is better when {better}",
        suggestion="min" if useless == "max" else "max",
    )


def _read_text(entries: Mapping[str, Entry], key: str) -> str:
    node = entries[key].value if key in entries else None
    return node.text if isinstance(node, Scalar) and not node.broken else ""


def _read_references(ground: Ground, entries: Mapping[str, Entry], rules: Collection[str]) -> list[str]:
    """Return the references that a gate compares with, a gate for each; the empty name is `reference` itself."""
    if AGAINST not in entries:
        return [""]
    entry = entries[AGAINST]
    if rules and not any(rule in AGAINST_REFERENCE for rule in rules):
        ground.problems.add(
            entry.key,
            f"{AGAINST!r} names a reference, and {next(iter(rules))!r} is against none",
            expected=f"{AGAINST!r} beside {format_choices(AGAINST_REFERENCE)} alone",
        )
    nodes: tuple[Node, ...] = entry.value.items if isinstance(entry.value, List) else (entry.value,)
    names: list[str] = []
    for node in nodes:
        if not isinstance(node, Scalar) or node.broken:
            continue
        if node.text in ground.references:
            names.append("" if node.text == REFERENCE else node.text)
        else:
            message = f"no reference {node.text!r} is connected to {ground.instance.base}"
            otherwise = f"`needs: {{..., reference.{node.text}: STAGE}}`"
            ground.problems.add_unknown(node.span, message, node.text, ground.references, otherwise)
    return names


def _read_slicing(ground: Ground, entries: Mapping[str, Entry]) -> str:
    name = _read_text(entries, BY)
    if name and name not in ground.slices:
        known = "slices" in {param.name for param in ground.kind.params}
        near = find_closest(name, ground.slices or [LABEL] * (known and name != LABEL))
        ground.problems.add(
            entries[BY].value.span,
            f"{ground.instance.base} does not measure by {name!r}",
            expected=format_choices(ground.slices)
            or (f"`slices: [{near or name}]` in its `with`" if known else "no `by` here"),
            suggestion=near,
        )
    return name


def _is_here(ground: Ground, entries: Mapping[str, Entry]) -> bool:
    name = _read_text(entries, TARGET)
    if not name:
        return True
    if name not in ground.targets:
        span = entries[TARGET].value.span
        ground.problems.add_unknown(span, f"there is no target {name!r}", name, ground.targets)
    return name == ground.target


def _need_port(ground: Ground, metric: str, key: Span) -> None:
    """Note a gate on a metric that needs an input which is not connected."""
    ports = ground.kind.spec.inputs
    connected = {link.port for link in ground.instance.links}
    for port, spec in ports.items():
        if metric in spec.metrics and port not in connected:
            ground.problems.add(
                key,
                f"{metric!r} needs the input {port!r} of {ground.kind.name}, which is not connected",
                expected=f"`needs: {{{', '.join(f'{name}: STAGE' for name in ports)}}}`",
            )


def _is_comparable(ground: Ground, metric: str, rule: str, key: Span, gate: Mapping[str, Entry]) -> bool:
    """Return whether the reference has the metric of a gate; report it if not."""
    inputs, kind = ground.kind.spec.inputs, ground.kind
    if REFERENCE in inputs and _is_comparison(inputs[REFERENCE], metric):
        limit = {"higher": "'min'", "lower": "'max'"}.get(ground.find_direction(metric), "'min' or 'max'")
        ground.problems.add(
            key,
            f"{rule!r} compares with the reference, and {metric!r} is such a comparison itself",
            expected=f"{limit}, or 'max_regression' against the accepted baseline",
        )
    elif AGAINST in gate or REFERENCE in ground.references:
        return True
    elif REFERENCE not in inputs:
        ground.problems.add(
            key,
            f"{rule!r} compares with the input 'reference', which {kind.name} does not have",
            expected="min, max or max_regression",
        )
    else:
        ground.problems.add(
            key,
            f"{rule!r} compares with the input 'reference', which is not connected",
            expected=f"a stage for it: `needs: {{{next(iter(inputs))}: ..., reference: ...}}`",
        )
    return False


def _is_comparison(reference: Port, metric: str) -> bool:
    """Return whether a metric tells how a model differs from its reference, so that the reference itself has none."""
    family = metric.partition("[")[0].partition(".")[0]
    return family in (*reference.metrics, *(name for names in reference.needed_for.values() for name in names))
