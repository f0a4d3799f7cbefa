"""Planner: decides which stages must run, and why. Pure decisions over a pipeline and a store.

Only `Planner.decide` finds a stage up to date or not, and it records the reasons there. A plan asks it about stages
whose inputs are known; the runner asks it again once the stages before are done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from orun.core.activity import report
from orun.core.key_component import Components
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.serialization import replace
from orun.core.verdict import Verdict
from orun.environment import device, venvs
from orun.errors import DeviceUnknown
from orun.gates.baseline_file import Baseline, find_abandoned_baseline
from orun.gates.caveats import list_caveats
from orun.gates.judge import judge
from orun.gates.regression import Terms
from orun.pipeline.graph import find_reachable
from orun.pipeline.model import Pipeline, Stage
from orun.planning import cache_key
from orun.planning.facts import Classes, Facts, LocalFacts
from orun.planning.key_diff import UPSTREAM, list_key_changes
from orun.planning.plan import DUE, Done, Plan, Step
from orun.planning.provenance import Provenance, iter_source_components
from orun.planning.stage_context import StageContext
from orun.planning.stored_results import StoredResults, list_step_changes
from orun.store import Action, Store
from orun.store.layout import store_option

if TYPE_CHECKING:
    from orun.planning.assignment import Assignment, Candidates

# Changes that may come from an environment that is not built yet.
OF_PACKAGES = frozenset({ReasonCode.PACKAGE_CHANGED, ReasonCode.TOOL_CHANGED, ReasonCode.DEVICE_CHANGED})


class Planner:
    """Decides for the stages of one pipeline against one store.

    Args:
        pipeline: the pipeline.
        store: where results are.
        baseline: what was accepted, or None.
        force: ids of stages to run whatever is stored.
        fresh: whether to measure again what is bound to this host.
        past_gates: whether stages that only measure run behind a failed gate.

    Attributes:
        assignment: the machines that stages run on; None if all run on this one.
        results: the stored results of its stages.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        baseline: Baseline | None = None,
        *,
        force: Collection[str] = (),
        fresh: bool = False,
        past_gates: bool = False,
    ) -> None:
        self.pipeline = pipeline
        self.store = store
        self.baseline = baseline
        self.force = frozenset(force)
        self.fresh = fresh
        self.past_gates = past_gates
        self.assignment: Assignment | None = None
        self.results = StoredResults(pipeline, store)
        self._local: Classes = ((LocalFacts(pipeline),),)
        self._parameters: dict[str, Components] = {}
        self._contexts: dict[str, StageContext] = {}
        self._writers: dict[str, bool] = {}  # whether the last result of a stage has undeclared writes

    def resolve_context(self, stage: Stage) -> StageContext:
        """Return what is needed of a stage besides its key."""
        if stage.id not in self._contexts:
            self._contexts[stage.id] = StageContext.of(self.pipeline, stage, self.baseline)
        return self._contexts[stage.id]

    def plan(self, chosen: Collection[str] | None = None) -> Plan:
        """Decide for every stage; run nothing.

        Stages that are not chosen and not up to date are blocked, with all after them; None chooses all.
        """
        done: dict[str, Done] = {}
        steps: dict[str, Step] = {}
        for number, stage in enumerate(self.pipeline.stages, 1):
            self.results.activity = f"planning {stage.id} ({number} of {len(self.pipeline.stages)})"
            step = self.decide(stage, done)
            blocker = self.find_blocking_gate(stage, done)
            if chosen is not None and stage.id not in chosen and _must_run(step, steps):
                blocker = blocker or build_reason(ReasonCode.NOT_SELECTED)
            elif blocked := next((name for name in stage.before if steps[name].action == "blocked"), ""):
                missing = [item for item in steps[blocked].reasons if item.code == ReasonCode.NOT_SELECTED]
                blocker = blocker or build_reason(ReasonCode.STAGE_BEFORE, *missing, stage=blocked, outcome="blocked")
            if blocker:
                step = replace(step, action="blocked", reasons=(blocker,))
            steps[stage.id] = step
            if step.cached_action and step.action == "cached":
                done[stage.id] = self.build_done(step, step.cached_action, done)
        machines = tuple(self.assignment.machines.values()) if self.assignment else ()
        here = {stage.id: why for stage in self.pipeline.stages if (why := self.explain_here(stage))}
        left_out = self.assignment.left_out if self.assignment else ()
        return Plan(self.pipeline, tuple(steps.values()), machines, here, left_out)

    def find_blocking_gate(self, stage: Stage, done: Mapping[str, Done]) -> Reason | None:
        """Return which gate keeps a stage from running, as far as gates before it are judged; None if none does."""
        if self.past_gates and self.resolve_context(stage).only_measures:
            return None
        return self._find_gate_before(stage, done)

    def _find_gate_before(self, stage: Stage, done: Mapping[str, Done]) -> Reason | None:
        """Return the gate that fails before a stage, or before stages that ran in spite of it."""
        before = [done[name] for name in stage.before if name in done]
        failed = [item for item in before if not item.good]
        if not failed and (behind := next((item.behind for item in before if item.behind), None)):
            return behind
        if not failed and self.resolve_context(stage).spec.releases:
            upstream = find_reachable(stage.before, self._before)
            failed = [item for name, item in done.items() if name in upstream and item.blocking]
        if not failed:
            return None
        return build_reason(ReasonCode.GATE_BEFORE, stage=failed[0].step.stage.id, outcome=failed[0].blocking)

    def build_done(self, step: Step, action: Action, done: Mapping[str, Done]) -> Done:
        """Return a stage that is up to date, with its verdicts; `done` has those before it."""
        behind = self._find_gate_before(step.stage, done) if self.past_gates else None
        return Done(step, action, self.judge(step.stage, action), behind)

    @cached_property
    def _before(self) -> dict[str, tuple[str, ...]]:
        return {stage.id: stage.before for stage in self.pipeline.stages}

    def decide(self, stage: Stage, done: Mapping[str, Done], earlier: Step | None = None) -> Step:
        """Return whether a stage is up to date, given the stages before it that are.

        `earlier` is the last decision on it, of the plan or in this run.
        """
        steps: list[Step] = []
        for machines in self._list_classes(stage):
            step = self._decide(stage, done, earlier, machines)
            if step.cached_action:
                return step
            steps.append(step)
        if not steps:
            return self._without_machine(stage, earlier)
        return next((step for step in steps if step.holder), steps[0])

    def decide_for(self, stage: Stage, done: Mapping[str, Done], earlier: Step, machine: str) -> Step:
        """Return the decision on a stage with the facts of one machine; takes the arguments of `decide`."""
        return self._decide(stage, done, earlier, (self.find_facts(machine),))

    def list_components(self, stage: Stage, done: Mapping[str, Done], machine: str) -> Components:
        """Return the present components of the key of a stage whose inputs are known, with the facts of a machine."""
        return self._list_components(stage, done, self._list_inputs(stage, done), self.find_facts(machine))

    def _list_classes(self, stage: Stage) -> Classes:
        """Return the facts of the machines that can run a stage, those with the same key together."""
        return self.find_candidates(stage).classes if self.assignment else self._local

    def find_candidates(self, stage: Stage) -> Candidates:
        """Return the machines that can run a stage of a run on several machines."""
        assert self.assignment  # noqa: S101 - this is such a run
        return self.assignment.find_candidates(stage, writes=self._writes(stage))

    def explain_here(self, stage: Stage) -> str:
        """Return why a stage of a run on several machines runs on this one, as a clause; empty if it does not."""
        return self.assignment.explain_here(stage, writes=self._writes(stage)) if self.assignment else ""

    def _writes(self, stage: Stage) -> bool:
        """Return whether the last result of a stage has undeclared writes."""
        if stage.id not in self._writers:
            latest = self.store.find_latest(self.pipeline.name, stage.id)
            self._writers[stage.id] = bool(latest and latest.wrote)
        return self._writers[stage.id]

    def _without_machine(self, stage: Stage, earlier: Step | None) -> Step:
        """Return the decision on a stage that no machine can run, so that its key is not known."""
        why = build_reason(ReasonCode.NO_MACHINE, problem=self.find_candidates(stage).problem)
        step = earlier or Step(stage, "run", ())
        return replace(step, action="run", reasons=(why,), key="", components=(), cached_action=None)

    def _decide(
        self, stage: Stage, done: Mapping[str, Done], earlier: Step | None, machines: tuple[Facts, ...]
    ) -> Step:
        """Return the decision on a stage for machines on which it has the same key."""
        facts = machines[0]
        if earlier:
            seconds, previous = earlier.seconds, earlier.previous
        else:
            latest = self.store.find_latest(self.pipeline.name, stage.id)
            seconds, previous = (latest.seconds, latest.components) if latest else (None, ())
        inputs = self._list_inputs(stage, done)
        step = Step(stage, "run", (), seconds, previous=previous, inputs=inputs, machine=facts.machine)
        try:
            components = self._list_components(stage, done, inputs, facts)
        except DeviceUnknown as error:
            unknown = build_reason(ReasonCode.DEVICE_UNKNOWN, problem=error.problem)
            return _skip(step, facts) or replace(step, reasons=(unknown,))
        key = ""
        if earlier and earlier.components == components:
            components, key = earlier.components, earlier.key  # held once: a run has thousands of stages
        step = replace(step, components=components)
        missing = [name for name in self._list_key_stages(stage) if name not in done]
        environments = facts.list_unknown_environments(stage)
        if missing or environments:
            step = self._wait(step, missing, environments)
        else:
            step = self._look_up(replace(step, key=key or cache_key.digest_components(components)), machines)
        if step.action == "cached" or environments:
            return step
        return _skip(step, facts) or step

    def _list_components(
        self, stage: Stage, done: Mapping[str, Done], inputs: Mapping[str, str], facts: Facts
    ) -> Components:
        report(f"{self.results.activity}: looking at the code of {stage.uses}")
        surroundings = facts.list_components(stage)
        components = cache_key.compose(self.pipeline, stage, inputs, self._digest, surroundings, self._parameters)
        provenance = Provenance.of(self.pipeline, stage, done)
        return (
            *components,
            *iter_source_components(stage, done),
            *(provenance.iter_components() if provenance else ()),
        )

    def _digest(self, path: Path) -> str:
        report(f"{self.results.activity}: reading {path}")
        return self.store.files.digest_path(path)

    def _list_key_stages(self, stage: Stage) -> tuple[str, ...]:
        """Return the stages that its key depends on: guards too where its provenance is in the key."""
        if not self.resolve_context(stage).spec.provenance:
            return stage.upstream
        return (*stage.upstream, *(name for name in stage.guards if not self.skips(self.pipeline.stage(name))))

    def skips(self, stage: Stage) -> bool:
        """Return whether this run skips a stage, by itself or with a stage before it."""
        machines = next(iter(self._list_classes(stage)), ())
        return any(facts.explain_skip(stage) for facts in machines[:1]) or any(
            self.skips(self.pipeline.stage(name)) for name in stage.upstream
        )

    def _list_inputs(self, stage: Stage, done: Mapping[str, Done]) -> dict[str, str]:
        inputs = {port: done[name].action.tree for port, name in stage.needs.items() if name in done}
        context = self.resolve_context(stage)
        if (model := context.compared) and model != inputs.get(context.ports.model) and not self.store.check(model):
            inputs["baseline"] = model
        return inputs

    def find_missing_model(self, stage: Stage) -> str:
        """Return the digest of the accepted model that a stage compares with, if the store lacks it; else empty."""
        model = self.resolve_context(stage).compared
        return model if model and self.store.check(model) else ""

    def _wait(self, step: Step, missing: list[str], environments: list[str]) -> Step:
        """Return the step of a stage that waits: its own changes are known, its inputs or environments are not."""
        foreign = UPSTREAM | OF_PACKAGES if environments else UPSTREAM
        own = [change for change in list_step_changes(step) if change.code not in foreign]
        waits = build_reason(ReasonCode.WAITS, stages=missing or None, environments=environments or None)
        if not step.previous:
            return replace(step, action="run", reasons=(build_reason(ReasonCode.NEVER_RUN), waits))
        return replace(step, action="run" if own else "maybe", reasons=(*own, waits))

    def _look_up(self, step: Step, machines: tuple[Facts, ...]) -> Step:
        if step.stage.id in self.force:
            return replace(step, reasons=(build_reason(ReasonCode.FORCED),))
        if self.fresh and self.resolve_context(step.stage).spec.stage_class == "measurement":
            return replace(step, reasons=(build_reason(ReasonCode.MEASURED_AGAIN),))
        return self.results.look_up(step, machines)

    def list_changes(self, stage: Stage, action: Action, machine: str | None = None) -> list[Reason]:
        """Return what differs now from what a stage saw when it ran; empty when its result is still valid.

        `machine` must agree; when it is None, one of those that can run the stage must.
        """
        machines = chain.from_iterable(self._list_classes(stage)) if machine is None else [self.find_facts(machine)]
        _, differences = self.results.find_agreement(stage, action, machines)
        return differences

    def find_facts(self, machine: str) -> Facts:
        """Return the facts of a machine; those of this one for an empty id."""
        return self.assignment.find_facts(machine) if self.assignment else self._local[0][0]

    @cached_property
    def _removed(self) -> tuple[str, ...]:
        """Accepted stages that the pipeline no longer has."""
        present = {stage.id for stage in self.pipeline.stages}
        return tuple(sorted(self.baseline.stages.keys() - present)) if self.baseline else ()

    @cached_property
    def _abandoned(self) -> str:
        """Baseline beside the pipeline file that may be this pipeline's, from before the file was renamed."""
        return "" if self.baseline else find_abandoned_baseline(self.pipeline.file)

    def judge(self, stage: Stage, action: Action) -> tuple[Verdict, ...]:
        """Return the verdicts of a stage's gates from its stored measurements."""
        if not stage.gates:
            return ()
        context, host = self.resolve_context(stage), action.host  # of several machines, that which measured
        if not self.assignment:
            packages = venvs.read_packages(stage.choose_environment(stage.target))
            host = device.fingerprint_origin(context.spec.stage_class, stage.target, packages)
        store = self.store.root
        terms = Terms(
            context.accepted,
            host,
            list_key_changes,
            context.spec.baseline,
            context.ports,
            self._removed,
            self._abandoned,
            str(self.pipeline.file),
            self.pipeline.overrides,
            str(store.absolute()) if store_option(store, self.pipeline.root) else "",
        )
        caveats = list_caveats(self.pipeline, stage)
        return tuple(replace(verdict, caveats=(*verdict.caveats, *caveats)) for verdict in judge(stage, action, terms))


def _skip(step: Step, facts: Facts) -> Step | None:
    """Return the step of a stage that may be skipped because a provider is missing; None when it is not."""
    why = facts.explain_skip(step.stage)
    return replace(step, action="skipped", reasons=(why,)) if why else None


def _must_run(step: Step, steps: Mapping[str, Step]) -> bool:
    """Return whether a stage has to run; one behind stages that run first may turn out to be up to date."""
    waits = any(steps[name].action in DUE for name in step.stage.before)
    return step.action == "run" or (step.action == "maybe" and not waits)
