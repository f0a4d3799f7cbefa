"""Construction of a `Stage` from its checked nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from orun.core.metrics import Better
from orun.core.targets import Target, count_gpus
from orun.pipeline.environments import Environments
from orun.pipeline.gate_context import LABEL, GateContext
from orun.pipeline.gates import read_gates
from orun.pipeline.grammar import Limits
from orun.pipeline.instances import PRIMARY, Instance
from orun.pipeline.model import Gate, Group, Reference, Stage, iter_gates
from orun.pipeline.nodes import List, Map, Scalar
from orun.pipeline.nodes import Path as NodePath
from orun.pipeline.placement import merge_labels
from orun.pipeline.problems import Problems
from orun.pipeline.values import Surroundings, Values
from orun.pipeline.wiring import wire
from orun.stages.kind import Kind
from orun.stages.params import list_params
from orun.text.suggestions import find_closest

LIMITS = list_params(Limits)


def make(
    instance: Instance,
    kind: Kind,
    instances: Mapping[str, Instance],
    targets: Mapping[str, Target],
    environments: Environments,
    surroundings: Surroundings,
) -> Stage:
    """Return a stage; usable only if no problem was noted."""
    path: NodePath = ("stages", instance.id)
    values = Values(surroundings)
    if kind.origin == "file":
        file, _, function = kind.entry.rpartition(":")
        values.references.append(Reference("uses", file, function))
    params = values.parse_fields(kind.params, instance.node.map("with"), (*path, "with"))
    _require_one(kind, params, instance, values)
    _require_needed(kind, instance, surroundings.problems)
    metrics = _list_metrics(kind, params, instance, surroundings) if values.valid else kind.spec.metrics or None
    names = {param.name: str(params.get(param.name)) for param in kind.params if param.type.name == "target"}
    named = {parameter: targets.get(name) for parameter, name in names.items()}
    first = next(iter(named), "")
    target = named.get(first)
    context = GateContext(
        instance=instance,
        kind=kind,
        metrics=metrics,
        slices=_list_slices(params),
        classes=_list_classes(params),
        better=_read_directions(params),
        target=target.name if target else "cpu",
        targets=tuple(targets),
        unsound=surroundings.unsound,
        problems=surroundings.problems,
    )
    limits = Values(surroundings).parse_fields(LIMITS, instance.node, path)
    judged = read_gates(context)
    gpus = _read_resource(limits, "gpus")
    needs, after = wire(instance, kind, instances, surroundings.unsound, surroundings.problems)
    return Stage(
        id=instance.id,
        uses=kind.name,
        position=instance.key.position,
        needs=needs,
        after=after,
        params=params | _choose_samples(kind, params, judged),
        references=(*values.references, *_list_libraries(named)),
        target=target,
        extra_targets={parameter: extra for parameter, extra in named.items() if extra and parameter != first},
        environment=environments.choose(instance.node, target, out_of_process=kind.spec.out_of_process),
        out_of_process=kind.spec.out_of_process,
        gates=judged,
        env=tuple(item.text for item in instance.node.list_items("env") if isinstance(item, Scalar)),
        timeout=limits["timeout"],
        cpus=_read_resource(limits, "cpus") or kind.spec.cpus,
        memory=_read_resource(limits, "memory"),
        runs_on=merge_labels(
            instance, [item.name for item in named.values() if item], surroundings.labels, surroundings.problems
        ),
        gpus=count_gpus(target_of_parameter for target_of_parameter in named.values() if target_of_parameter)
        if gpus is None
        else gpus,
    )


def _require_one(kind: Kind, params: Mapping[str, Any], instance: Instance, values: Values) -> None:
    """Note a stage without exactly one of the parameters and inputs that exclude one another."""
    ports = kind.spec.inputs
    connected = {next(iter(ports), None) if link.port == PRIMARY else link.port for link in instance.links}
    names = {name: "needs" if name in ports else name for name in kind.spec.one_of}
    present = [key for name, key in names.items() if name in connected or params.get(name) is not None]
    if not names or not values.valid or len(present) == 1:
        return
    parameters = instance.node.get("with")
    if parameters is not None and not isinstance(parameters, Map):
        return  # reported by the schema
    known = [param.name for param in kind.params]
    if parameters and any(find_closest(key, known) in names for key in parameters.entries if key not in known):
        return  # one of them is misspelt, which the schema reports
    message = (
        f"{' and '.join(map(repr, present))} exclude one another"
        if present
        else f"missing {' or '.join(map(repr, names.values()))}"
    )
    values.valid = False
    values.surroundings.problems.add(
        instance.key if parameters is None else parameters.span,
        message,
        expected=f"one of {', '.join(f'`{name}:`' for name in names.values())}",
    )


def _require_needed(kind: Kind, instance: Instance, problems: Problems) -> None:
    """Note the values of a stage's parameters that need another parameter, which it leaves out."""
    parameters, known = instance.node.map("with"), {param.name: param for param in kind.params}
    meant = {find_closest(key, known) for key in parameters.entries if key not in known}
    for name, needed in kind.spec.needed.items():
        value = parameters.get(name)
        if name in meant or not (value is None or (isinstance(value, Scalar) and value.value is None)):
            continue  # misspelt, or given
        for parameter, values in needed.by.items():
            node = parameters.get(parameter)
            needing = [
                (item.text, item.span)
                for item in (node.items if isinstance(node, List) else (node,))
                if isinstance(item, Scalar) and item.value is not None and (item.text in values or not values)
            ]
            if parameter not in {*parameters.entries, *meant} and known[parameter].default in values:
                needing.append((f"{parameter}: {known[parameter].default}", instance.key))
            for text, span in needing:
                message = f"{text!r} needs the parameter {name!r} of {kind.name}, which is not set"
                problems.add(span, message, expected=needed.expected)


def _list_slices(params: Mapping[str, Any]) -> Collection[str]:
    """Return the valid fields in `slices`; a custom stage may use the name for something else."""
    fields = params.get("slices")
    return [field for field in fields if isinstance(field, str)] if isinstance(fields, list | tuple) else ()


def _list_classes(params: Mapping[str, Any]) -> Sequence[str]:
    """Return the `classes` of the dataset; none where a field of its own stands for the labels in slices."""
    dataset = params.get("dataset")
    names, fields = (dataset.get(key) if isinstance(dataset, Mapping) else None for key in ("classes", "fields"))
    is_field = isinstance(fields, list | tuple) and LABEL in fields
    return [str(name) for name in names] if isinstance(names, list | tuple) and not is_field else ()


def _read_directions(params: Mapping[str, Any]) -> Mapping[str, Better]:
    """Return the valid directions in `better`; a custom stage may use the name for something else."""
    directions = params.get("better")
    ways: dict[object, Better] = {"higher": "higher", "lower": "lower"}
    return (
        {name: ways[way] for name, way in directions.items() if way in ways} if isinstance(directions, Mapping) else {}
    )


def _list_metrics(
    kind: Kind, params: Mapping[str, Any], instance: Instance, surroundings: Surroundings
) -> Collection[str] | None:
    """Return the names of a stage's metrics; None if they are unknown, or a plug-in fails to list them."""
    if kind.origin != "plug-in":
        return kind.metrics(params)
    try:
        return kind.metrics(params)
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
        from orun.environment.install_commands import format_upgrade_command

        surroundings.problems.add(
            instance.key,
            f"the kind {kind.name!r} of the package {kind.distribution} cannot say what it measures:"
            f" {type(error).__name__}: {error}",
            hint=format_upgrade_command(kind.distribution),
        )
        return None


def _list_libraries(named: Mapping[str, Target | None]) -> list[Reference]:
    """Return references to the custom-operator libraries and plug-ins of targets, whose content is in the key."""
    return [
        Reference(f"{parameter}.{name}[{number}]", file)
        for parameter, target in named.items()
        if target
        for name, files in (("custom_op_libraries", target.libraries), ("plugins", target.plugins))
        for number, file in enumerate(files)
    ]


def _choose_samples(kind: Kind, params: Mapping[str, Any], gates: Iterable[Gate | Group]) -> dict[str, int]:
    """Return the number of samples that absolute gates need, if the file leaves it out."""
    needed = [kind.spec.samples.get(gate.metric, 0) for gate in iter_gates(gates) if gate.rule in ("min", "max")]
    return {"samples": max(needed)} if any(needed) and params.get("samples") is None else {}


def _read_resource(limits: Mapping[str, Any], name: str) -> int | None:
    resources = limits["resources"] or {}
    amount: int | None = resources.get(name)
    return amount
