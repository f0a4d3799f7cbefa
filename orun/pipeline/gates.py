"""Gates of a stage, single and in groups, with checks against its metrics, inputs and targets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal, cast

from orun.core.serialization import replace
from orun.pipeline.gate_context import LABEL, REFERENCE, GateContext
from orun.pipeline.model import RULES, Gate, Group, Rule, Threshold, Undecided
from orun.pipeline.nodes import Entry, List, Map, Node, Path, Scalar, Span
from orun.pipeline.scales import WORSE, explain_wrong_rule, find_misfit
from orun.pipeline.thresholds import read_threshold
from orun.pipeline.useless_gates import note_useless
from orun.stages.contract import Port
from orun.stages.kind import Kind
from orun.text.suggestions import find_closest, format_choices

AGAINST_REFERENCE = ("max_drop", "max_increase", "min_speedup")
GROUPS: tuple[Literal["all", "any"], ...] = ("all", "any")
UNDECIDED, AGAINST, BY, TARGET = "undecided", "against", "by", "target"


def read_gates(context: GateContext) -> tuple[Gate | Group, ...]:
    """Return the gates of a stage, a gate for each rule, and its groups."""
    return tuple(_read(context, context.instance.node.map("gate"), ("stages", context.instance.id, "gate")))


def _read(context: GateContext, node: Map, path: Path) -> Iterator[Gate | Group]:
    for name, entry in node.entries.items():
        here = (*path, name)
        if here in context.unsound:
            continue
        if name in GROUPS:
            yield from _parse_group(context, name, entry, here)
            continue
        if not context.knows(name):
            _tell_unknown(context, name, entry.key)
        _need_port(context, name, entry.key)
        if isinstance(entry.value, Map):
            yield from _parse_metric(context, _number_class(context, name, entry.key), entry, here)


def _parse_group(context: GateContext, rule: Literal["all", "any"], entry: Entry, path: Path) -> Iterator[Group]:
    """Yield the group of a list; an item with several conditions is an `all` group."""
    members: list[Gate | Group] = []
    for number, item in enumerate(entry.value.items if isinstance(entry.value, List) else ()):
        gates_of_item = tuple(_read(context, item, (*path, number))) if isinstance(item, Map) else ()
        if len(gates_of_item) > 1 and rule == "any":
            members.append(Group("all", gates_of_item, item.span.position))
        else:
            members += gates_of_item
    if members:
        yield Group(rule, tuple(members), entry.key.position)


def _tell_unknown(context: GateContext, metric: str, key: Span) -> None:
    kind, metrics = context.kind, context.metrics or ()
    field = metric.partition("[")[2].partition("=")[0]
    message = f"{kind.name} does not measure {metric!r}"
    hint_parameter = _find_unrequested(kind, metric)
    hint = f"ask for it: metrics: [{hint_parameter}, ...]" if hint_parameter else f"orun stages {kind.name}"
    if not hint_parameter and metric in (kind.spec.metrics or ()):
        hint = f"a parameter of {kind.name} asks for it: orun stages {kind.name}"
    if field and field not in context.slices and metric.partition("[")[0] in metrics:
        hint = f"ask for it: slices: [{field}]"
    context.problems.add(
        key,
        message if metrics else f"{kind.name} measures nothing, so it can have no gate",
        expected=format_choices(metrics),
        suggestion="" if hint_parameter else find_closest(metric, [*metrics, *GROUPS]),
        hint=hint if kind.origin != "file" else "",
    )


def _number_class(context: GateContext, metric: str, key: Span) -> str:
    """Return the metric with the number of the class that it names: slices by label are measured by number."""
    name, _, rest = metric.partition(f"[{LABEL}=")
    label = rest.removesuffix("]")
    is_sliced = bool(rest) and LABEL in context.slices
    if not is_sliced or not context.classes or label in map(str, range(len(context.classes))):
        return metric
    if label not in context.classes:
        message = f"the `classes` of the dataset have no {label!r}"
        context.problems.add(key, message, expected=format_choices(context.classes))
        return metric
    return f"{name}[{LABEL}={context.classes.index(label)}]"


def _find_unrequested(kind: Kind, metric: str) -> str:
    """Return the value of the kind's parameter `metrics` that yields a metric; empty if none does."""
    name = metric.partition("[")[0].partition(".")[0]
    types = (
        member for param in kind.params if param.name == "metrics" for item in param.type.items for member in item.items
    )
    return name if any(name in member.choices for member in types) else ""


def _parse_metric(context: GateContext, metric: str, entry: Entry, path: Path) -> Iterator[Gate]:
    node = cast("Map", entry.value)
    sound = {key: entry_of_rule for key, entry_of_rule in node.entries.items() if (*path, key) not in context.unsound}
    rules = {rule: sound[rule] for rule in sound if rule in RULES}
    misspelt = node.entries.keys() - {*RULES, UNDECIDED, AGAINST, BY, TARGET}  # reported; perhaps the condition
    if not misspelt and not any(rule in node.entries for rule in RULES):
        context.problems.add(entry.key, f"the gate on {metric!r} has no condition", expected=format_choices(RULES))
    against = _read_references(context, sound, rules)
    by, here = _read_slicing(context, sound), _is_here(context, sound)
    undecided = cast("Undecided", _read_text(sound, UNDECIDED) or "block")
    limits: dict[Rule, Threshold] = {}
    quantity = context.find_quantity(metric)
    for rule, entry_of_rule in rules.items():
        comparable = rule not in AGAINST_REFERENCE or _is_comparable(context, metric, rule, entry_of_rule.key, sound)
        value = entry_of_rule.value
        if (
            not isinstance(value, Scalar)
            or value.broken
            or not (limit := read_threshold(rule, value, context.problems))
        ):
            continue
        limits[rule] = limit
        gate = Gate(metric, rule, limit, undecided, entry_of_rule.key.position, by=by)
        if wrong := find_misfit(gate, quantity):
            context.problems.add(value.span, wrong.message, expected=wrong.expected, suggestion=wrong.suggestion)
        wrong_rule = explain_wrong_rule(gate, quantity.better, quantity.unit) if comparable else ""
        if wrong_rule and REFERENCE in context.kind.spec.inputs:
            context.problems.add(entry_of_rule.key, wrong_rule, suggestion=WORSE[quantity.better])
        if rule == "max_regression" and context.lacks_direction(metric):
            name = metric.partition("[")[0]
            context.problems.add_note(
                entry_of_rule.key,
                f"{rule!r} takes {metric!r} to be better when higher, as nothing says which way it improves",
                hint=f"say it in the `with` of the stage: `better: {{{name}: lower}}`, or `higher`",
            )
        if here:
            yield from (replace(gate, against=name) for name in (against if rule in AGAINST_REFERENCE else [""]))
    if (least := limits.get("min")) and (most := limits.get("max")) and least.value > most.value:
        message = f"no {metric!r} can pass: its 'min' is {least.text}, its 'max' {most.text}"
        context.problems.add(rules["min"].value.span, message, expected="a 'min' that is not above the 'max'")
    note_useless(metric, quantity, limits, rules, context.problems, in_any="any" in path[3:])


def _read_text(entries: Mapping[str, Entry], key: str) -> str:
    node = entries[key].value if key in entries else None
    return node.text if isinstance(node, Scalar) and not node.broken else ""


def _read_references(context: GateContext, entries: Mapping[str, Entry], rules: Collection[str]) -> list[str]:
    """Return the references that a gate compares with, a gate for each; the empty name is `reference` itself."""
    if AGAINST not in entries:
        return [""]
    entry = entries[AGAINST]
    if rules and not any(rule in AGAINST_REFERENCE for rule in rules):
        context.problems.add(
            entry.key,
            f"{AGAINST!r} names a reference, and {next(iter(rules))!r} is against none",
            expected=f"{AGAINST!r} beside {format_choices(AGAINST_REFERENCE)} alone",
        )
    nodes: tuple[Node, ...] = entry.value.items if isinstance(entry.value, List) else (entry.value,)
    names: list[str] = []
    for node in nodes:
        if not isinstance(node, Scalar) or node.broken:
            continue
        if node.text in context.references:
            names.append("" if node.text == REFERENCE else node.text)
        else:
            message = f"no reference {node.text!r} is connected to {context.instance.base}"
            otherwise = f"`needs: {{..., reference.{node.text}: STAGE}}`"
            context.problems.add_unknown(node.span, message, node.text, context.references, otherwise)
    return names


def _read_slicing(context: GateContext, entries: Mapping[str, Entry]) -> str:
    name = _read_text(entries, BY)
    if name and name not in context.slices:
        known = "slices" in {param.name for param in context.kind.params}
        near = find_closest(name, context.slices or [LABEL] * (known and name != LABEL))
        context.problems.add(
            entries[BY].value.span,
            f"{context.instance.base} does not measure by {name!r}",
            expected=format_choices(context.slices)
            or (f"`slices: [{near or name}]` in its `with`" if known else "no `by` here"),
            suggestion=near,
        )
    return name


def _is_here(context: GateContext, entries: Mapping[str, Entry]) -> bool:
    name = _read_text(entries, TARGET)
    if not name:
        return True
    if name not in context.targets:
        span = entries[TARGET].value.span
        context.problems.add_unknown(span, f"there is no target {name!r}", name, context.targets)
    return name == context.target


def _need_port(context: GateContext, metric: str, key: Span) -> None:
    """Note a gate on a metric that needs an input which is not connected."""
    ports = context.kind.spec.inputs
    connected = {link.port for link in context.instance.links}
    for port, spec in ports.items():
        if metric in spec.metrics and port not in connected:
            context.problems.add(
                key,
                f"{metric!r} needs the input {port!r} of {context.kind.name}, which is not connected",
                expected=f"`needs: {{{', '.join(f'{name}: STAGE' for name in ports)}}}`",
            )


def _is_comparable(context: GateContext, metric: str, rule: str, key: Span, gate: Mapping[str, Entry]) -> bool:
    """Return whether the reference has the metric of a gate; report it if not."""
    inputs, kind = context.kind.spec.inputs, context.kind
    if REFERENCE in inputs and _is_comparison(inputs[REFERENCE], metric):
        limit = {"higher": "'min'", "lower": "'max'"}.get(context.find_quantity(metric).better, "'min' or 'max'")
        context.problems.add(
            key,
            f"{rule!r} compares with the reference, and {metric!r} is such a comparison itself",
            expected=f"{limit}, or 'max_regression' against the accepted baseline",
        )
    elif AGAINST in gate or REFERENCE in context.references:
        return True
    elif REFERENCE not in inputs:
        context.problems.add(
            key,
            f"{rule!r} compares with the input 'reference', which {kind.name} does not have",
            expected="min, max or max_regression",
        )
    else:
        context.problems.add(
            key,
            f"{rule!r} compares with the input 'reference', which is not connected",
            expected=f"a stage for it: `needs: {{{next(iter(inputs))}: ..., reference: ...}}`",
        )
    return False


def _is_comparison(reference: Port, metric: str) -> bool:
    """Return whether a metric tells how a model differs from its reference, so that the reference itself has none."""
    family = metric.partition("[")[0].partition(".")[0]
    return family in (*reference.metrics, *(name for names in reference.needed_for.values() for name in names))
