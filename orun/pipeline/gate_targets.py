"""Check that a gate for a target belongs to a stage that runs there; otherwise it would never be judged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from orun.pipeline.gates import GROUPS, TARGET
from orun.pipeline.instances import Instance
from orun.pipeline.model import Stage
from orun.pipeline.nodes import List, Map, Node, Scalar
from orun.pipeline.problems import Problems
from orun.pipeline.targets import DEFAULT


def require_judged(
    instances: Iterable[Instance], stages: Mapping[str, Stage], targets: Collection[str], problems: Problems
) -> None:
    """Note each gate for a target on which no instance of its stage runs."""
    by_base: dict[str, list[Instance]] = {}
    for instance in instances:
        by_base.setdefault(instance.base, []).append(instance)
    for base, group in by_base.items():
        if not all(instance.id in stages and _is_sound(instance, targets) for instance in group):
            continue  # already reported
        targets_of_stages = (stages[instance.id].target for instance in group)
        homes = dict.fromkeys(target.name if target else DEFAULT for target in targets_of_stages)
        for named in (named for instance in group for named in _find_targets(instance.node.get("gate"))):
            if named.text in targets and named.text not in homes:
                message = f"{base} does not run on target {named.text!r}, so this gate would never be judged"
                problems.add_unknown(named.span, message, named.text, homes)


def _is_sound(instance: Instance, targets: Collection[str]) -> bool:
    """Return whether all targets that a stage's parameters name exist."""
    parameters = instance.node.map("with")
    params = instance.kind.params if instance.kind else ()
    named = (parameters.get(param.name) for param in params if param.type.name == TARGET)
    return all(not isinstance(value, Scalar) or value.value is None or value.text in targets for value in named)


def _find_targets(gate: Node | None) -> Iterator[Scalar]:
    """Yield each `target` in the gates of a stage, groups included."""
    for name, entry in gate.entries.items() if isinstance(gate, Map) else ():
        if name in GROUPS:
            for item in entry.value.items if isinstance(entry.value, List) else ():
                yield from _find_targets(item)
        elif isinstance(entry.value, Map):
            target = entry.value.get(TARGET)
            if isinstance(target, Scalar) and not target.broken:
                yield target
