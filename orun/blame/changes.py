"""Differences between two runs as changes that can be made one by one, and those that cannot."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from orun.blame.run_snapshot import Side
from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components, subjects
from orun.core.targets import Environment
from orun.pipeline.model import Pipeline, Stage
from orun.text.wording.components import component_name

Identity = tuple[str, str, str]
KIND: Identity = (ComponentKind.KIND, "", "")

VARIABLES = frozenset({ComponentKind.VARIABLE, ComponentKind.LOOKED_UP})
FIXED = VARIABLES | {
    ComponentKind.TOOL,
    ComponentKind.DEVICE,
    ComponentKind.PACKAGE,
    ComponentKind.PYTHON,
    ComponentKind.MODULE_FOLDERS,
    ComponentKind.STARTUP,
    ComponentKind.STAGE_CODE,
    ComponentKind.IMPORTED,
    ComponentKind.LOOKED_FOR,
    ComponentKind.LISTED,
}


@dataclass(frozen=True)
class Change:
    """One difference that can be made by itself.

    Attributes:
        sort: a `parameter` of a stage, its `target`, its `environment`, the rest of a `stage` (its kind, its inputs,
            whether it is there), a `file`, a `package` that orun runs with, an environment `variable`, or the `seed`.
        name: of the stage, file, package or variable; empty for the seed.
        parameter: its name; else empty.
        old, new: in the good and the bad run, as text; empty where there is none. Of files and variables a digest.
    """

    sort: Literal["parameter", "target", "environment", "stage", "file", "package", "variable", "seed"]
    name: str
    parameter: str = ""
    old: str = ""
    new: str = ""

    def __str__(self) -> str:
        if self.sort == "file":
            return f"{self.name} was {_how(self.old, self.new)}"
        if self.sort == "variable":  # its values may be private
            return f"environment variable {self.name} was {_how(self.old, self.new)}"
        where = {
            "parameter": f"{self.name}.{self.parameter}",
            "target": f"target of {self.name}",
            "environment": f"environment of {self.name}",
            "package": "package",
            "seed": "seed",
        }
        if self.sort in where:
            return f"{where[self.sort]}: {_short(self.old)} -> {_short(self.new)}"
        return f"stage {self.name} was {_how(self.old, self.new)}"


@dataclass(frozen=True)
class Fixed:
    """Difference that is not mixed: a version, the machine, a variable, orun's own code.

    Attributes:
        stage: the stage that depends on it.
        kind, subject, owner: the key component.
        old, new: its values.
        why: why it is not mixed, where that was tried.
    """

    stage: str
    kind: str
    subject: str = ""
    owner: str = ""
    old: str = ""
    new: str = ""
    why: str = ""

    @property
    def variable(self) -> str:
        """The environment variable that differs; empty where it is another component."""
        return self.subject if self.kind in VARIABLES else ""

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        if self.variable:
            return f"environment variable {self.variable} of {self.stage} was changed{why}"
        if self.kind == ComponentKind.STAGE_CODE and self.old == self.new:
            return f"the code behind {self.stage}: {self.old} in both, and yet not the same{why}"
        names: dict[str, str] = {
            ComponentKind.STAGE_CODE: "the code behind",
            ComponentKind.PYTHON: "Python of",
            ComponentKind.MODULE_FOLDERS: "PYTHONPATH of",
        }
        name = names.get(self.kind, f"{component_name(self.kind, self.subject, self.owner)} of")
        return f"{name} {self.stage}: {_short(self.old) or 'none'} -> {_short(self.new) or 'none'}{why}"


def changes(good: Side, bad: Side, stages: Collection[str]) -> tuple[Change, ...]:
    """The changes between two runs as far as these stages (of either) rest on them."""
    found = [change for name in _ids(good, bad) if name in stages for change in _of_stage(good, bad, name)]
    if good.pipeline.seed != bad.pipeline.seed:
        found.append(Change("seed", "", "", str(good.pipeline.seed), str(bad.pipeline.seed)))
    used = {name for side in (good, bad) for name in _used(side, stages)}
    for name in sorted(used):
        old, new = good.code.get(name, ""), bad.code.get(name, "")
        if old != new:
            found.append(Change("file", name, "", old, new))
    return tuple(found)


def fixed(good: Side, bad: Side, stages: Collection[str]) -> tuple[Fixed, ...]:
    """The differences that cannot be mixed, once each."""
    differences: dict[tuple[Identity, str, str], Fixed] = {}
    for name in _ids(good, bad):
        if name not in stages:
            continue
        old, new = values_of(good, name), values_of(bad, name)
        for identity in dict.fromkeys((*old, *new)):
            if identity[0] in FIXED and old and new and old.get(identity) != new.get(identity):
                was, now = old.get(identity, ""), new.get(identity, "")
                if identity == (ComponentKind.STAGE_CODE, "", ""):
                    if old[KIND] != new[KIND]:
                        continue  # that is a change of the stage
                    was, now = _maker(good, was), _maker(bad, now)
                differences.setdefault((identity, was, now), Fixed(name, *identity, was, now))
    return tuple(differences.values())


def _maker(side: Side, code: str) -> str:
    """What the code of a kind is of, with its version: a plug-in package, which is named beside its digest, or orun."""
    return code.partition(" ")[2] or " ".join(filter(None, ("orun", side.record.orun)))


def upstream(pipeline: Pipeline, stage: str) -> set[str]:
    """A stage and all before it; nothing when the pipeline does not have it."""
    stages = {one.id: one for one in pipeline.stages}
    found: set[str] = set()
    waiting = [stage]
    while waiting:
        name = waiting.pop()
        if name in stages and name not in found:
            found.add(name)
            waiting += stages[name].upstream
    return found


def giving(pipeline: Pipeline, stage: str) -> list[str]:
    """Which of a stage and all before it give something away: they must not run to find something out."""
    before = upstream(pipeline, stage)
    return [one.id for one in pipeline.stages if one.id in before and pipeline.kinds[one.uses].spec.publishes]


def _ids(good: Side, bad: Side) -> list[str]:
    return list(dict.fromkeys(stage.id for side in (good, bad) for stage in side.pipeline.stages))


def _find(side: Side, name: str) -> Stage | None:
    return next((stage for stage in side.pipeline.stages if stage.id == name), None)


def _of_stage(good: Side, bad: Side, name: str) -> Iterator[Change]:
    old, new = _find(good, name), _find(bad, name)
    if old is None or new is None or old.uses != new.uses:
        yield Change("stage", name, "", old.uses if old else "", new.uses if new else "")
        return
    if (old.needs, old.after, old.env) != (new.needs, new.after, new.env):
        yield Change("stage", name, "", _text(dict(old.needs)), _text(dict(new.needs)))
    if old.environment != new.environment:
        yield Change("environment", name, "", _packages(old.environment), _packages(new.environment))
    if (old.target, old.extra_targets) != (new.target, new.extra_targets):
        yield Change("target", name, "", _targets(old), _targets(new))
    for parameter in dict.fromkeys((*old.params, *new.params)):
        was, now = _text(old.params.get(parameter)), _text(new.params.get(parameter))
        if was != now:
            yield Change("parameter", name, parameter, was, now)


def _used(side: Side, stages: Collection[str]) -> set[str]:
    """Files that parameters of these stages name, or that they were seen to read."""
    named = {item.path for stage in side.pipeline.stages if stage.id in stages for item in stage.references}
    read = {path for name in stages for path in subjects(inputs_of(side, name), ComponentKind.READ)}
    return (named | read) & side.code.keys()


def inputs_of(side: Side, stage: str) -> Components:
    """Return all that the result of a stage of a run depends on."""
    return next((result.inputs for result in side.record.stages if result.stage == stage), ())


def values_of(side: Side, stage: str) -> dict[Identity, str]:
    """Return the value of each component that the result of a stage of a run depends on."""
    return {item.identity: item.value for item in inputs_of(side, stage)}


def _targets(stage: Stage) -> str:
    return " and ".join(
        _text({"providers": [item.name for item in one.providers], "session": dict(one.session)})
        + (f" in {_packages(one.environment)}" if one.environment else "")
        for one in stage.targets
    )


def _packages(environment: Environment | None) -> str:
    return " ".join(environment.requirements) if environment else "none"


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _how(old: str, new: str) -> str:
    if not old:
        return "added"
    return "changed" if new else "removed"


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
