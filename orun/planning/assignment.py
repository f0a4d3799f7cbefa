"""Assignment of stages to the machines of a fleet: which of them can run a stage, and their facts about it."""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Iterable, Mapping

from orun.core.key_component import Components
from orun.core.machines import Machine, MachineFacts
from orun.core.reason import Reason
from orun.core.serialization import Record, replace
from orun.pipeline.model import Pipeline, Stage
from orun.planning.facts import Classes, Facts, LocalFacts
from orun.planning.implicit_deps import observe_state
from orun.store import ImplicitDependencies, StatCache
from orun.text.suggestions import find_closest

SAME_STORE = (
    "the agent of machine {machine} uses the store of this run: each would wait for the other's stages "
    "(hint: start it with a store of its own: orun agent --store DIR ...)"
)


class AgentFacts(Record, frozen=True):
    """Facts of another machine; see `orun.planning.facts.Facts`."""

    pipeline: Pipeline
    record: MachineFacts

    @property
    def machine(self) -> str:
        """Its id."""
        return self.record.machine

    def list_components(self, stage: Stage) -> Components:
        """See `Facts`."""
        return self.record.find_facts(stage.id).components

    def explain_skip(self, stage: Stage) -> Reason | None:
        """See `Facts`."""
        return self.record.find_facts(stage.id).skipped

    def list_unknown_environments(self, stage: Stage) -> list[str]:
        """See `Facts`: agents make no isolated environments."""
        del stage
        return []

    def read_variable(self, name: str) -> str:
        """See `Facts`."""
        return self.record.variables.get(name) or self.pipeline.private.compute_state(name, None)

    def observe_state(self, stage: Stage, dependencies: ImplicitDependencies, files: StatCache) -> ImplicitDependencies:
        """See `Facts`. Absolute paths, which are of that machine, keep the state that its agent saw."""
        del stage
        pipeline, record = self.pipeline, self.record
        saw = (dependencies.files, dependencies.folders, dependencies.probed)
        relative, absolute = ([_select_paths(states, absolute=of) for states in saw] for of in (False, True))
        now = observe_state(
            replace(dependencies, files=relative[0], folders=relative[1], probed=relative[2]),
            pipeline.root,
            files,
            pipeline.private,
            record.packages,
            record.variables,
        )
        return replace(
            now,
            files={**now.files, **absolute[0]},
            folders={**now.folders, **absolute[1]},
            probed={**now.probed, **absolute[2]},
        )


def _select_paths(states: Mapping[str, str], *, absolute: bool) -> dict[str, str]:
    return {path: state for path, state in states.items() if path.startswith("/") == absolute}


class Candidates(Record, frozen=True):
    """Machines that can run a stage.

    Attributes:
        classes: their facts.
        machines: their ids.
        problem: why there is none, as a clause; empty if there is one.
        skipped: why the stage is skipped on all of them; None if it is not.
    """

    classes: Classes = ()
    machines: tuple[str, ...] = ()
    problem: str = ""
    skipped: Reason | None = None


class Assignment:
    """Machines of a fleet, and what they know of a pipeline.

    Attributes:
        machines: by their ids.
        left_out: why machines that were found take no part, a sentence each.
    """

    def __init__(self, pipeline: Pipeline, store: str = "") -> None:
        self.machines: dict[str, Machine] = {}
        self.left_out: tuple[str, ...] = ()
        self._pipeline = pipeline
        self._store = store
        self._local = LocalFacts(pipeline)
        self._barred: set[str] = set()
        self._facts: dict[str, AgentFacts] = {}  # of machines that are gone, too: their results are still accepted
        self._candidates: dict[str, Candidates] = {}
        self._alike: dict[object, Candidates] = {}  # by what stages of the same candidates have in common

    def update(self, machines: Iterable[Machine], facts: Iterable[MachineFacts]) -> None:
        """Take note of the machines that are there, and of what they know; leave out those without the project."""
        by_machine: dict[str, AgentFacts] = {}
        for item in facts:
            if item.problem:
                self.leave_out(f"machine {item.machine} takes no part: {item.problem}")
            else:
                by_machine[item.machine] = AgentFacts(self._pipeline, item)
        self.machines = {
            machine.id: machine for machine in machines if machine.id in by_machine and self._admits(machine)
        }
        self._facts |= by_machine
        self._forget_candidates()

    def add(self, machine: Machine, facts: MachineFacts) -> None:
        """Take note of a machine that has joined."""
        if self._admits(machine):
            self.machines[machine.id] = machine
        self._facts[machine.id] = AgentFacts(self._pipeline, facts)
        self._forget_candidates()

    def _admits(self, machine: Machine) -> bool:
        """Return whether a machine may take part. With the run's store, it and the run would wait for each other."""
        if self._store and machine.store == self._store:
            self.leave_out(SAME_STORE.format(machine=machine.id))
            return False
        return machine.id not in self._barred

    def remove(self, machine: str) -> None:
        """Take note that a machine is gone."""
        self.machines.pop(machine, None)
        self._forget_candidates()

    def leave_out(self, why: str) -> None:
        """Take note of why a machine takes no part, once."""
        if why not in self.left_out:
            self.left_out += (why,)

    def bar(self, machine: str) -> None:
        """Leave out a machine from now on, even if it joins again."""
        self._barred.add(machine)
        self.remove(machine)

    def _forget_candidates(self) -> None:
        self._candidates.clear()
        self._alike.clear()

    def list_facts(self) -> tuple[MachineFacts, ...]:
        """Return what the machines that are there have told."""
        return tuple(self._facts[name].record for name in self.machines)

    def find_facts(self, machine: str) -> Facts:
        """Return the last facts of a machine, which may be gone; those of this machine for an empty id."""
        return self._facts[machine] if machine else self._local

    def find_candidates(self, stage: Stage, *, writes: bool = False) -> Candidates:
        """Return the machines that can run a stage.

        `writes` says whether its last result has undeclared writes, which stay on the machine that makes them.
        """
        if stage.id not in self._candidates:
            why = self.explain_here(stage, writes=writes)
            self._candidates[stage.id] = self._stay_here(stage, why) if why else self._find_in_fleet(stage)
        return self._candidates[stage.id]

    def _find_in_fleet(self, stage: Stage) -> Candidates:
        """Return the machines of the fleet that can run a stage: once for all with equal labels and facts."""
        facts = tuple(self._facts[name].record.stages.get(stage.id) for name in self.machines)
        alike = tuple(sorted(stage.runs_on.items())), facts
        if alike not in self._alike:
            self._alike[alike] = self._find(stage)
        return self._alike[alike]

    def explain_here(self, stage: Stage, *, writes: bool = False) -> str:
        """Return why a stage runs on this machine only, as a clause; empty if other machines can run it."""
        spec = self._pipeline.kinds[stage.uses].spec
        if stage.environments:
            return "its isolated environment is made on this machine"
        if spec.provenance or spec.releases:
            return "it releases, and its inputs and credentials are on this machine"
        return "it writes files of the project beside its output" if writes else ""

    def _stay_here(self, stage: Stage, why: str) -> Candidates:
        if missing := format_missing_labels(stage):
            return Candidates(problem=f"it runs on this machine, which has no {missing}: {why}")
        return Candidates(((self._local,),), ("",))

    def _find(self, stage: Stage) -> Candidates:
        labelled = [name for name, machine in self.machines.items() if stage.runs_on.items() <= machine.labels.items()]
        if not labelled:
            there = self._describe_machines(stage.runs_on)
            return Candidates(
                problem=f"no machine has {_format_labels(stage.runs_on)} ({there})" if stage.runs_on else there
            )
        facts = {name: self._facts[name].record.find_facts(stage.id) for name in labelled}
        able = [name for name in labelled if not facts[name].missing]
        if not able:
            skipped = next((item.skipped for item in facts.values() if item.skipped), None)
            reasons = "; ".join(f"{name}: {', '.join(item.missing)}" for name, item in facts.items())
            classes = ((self._facts[labelled[0]],),) if skipped else ()
            return Candidates(classes, (), f"no machine can run it: {reasons}", skipped)
        equal: dict[Components, list[Facts]] = {}
        for name in able:
            equal.setdefault(facts[name].components, []).append(self._facts[name])
        return Candidates(tuple(map(tuple, equal.values())), tuple(able))

    def _describe_machines(self, labels: Mapping[str, str]) -> str:
        """Return which machines are there, by the labels that were asked for: `3 are here: A10, no accelerator x2`.

        A label that none of them has may be misspelt.
        """
        if not self.machines:
            return "no machine is here"
        machines = self.machines.values()
        texts = (", ".join(machine.labels.get(name, f"no {name}") for name in labels) for machine in machines)
        counts = Counter(texts).items()
        shown = ", ".join(f"{text} x{count}" if count > 1 else text for text, count in counts)
        number = len(self.machines)
        present = dict.fromkeys(name for machine in self.machines.values() for name in machine.labels)
        meant = next(filter(None, (find_closest(name, present) for name in labels if name not in present)), "")
        suggestion = f"; did you mean {meant!r}?" if meant else ""
        return f"{number} {'is' if number == 1 else 'are'} here: {shown}{suggestion}"


def format_missing_labels(stage: Stage) -> str:
    """Return the labels of a stage that this machine does not have of itself; empty if it has all."""
    labels = {"architecture": platform.machine(), "system": sys.platform}
    return _format_labels({name: text for name, text in stage.runs_on.items() if labels.get(name) != text})


def _format_labels(labels: Mapping[str, str]) -> str:
    return " and ".join(f"{name}={text}" for name, text in labels.items())
