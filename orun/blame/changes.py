"""Differences between two runs: changes that can be tried one by one, and fixed differences that cannot."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from orun.blame.run_snapshot import RunSnapshot
from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components, index_by_subject
from orun.core.targets import Environment
from orun.pipeline.graph import find_reachable
from orun.pipeline.model import Pipeline, Stage
from orun.text.wording.components import name_component
from orun.text.wording.values import shorten_value

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
    """A difference that can be tried by itself.

    Attributes:
        sort: a `parameter` of a stage, its `target`, its `environment`, the rest of a `stage` (its kind, its inputs,
            its existence), the `threshold` of a gate, a `file`, a `package` of orun's own environment, an environment
            `variable`, or the `seed`.
        name: of the stage, file, package or variable; empty for the seed.
        parameter: its name, or metric and rule of the gate; else empty.
        old, new: values in the good and the bad run, as text; empty for none. For files and variables a digest.
    """

    sort: Literal["parameter", "target", "environment", "stage", "threshold", "file", "package", "variable", "seed"]
    name: str
    parameter: str = ""
    old: str = ""
    new: str = ""

    def __str__(self) -> str:
        if self.sort == "file":
            return f"{self.name} was {_choose_verb(self.old, self.new)}"
        if self.sort == "variable":  # values may be private
            return f"environment variable {self.name} was {_choose_verb(self.old, self.new)}"
        titles = {
            "parameter": f"{self.name}.{self.parameter}",
            "target": f"target of {self.name}",
            "environment": f"environment of {self.name}",
            "threshold": f"threshold of {self.name} {self.parameter}",
            "package": "package",
            "seed": "seed",
        }
        if self.sort in titles:
            return f"{titles[self.sort]}: {shorten_value(self.old)} -> {shorten_value(self.new)}"
        return f"stage {self.name} was {_choose_verb(self.old, self.new)}"


@dataclass(frozen=True)
class FixedDifference:
    """Difference that cannot be tried here: a version, the machine, a variable, orun's own code.

    Attributes:
        stage: the stage that depends on it.
        kind, subject, owner: the key component.
        old, new: its values.
        why: why it cannot be tried, if known.
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
        """The environment variable that differs; empty for other components."""
        return self.subject if self.kind in VARIABLES else ""

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        if self.variable:
            return f"environment variable {self.variable} of {self.stage} was changed{why}"
        if self.kind == ComponentKind.STAGE_CODE and self.old == self.new:
            return f"the code behind {self.stage}: different code of the same version {self.old}{why}"
        names: dict[str, str] = {
            ComponentKind.STAGE_CODE: "the code behind",
            ComponentKind.PYTHON: "Python of",
            ComponentKind.MODULE_FOLDERS: "PYTHONPATH of",
        }
        name = names.get(self.kind, f"{name_component(self.kind, self.subject, self.owner)} of")
        return f"{name} {self.stage}: {shorten_value(self.old) or 'none'} -> {shorten_value(self.new) or 'none'}{why}"


def list_changes(good: RunSnapshot, bad: RunSnapshot, stages: Collection[str]) -> tuple[Change, ...]:
    """Return the changes between two runs that the given stages, of either run, depend on."""
    differing = [
        change for name in _list_ids(good, bad) if name in stages for change in _iter_stage_changes(good, bad, name)
    ]
    if good.pipeline.seed != bad.pipeline.seed:
        differing.append(Change("seed", "", "", str(good.pipeline.seed), str(bad.pipeline.seed)))
    used = {name for run in (good, bad) for name in _list_used_files(run, stages)}
    for name in sorted(used):
        old, new = good.code.get(name, ""), bad.code.get(name, "")
        if old != new:
            differing.append(Change("file", name, "", old, new))
    return tuple(differing)


def list_fixed(good: RunSnapshot, bad: RunSnapshot, stages: Collection[str]) -> tuple[FixedDifference, ...]:
    """Return the differences that cannot be tried, once each."""
    differences: dict[tuple[Identity, str, str], FixedDifference] = {}
    for name in _list_ids(good, bad):
        if name not in stages:
            continue
        old, new = map_values(good, name), map_values(bad, name)
        for identity in dict.fromkeys((*old, *new)):
            if identity[0] in FIXED and old and new and old.get(identity) != new.get(identity):
                was, now = old.get(identity, ""), new.get(identity, "")
                if identity == (ComponentKind.STAGE_CODE, "", ""):
                    if old[KIND] != new[KIND]:
                        continue  # the stage itself has changed
                    was, now = _format_code_version(good, was), _format_code_version(bad, now)
                differences.setdefault((identity, was, now), FixedDifference(name, *identity, was, now))
    return tuple(differences.values())


def _format_code_version(run: RunSnapshot, code: str) -> str:
    """Return package and version of a kind's code: a plug-in, which is named beside the digest, or orun."""
    return code.partition(" ")[2] or " ".join(filter(None, ("orun", run.record.orun)))


def list_stages_up_to(pipeline: Pipeline, stage: str) -> set[str]:
    """Return a stage and all before it; empty if the pipeline does not have it."""
    edges = defaultdict[str, tuple[str, ...]](tuple)  # a partial build may lack stages that others need
    edges.update({candidate.id: tuple(candidate.upstream) for candidate in pipeline.stages})
    return find_reachable([stage], edges) & {candidate.id for candidate in pipeline.stages}


def list_publishing_stages(pipeline: Pipeline, stage: str) -> list[str]:
    """Return the stages up to `stage` that publish a release: an investigation must not run them."""
    names = list_stages_up_to(pipeline, stage)
    return [item.id for item in pipeline.stages if item.id in names and pipeline.kinds[item.uses].spec.publishes]


def _list_ids(good: RunSnapshot, bad: RunSnapshot) -> list[str]:
    return list(dict.fromkeys(stage.id for run in (good, bad) for stage in run.pipeline.stages))


def _find(run: RunSnapshot, name: str) -> Stage | None:
    return next((stage for stage in run.pipeline.stages if stage.id == name), None)


def _iter_stage_changes(good: RunSnapshot, bad: RunSnapshot, name: str) -> Iterator[Change]:
    old, new = _find(good, name), _find(bad, name)
    if old is None or new is None or old.uses != new.uses:
        yield Change("stage", name, "", old.uses if old else "", new.uses if new else "")
        return
    if (old.needs, old.after, old.env) != (new.needs, new.after, new.env):
        yield Change("stage", name, "", _to_text(dict(old.needs)), _to_text(dict(new.needs)))
    if old.environment != new.environment:
        yield Change(
            "environment", name, "", _format_requirements(old.environment), _format_requirements(new.environment)
        )
    if (old.target, old.extra_targets) != (new.target, new.extra_targets):
        yield Change("target", name, "", _describe_targets(old), _describe_targets(new))
    for parameter in dict.fromkeys((*old.params, *new.params)):
        was, now = _to_text(old.params.get(parameter)), _to_text(new.params.get(parameter))
        if was != now:
            yield Change("parameter", name, parameter, was, now)


def _list_used_files(run: RunSnapshot, stages: Collection[str]) -> set[str]:
    """Return the files that parameters of these stages name or that they read."""
    named = {item.path for stage in run.pipeline.stages if stage.id in stages for item in stage.references}
    read = {path for name in stages for path in index_by_subject(list_inputs(run, name), ComponentKind.READ)}
    return (named | read) & run.code.keys()


def list_inputs(run: RunSnapshot, stage: str) -> Components:
    """Return all that the result of a stage of a run depends on."""
    return next((result.inputs for result in run.record.stages if result.stage == stage), ())


def map_values(run: RunSnapshot, stage: str) -> dict[Identity, str]:
    """Return the value of each component that the result of a stage of a run depends on."""
    return {item.identity: item.value for item in list_inputs(run, stage)}


def _describe_targets(stage: Stage) -> str:
    return " and ".join(
        _to_text({"providers": [provider.name for provider in target.providers], "session": dict(target.session)})
        + (f" in {_format_requirements(target.environment)}" if target.environment else "")
        for target in stage.targets
    )


def _format_requirements(environment: Environment | None) -> str:
    return " ".join(environment.requirements) if environment else "none"


def _to_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _choose_verb(old: str, new: str) -> str:
    if not old:
        return "added"
    return "changed" if new else "removed"
