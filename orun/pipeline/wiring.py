"""Wiring of stages: names and types of their inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from orun.pipeline.instances import PRIMARY, Instance, Link
from orun.pipeline.nodes import Path, Scalar
from orun.pipeline.problems import Problems
from orun.stages.contract import Port
from orun.stages.kind import Kind
from orun.text.suggestions import find_closest, format_choices

CARRIED = "gates on what it releases need not be listed: it waits for them, and carries their verdicts"


def wire(
    instance: Instance, kind: Kind, stages: Mapping[str, Instance], unsound: Collection[Path], problems: Problems
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the stage at each input of a stage, in the kind's order, and the stages that only come before."""
    ports = kind.spec.inputs
    fed: dict[str, str] = {}
    after: list[str] = []
    order_only: list[Link] = []
    right = False
    for link in instance.links:
        port = next(iter(ports), None) if link.port == PRIMARY else link.port
        if port is None and link.port == PRIMARY:
            problems.add(link.span, f"{kind.name} has no input", expected="no `needs`")
        elif port is None:
            after.append(link.stage)
            order_only.append(link)
        elif (declared := _find_port(port, ports)) is not None:
            fed[port] = link.stage
            right = _check_type(link, port, declared, kind, stages, problems)
    meant = {find_closest(link.port, ports) for link in instance.links if link.port and link.port not in ports}
    if right:
        _tell_left_out(order_only, fed, kind, stages, problems)
    meant |= {*instance.node.entries, *instance.node.map("with").entries}  # there, inputs are unknown keys, and told
    missing = [port for port, spec in ports.items() if not (spec.optional or port in fed or port in meant)]
    malformed = any(path[:3] == ("stages", instance.id, "needs") for path in unsound)
    if missing and not malformed:
        _tell_missing(instance, missing, kind, problems)
    for port in ports:
        if port not in fed and port not in meant:
            _tell_asked_for(instance, port, kind, problems)
    in_order = [*(port for port in ports if port in fed), *(port for port in fed if port not in ports)]
    return {port: fed[port] for port in in_order}, tuple(after)


def _find_port(port: str, ports: Mapping[str, Port]) -> Port | None:
    """Return the declared port of an input: `reference` for `reference.fused`."""
    base, _, name = port.partition(".")
    if name and (base not in ports or not ports[base].many):
        return None
    return ports.get(base)


def _check_type(
    link: Link, port: str, declared: Port, kind: Kind, stages: Mapping[str, Instance], problems: Problems
) -> bool:
    """Return whether an input accepts the output of a stage, or that is unknown."""
    source = stages[link.stage].kind if link.stage in stages else None
    accepts = declared.accepts
    if source is None or source.spec.output in accepts:
        return True
    problems.add(
        link.span,
        f"the input {port!r} of {kind.name} cannot take what {link.stage!r} ({source.name}) gives:"
        f" {source.spec.output}",
        expected=f"a stage that gives {format_choices(accepts)}",
        hint=_suggest_kinds(accepts),
    )
    return False


def _tell_left_out(
    links: Collection[Link], fed: Mapping[str, str], kind: Kind, stages: Mapping[str, Instance], problems: Problems
) -> None:
    """Note the stages of a `needs` list whose output the kind takes: only the first feeds it."""
    written = dict(fed)
    for link in links:
        source = stages[link.stage].kind if link.stage in stages else None
        if not source or link.stage in written.values() or not (taking := _list_accepting(kind, source)):
            continue
        free = [port for port in taking if port not in written]
        free += [f"{port}.{stages[link.stage].base}" for port in taking if kind.spec.inputs[port].many]
        written |= dict.fromkeys(free[:1], link.stage)
        named = ", ".join(f"{port}: {name}" for port, name in written.items())
        problems.add(
            link.span,
            f"only {next(iter(fed.values()))!r} of this list feeds {kind.name}: it would be without {link.stage!r}"
            f" ({source.name})",
            expected=f"`needs: {{{named}}}`" if free else f"one that gives {source.spec.output}: it takes no more",
            hint=CARRIED if kind.spec.releases and kind.spec.provenance and free else "",
        )


def _list_accepting(kind: Kind, source: Kind) -> list[str]:
    """Return the inputs that accept another kind's output; none for plain files of a custom stage."""
    if kind.origin == "file" and source.spec.output in ("files", "metrics"):
        return []
    return [port for port, declared in kind.spec.inputs.items() if source.spec.output in declared.accepts]


def _suggest_kinds(accepts: Collection[str]) -> str:
    """Return a hint with the kinds that output a type, if they are few."""
    from orun.stages.registry import list_kinds

    few = 2
    kinds = [kind.name for kind in list_kinds() if kind.spec.output in accepts]
    return f"what gives it: {format_choices(kinds)}" if 0 < len(kinds) <= few else ""


def _tell_asked_for(instance: Instance, port: str, kind: Kind, problems: Problems) -> None:
    """Note the values that need an input that is not connected."""
    for parameter, values in kind.spec.inputs[port].needed_for.items():
        for item in instance.node.map("with").list_items(parameter):
            if isinstance(item, Scalar) and item.text in values:
                problems.add(
                    item.span,
                    f"{item.text!r} needs the input {port!r} of {kind.name}, which is not connected",
                    expected=f"`needs: {{{', '.join(f'{name}: STAGE' for name in kind.spec.inputs)}}}`",
                )


def _tell_missing(instance: Instance, missing: list[str], kind: Kind, problems: Problems) -> None:
    needs = instance.node.entries.get("needs")
    names = " and ".join(repr(port) for port in missing)
    example = ", ".join(f"{port}: STAGE" for port, spec in kind.spec.inputs.items() if not spec.optional)
    single = len(kind.spec.inputs) == 1
    problems.add(
        needs.key if needs else instance.key,
        f"the input {names} of {kind.name} is not connected",
        expected="`needs: STAGE`" if single else f"`needs: {{{example}}}`",
        hint=f"orun stages {kind.name}" if kind.origin != "file" else "",
    )
