"""Planner: decides which stages must run, and why. Pure decisions over a pipeline and a store.

`Planner.decide` is the only place where a stage is found to be up to date or not, and its reasons are written there. A
plan asks it about stages whose inputs are known; the runner asks it again once those before a stage are done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from orun.core.run_record import NEVER_RUN, Verdict
from orun.core.serialization import replace
from orun.environment import device, providers, venvs
from orun.errors import DeviceUnknown
from orun.gates.baselines import Accepted, Baseline
from orun.gates.caveats import caveat_of
from orun.gates.judge import judge
from orun.gates.measured import Ports
from orun.gates.regression import ACCEPT, Terms
from orun.pipeline.graph import reached
from orun.pipeline.model import Pipeline, Stage, conditions
from orun.planning import cache_key
from orun.planning.implicit_deps import changes
from orun.planning.key_diff import UPSTREAM, key_changes
from orun.planning.plan import Done, Plan, Step
from orun.planning.provenance import Lineage
from orun.store import Action, Store

EARLIER = "what an earlier run made of these does not hold any more"


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
        self._fixed: dict[str, cache_key.Fixed] = {}

    def plan(self) -> Plan:
        """A decision for every stage; runs nothing."""
        done: dict[str, Done] = {}
        steps: dict[str, Step] = {}
        for stage in self.pipeline.stages:
            step = self.decide(stage, done)
            blocked = (f"{name} did not run" for name in stage.before if steps[name].action == "blocked")
            if why := self.gate_before(stage, done) or next(blocked, ""):
                step = replace(step, action="blocked", reasons=(why,))
            steps[stage.id] = step
            if step.hit and step.action == "cached":
                done[stage.id] = Done(step, step.hit, self.judge(stage, step.hit))
        return Plan(self.pipeline, tuple(steps.values()))

    def gate_before(self, stage: Stage, done: Mapping[str, Done]) -> str:
        """Return which gate keeps a stage from running, as far as gates before it are judged; empty if none does.

        Args:
            stage: the stage.
            done: the stages that are up to date.
        """
        for name in stage.before:
            if name in done and not done[name].good:
                return f"a gate of {name} {done[name].blocking}"
        if self.releases(stage):
            behind = reached(stage.before, self._before)
            for name, one in done.items():
                if name in behind and one.blocking:
                    return f"a gate of {name} {one.blocking}"
        return ""

    def releases(self, stage: Stage) -> bool:
        """Return whether a stage makes or gives away a release."""
        return self.pipeline.kinds[stage.uses].spec.releases

    @cached_property
    def _before(self) -> dict[str, tuple[str, ...]]:
        return {stage.id: stage.before for stage in self.pipeline.stages}

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
            parts = cache_key.compose(self.pipeline, stage, inputs, self.store.files.digest_path, self._fixed)
            parts |= self._history(stage, done)
        except DeviceUnknown as error:
            return self._skipped(stage) or Step(stage, "run", (error.what,), seconds, previous=previous, inputs=inputs)
        step = Step(stage, "run", (), seconds, "", parts, previous, inputs)
        unknown = [name for name in self._told_of(stage) if name not in done]
        known = all(map(venvs.is_known, stage.environments))
        if unknown or not known:
            step = self._unknown(step, unknown)
        else:
            step = self._look_up(replace(step, key=cache_key.digest_of(parts)))
        if step.action == "cached" or not known:
            return step
        return self._skipped(stage, step) or step

    def _skipped(self, stage: Stage, step: Step | None = None) -> Step | None:
        """The step of a stage that the file lets be skipped where a provider is not there; None when it is not."""
        for target in stage.targets:
            environment = stage.environment_of(target)
            if target.missing != "skip" or not venvs.can_run(environment):
                continue
            if missing := providers.missing(target, environment):
                reason = f"target {target.name}: {missing}"
                return replace(step or Step(stage, "skipped", ()), action="skipped", reasons=(reason,))
        return None

    def _told_of(self, stage: Stage) -> tuple[str, ...]:
        """The stages that its key rests on: where it is told what led to it, those that guard it, too."""
        if not self.pipeline.kinds[stage.uses].spec.lineage:
            return stage.upstream
        return (*stage.upstream, *(name for name in stage.guards if not self.left_out(self.pipeline.stage(name))))

    def left_out(self, stage: Stage) -> bool:
        """Return whether this run skips a stage, by itself or with a stage before it."""
        return bool(self._skipped(stage)) or any(self.left_out(self.pipeline.stage(name)) for name in stage.upstream)

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
        """What led to a stage that is told of it, as parts of its key."""
        lineage = Lineage.of(self.pipeline, stage, done)
        return lineage.parts() if lineage else {}

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
        waited = [one.name for one in step.stage.environments if not venvs.is_known(one)]
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
        stale: list[tuple[Action, list[str]]] = []
        for action in self.store.actions(step.key):
            found = self.changes(step.stage, action) or self._damage(action)
            if not found:
                return replace(step, action="cached", reasons=(self._origin(step, action),), hit=action)
            stale.append((action, found))
        return replace(step, reasons=self._why(step, stale))

    def _why(self, step: Step, stale: list[tuple[Action, list[str]]]) -> tuple[str, ...]:
        """What has changed since the stage was last done.

        Args:
            step: the decision, as far as it is known.
            stale: the results under its key, the newest first, and why each holds no longer. A newer one than the last
                may be of another branch, which was left since.
        """
        latest = self.store.latest(self.pipeline.name, step.stage.id)
        if last := next((found for action, found in stale if action == latest), None):
            return tuple(last)
        changed = _changes(step)
        if changed and stale:
            return (*changed, f"{EARLIER}: {'; '.join(stale[0][1])}")
        return tuple(changed or (stale[0][1] if stale else ["its result is no longer in the store"]))

    def changes(self, stage: Stage, action: Action) -> list[str]:
        """What differs now from what a stage found when it ran, as sentences; empty when its result still holds."""
        packages = venvs.packages(stage.environment)
        return changes(action.discovered, self.pipeline.root, self.store.files, self.pipeline.private, packages)

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

    @cached_property
    def _gone(self) -> tuple[str, ...]:
        """What is accepted of stages that the pipeline does not have."""
        there = {stage.id for stage in self.pipeline.stages}
        return tuple(sorted(self.baseline.stages.keys() - there)) if self.baseline else ()

    def judge(self, stage: Stage, action: Action) -> tuple[Verdict, ...]:
        """The verdicts of a stage's gates from its stored measurements."""
        if not stage.gates:
            return ()
        spec = self.pipeline.kinds[stage.uses].spec
        host = device.made_on(spec.stage_class, stage.target, venvs.packages(stage.environment_of(stage.target)))
        terms = Terms(self.accepted(stage), host, key_changes, spec.baseline, Ports.of(spec, stage), self._gone)
        told = caveat_of(self.pipeline, stage)
        return tuple(
            replace(one, why=self._advised(one), caveat="; ".join(filter(None, (one.caveat, told))))
            for one in judge(stage, action, terms)
        )

    def _advised(self, verdict: Verdict) -> str:
        """Its sentence; what it says to accept is this pipeline, even where the gate stands in a file it extends."""
        return verdict.why.replace(f"{ACCEPT} {verdict.position.file}", f"{ACCEPT} {self.pipeline.file}")


def _changes(step: Step) -> list[str]:
    return key_changes(step.stage, step.previous, step.parts)
