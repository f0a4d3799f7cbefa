"""What must run and why: pure decisions over a pipeline and a store, one stage at a time.

`Planner.decide` is the only place where a stage is found to be up to date or not, and its reasons are written there. A
plan asks it about stages whose inputs are known; the runner asks it again once those before a stage are done.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from blake3 import blake3

from orun import key
from orun.codec import encode, replace
from orun.discovery import changes
from orun.environment import device, isolated, providers, tools
from orun.errors import DeviceUnknown
from orun.gates.baselines import Accepted, Baseline
from orun.gates.judge import judge
from orun.gates.measured import Ports
from orun.gates.regression import ACCEPT, Terms
from orun.pipeline.model import Pipeline, Stage, conditions
from orun.reasons import HISTORY, UPSTREAM, VERDICTS, key_changes
from orun.record import NEVER_RUN, Verdict
from orun.store import Action, Store

Decision = Literal["run", "cached", "maybe", "skipped"]


@dataclass(frozen=True)
class Step:
    """What a plan says of one stage.

    Attributes:
        stage: the stage.
        action: `run`, `cached`, `maybe` (a stage before it runs, and may yield the same bytes as before) or `skipped`.
        reasons: one sentence each, the most telling first.
        seconds: how long it took last time, or None.
        key: its key; empty while an input is unknown.
        parts: the parts of the key, by name; without the inputs that are unknown.
        previous: the parts of the key that it had when it ran last; empty when it never did.
        inputs: digest of what is at each input port.
        hit: the stored result of a `cached` stage.
        read: what it was seen to read besides when it ran last, by name: then and now. Looked up for `explain` alone.
    """

    stage: Stage
    action: Decision
    reasons: tuple[str, ...]
    seconds: float | None = None
    key: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    previous: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    hit: Action | None = None
    read: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """The steps of a pipeline in the order in which they may run."""

    pipeline: Pipeline
    steps: tuple[Step, ...]

    def __getitem__(self, stage: str) -> Step:
        """The step of a stage by its id; KeyError when there is none."""
        for step in self.steps:
            if step.stage.id == stage:
                return step
        raise KeyError(stage)


@dataclass(frozen=True)
class Done:
    """A stage that is up to date: its stored result and the verdicts of its gates."""

    step: Step
    action: Action
    verdicts: tuple[Verdict, ...]

    @property
    def good(self) -> bool:
        """Whether stages after it may use it: no gate of it fails."""
        return not any(verdict.fails for verdict in self.verdicts)


class Planner:
    """Decides for the stages of one pipeline against one store.

    Args:
        pipeline: the pipeline.
        store: where results are.
        baseline: what was accepted, or None.
        force: ids of stages to run whatever is stored.
        fresh: whether to measure again what is bound to this host.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        baseline: Baseline | None = None,
        *,
        force: Collection[str] = (),
        fresh: bool = False,
    ) -> None:
        self.pipeline = pipeline
        self.store = store
        self.baseline = baseline
        self.force = frozenset(force)
        self.fresh = fresh
        self._fixed: dict[str, key.Fixed] = {}

    def plan(self) -> Plan:
        """A decision for every stage; runs nothing."""
        done: dict[str, Done] = {}
        steps: list[Step] = []
        for stage in self.pipeline.stages:
            step = self.decide(stage, done)
            steps.append(step)
            if step.hit:
                done[stage.id] = Done(step, step.hit, self.judge(stage, step.hit))
        return Plan(self.pipeline, tuple(steps))

    def decide(self, stage: Stage, done: Mapping[str, Done], before: Step | None = None) -> Step:
        """Whether a stage is up to date, given the stages before it that are.

        Args:
            stage: the stage.
            done: the stages that are up to date.
            before: what was decided of it in this run, if anything was.
        """
        if before:
            seconds, previous = before.seconds, before.previous
        else:
            latest = self.store.latest(self.pipeline.name, stage.id)
            seconds, previous = (latest.seconds, latest.parts) if latest else (None, {})
        inputs = self._inputs(stage, done)
        try:
            parts = key.compose(self.pipeline, stage, inputs, self.store.files.digest_path, self._fixed)
            parts |= self._history(stage, done)
        except DeviceUnknown as error:
            return self._skipped(stage) or Step(stage, "run", (error.what,), seconds, previous=previous, inputs=inputs)
        step = Step(stage, "run", (), seconds, "", parts, previous, inputs)
        unknown = [name for name in stage.upstream if name not in done]
        known = all(map(isolated.is_known, stage.environments))
        if unknown or not known:
            step = self._unknown(step, unknown)
        else:
            step = self._look_up(replace(step, key=key.digest_of(parts)))
        if step.action == "cached" or not known:
            return step
        return self._skipped(stage, step) or step

    def _skipped(self, stage: Stage, step: Step | None = None) -> Step | None:
        """The step of a stage that the file lets be skipped where a provider is not there; None when it is not."""
        for target in stage.targets:
            environment = stage.environment_of(target)
            if target.missing != "skip" or not isolated.can_run(environment):
                continue
            if missing := providers.missing(target, environment):
                reason = f"target {target.name}: {missing}"
                return replace(step or Step(stage, "skipped", ()), action="skipped", reasons=(reason,))
        return None

    def _inputs(self, stage: Stage, done: Mapping[str, Done]) -> dict[str, str]:
        inputs = {port: done[name].action.tree for port, name in stage.needs.items() if name in done}
        accepted = self.accepted(stage)
        if not accepted or not self._compares(stage):
            return inputs
        model = inputs.get(Ports.of(self.pipeline.kinds[stage.uses].spec, stage).model, "")
        if accepted.model != model and not self.store.check(accepted.model):
            inputs["baseline"] = accepted.model
        return inputs

    def _history(self, stage: Stage, done: Mapping[str, Done]) -> dict[str, str]:
        """The lineage of a stage that is given it as parts of its key, so that a change names the stage behind it."""
        if not self.pipeline.kinds[stage.uses].spec.lineage:
            return {}
        entries = [self._entry(one) for one in self._before(stage, done)]
        parts = {"pipeline": self.pipeline.name, HISTORY: ", ".join(str(entry["stage"]) for entry in entries)}
        for entry in entries:
            name, verdicts = entry["stage"], entry.pop("verdicts")
            parts[f"{HISTORY} of {name}"] = _digest(entry)
            if verdicts:
                parts[f"{VERDICTS} of {name}"] = _digest(verdicts)
        return parts

    def lacks(self, stage: Stage) -> str:
        """The digest of the accepted model that a stage compares with, if it is not in the store; else empty."""
        accepted = self.accepted(stage)
        if accepted is None or not accepted.model or not self._compares(stage):
            return ""
        return accepted.model if self.store.check(accepted.model) else ""

    def _compares(self, stage: Stage) -> bool:
        spec = self.pipeline.kinds[stage.uses].spec
        return spec.baseline and any(gate.rule == "max_regression" for gate in conditions(stage.gates))

    def _unknown(self, step: Step, unknown: list[str]) -> Step:
        """The step of a stage that waits for others: its own changes are known, its inputs are not."""
        waited = [one.name for one in step.stage.environments if not isolated.is_known(one)]
        others = (*UPSTREAM, "package ", "tool ", "device ") if waited else UPSTREAM
        mine = [reason for reason in _changes(step) if not reason.startswith(others)]
        unknown = [*unknown, *(f"environment {name!r} is made" for name in waited)]
        waits = f"after {', '.join(unknown)}"
        if not step.previous:
            return replace(step, action="run", reasons=(NEVER_RUN, waits))
        return replace(step, action="run" if mine else "maybe", reasons=(*mine, waits))

    def _look_up(self, step: Step) -> Step:
        spec = self.pipeline.kinds[step.stage.uses].spec
        if step.stage.id in self.force:
            return replace(step, reasons=("forced",))
        if self.fresh and spec.stage_class == "measurement":
            return replace(step, reasons=("--fresh: measured again",))
        reasons: list[str] = []
        for action in self.store.actions(step.key):
            stale = self.changes(step.stage, action) or self._damage(action)
            if not stale:
                return replace(step, action="cached", reasons=(self._origin(step, action),), hit=action)
            reasons = reasons or stale
        return replace(step, reasons=tuple(reasons or _changes(step) or ["its result is no longer in the store"]))

    def changes(self, stage: Stage, action: Action) -> list[str]:
        """What differs now from what a stage found when it ran, as sentences; empty when its result still holds."""
        packages = isolated.packages(stage.environment)
        return changes(action.discovered, self.pipeline.root, self.store.files, packages)

    def _damage(self, action: Action) -> list[str]:
        return [f"its stored result is damaged: {what}" for what in self.store.check(action.tree)]

    def _origin(self, step: Step, action: Action) -> str:
        if (action.pipeline, action.stage) == (self.pipeline.name, step.stage.id):
            return "up to date"
        where = "" if action.pipeline == self.pipeline.name else f" of {action.pipeline}"
        return f"up to date (the same as {action.stage}{where})"

    def accepted(self, stage: Stage) -> Accepted | None:
        """What was accepted for a stage, if anything was."""
        return self.baseline.stages.get(stage.id) if self.baseline else None

    def judge(self, stage: Stage, action: Action) -> tuple[Verdict, ...]:
        """The verdicts of a stage's gates from its stored measurements."""
        if not stage.gates:
            return ()
        spec = self.pipeline.kinds[stage.uses].spec
        host = device.made_on(spec.stage_class, stage.target, isolated.packages(stage.environment_of(stage.target)))
        terms = Terms(self.accepted(stage), host, spec.baseline, Ports.of(spec, stage))
        found = judge(stage, action, terms)
        return tuple(replace(one, why=self._advised(one)) for one in found)

    def _advised(self, verdict: Verdict) -> str:
        """Its sentence; what it says to accept is this pipeline, even where the gate stands in a file it extends."""
        return verdict.why.replace(f"{ACCEPT} {verdict.position.file}", f"{ACCEPT} {self.pipeline.file}")

    def lineage(self, stage: Stage, done: Mapping[str, Done]) -> bytes:
        """Every stage before this one as JSON: what it was told, what it used, what it made, what it measured."""
        entries = [self._entry(one) for one in self._before(stage, done)]
        return json.dumps({"pipeline": self.pipeline.name, "stages": entries}, sort_keys=True).encode()

    def _before(self, stage: Stage, done: Mapping[str, Done]) -> list[Done]:
        """The stages that led to a stage as far as they are done, in the order of the pipeline."""
        names: set[str] = set()
        waiting = list(stage.upstream)
        while waiting:
            name = waiting.pop()
            if name not in names and name in done:
                names.add(name)
                waiting += done[name].step.stage.upstream
        return [done[one.id] for one in self.pipeline.stages if one.id in names]

    def _entry(self, done: Done) -> dict[str, object]:
        stage, action = done.step.stage, done.action
        spec = self.pipeline.kinds[stage.uses].spec
        packages = isolated.packages(stage.environment)
        versions = [found for tool in spec.tools if (found := tools.find(tool, packages))]
        return {
            "stage": stage.id,
            "uses": stage.uses,
            "needs": dict(stage.needs),
            "params": encode(stage.params),
            "tools": dict(versions) | dict(action.discovered.packages),
            "key": action.key,
            "tree": action.tree,
            "metrics": encode(action.metrics),
            "verdicts": [_without_place(verdict) for verdict in done.verdicts],
            "host": dict(action.host),
        }


def _digest(data: object) -> str:
    return blake3(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _changes(step: Step) -> list[str]:
    return key_changes(step.stage, step.previous, step.parts)


def _without_place(verdict: Verdict) -> dict[str, object]:
    """A verdict without the line that asks for it: a comment above it changes nothing that was released."""
    fields: dict[str, object] = encode(verdict)
    return {name: value for name, value in fields.items() if name != "position"}
