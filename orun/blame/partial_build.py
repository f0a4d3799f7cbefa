"""Pipeline of the good run with some of the changes that lead to the bad one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orun import api
from orun.blame.changes import Change, upstream
from orun.blame.delta_debugging import Outcome
from orun.blame.env_changes import Variables
from orun.blame.run_snapshot import Layout, Side
from orun.blame.versions import Versions
from orun.core.run_record import RunResult
from orun.core.serialization import replace
from orun.errors import Interrupted, PipelineError
from orun.eventlog.writer import Listener, ignore
from orun.fs.observed_state import seen_at
from orun.gates.baselines import path_for
from orun.pipeline.graph import ordered
from orun.pipeline.model import Gate, Pipeline, Stage
from orun.store import Store


@dataclass(frozen=True)
class Symptom:
    """What is bad about the bad run.

    Attributes:
        stage: where it shows.
        gate: the gate that fails; None when the stage itself does.
        values: the gate's metric in the good and the bad run, where it passes or fails in both: the nearer one counts.
    """

    stage: str
    gate: Gate | None
    values: tuple[float, float] | None = None


@dataclass
class Mixer:
    """Builds mixtures and says what they are.

    Attributes:
        good, bad: the runs.
        symptom: what to look for.
        store: where results go; those of both runs are taken from there.
        variables: that differ and can be mixed.
        listener: hears what is run.
        versions: the packages of both runs, where these are mixed too; else they are as they are here.
        tried: what each set of changes was found to be.
    """

    good: Side
    bad: Side
    symptom: Symptom
    store: Store
    variables: Variables
    listener: Listener = ignore
    versions: Versions | None = None
    tried: dict[frozenset[Change], Outcome] = field(default_factory=dict)

    def test(self, chosen: Sequence[Change]) -> Outcome:
        """Whether the good run with these changes is good or bad, by building it as far as the symptom's stage."""
        key = frozenset(chosen)
        if key not in self.tried:
            self.tried[key] = self._test(key)
        return self.tried[key]

    def _test(self, chosen: Collection[Change]) -> Outcome:
        stage = self.symptom.stage
        # Outside of the store: what is read in there counts as nobody's.
        scratch = Path(tempfile.mkdtemp(prefix="orun-bisect-"))
        try:
            pipeline = self._pipeline(chosen, self._root(chosen, scratch))
            if pipeline is None or stage not in {one.id for one in pipeline.stages}:
                return "unresolved"
            root = self.store.root
            with self.variables.within(chosen):
                result = api.run(pipeline, to=[stage], keep_going=True, store=root, on_event=self.listener)
            if result.exit_code == Interrupted.exit_code:
                raise Interrupted("interrupted")
        except PipelineError:  # it lacks a file or a package: these changes do not go together
            return "unresolved"
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return self._outcome(result)

    def _outcome(self, result: RunResult) -> Outcome:
        found = result[self.symptom.stage]
        gate = self.symptom.gate
        if gate is None:
            return {"failed": "bad", "built": "good", "cached": "good"}.get(found.outcome, "unresolved")  # type: ignore[return-value] # mypy widens the values to str
        sliced = not gate.by or any(name.startswith(f"{gate.metric}[{gate.by}=") for name in found.metrics)
        if not found.tree or gate.metric not in found.metrics or not sliced:
            return "unresolved"  # a gate on what was not measured fails, and says nothing of these changes
        if self.symptom.values:
            value = found.metrics[gate.metric].value
            good, bad = (abs(value - one) for one in self.symptom.values)
            return "good" if good < bad else "bad"
        verdict = next(one for one in result.verdicts if one.stage == found.stage)
        return {"passed": "good", "failed": "bad"}.get(verdict.outcome, "unresolved")  # type: ignore[return-value]

    def _root(self, chosen: Collection[Change], scratch: Path) -> Path:
        """The project with the files of the good run, or of the bad one where that is chosen."""
        names = {one.name for one in chosen if one.sort == "file"}
        sides = {name: self.good for name in self.good.files if name not in names}
        sides |= {name: self.bad for name in self.bad.files if name in names or name not in self.good.files}
        files = {name: (side.record, side.files[name]) for name, side in sides.items()}
        root = Layout(self.store, scratch).write(files)
        accepted = path_for(replace(self.bad.pipeline, file=Path(self.bad.record.file)))
        if seen_at(accepted):
            shutil.copy2(accepted, root)
        return root

    def _pipeline(self, chosen: Collection[Change], root: Path) -> Pipeline | None:
        good, bad = ({one.id: one for one in side.pipeline.stages} for side in (self.good, self.bad))
        switched = {one.name for one in chosen if one.sort == "stage"}
        stages: dict[str, Stage] = {}
        for name in dict.fromkeys((*good, *bad)):
            source = bad if name in switched else good
            if name in source:
                stages[name] = self._mixed(source[name], bad.get(name), chosen)
        wanted = upstream(replace(self.good.pipeline, stages=tuple(stages.values())), self.symptom.stage)
        stages = {name: stage for name, stage in stages.items() if name in wanted}
        edges = [(before, stage.id) for stage in stages.values() for before in stage.upstream]
        if any(before not in stages for before, _ in edges):
            return None
        order, cycles = ordered(tuple(stages), edges)
        if cycles:
            return None
        seed = self.bad if any(one.sort == "seed" for one in chosen) else self.good
        return replace(
            self.good.pipeline,
            name=f"{self.good.pipeline.name}.bisect",
            file=root / self.good.pipeline.file.name,
            stages=tuple(stages[name] for name in order),
            seed=seed.pipeline.seed,
            kinds={**self.good.pipeline.kinds, **self.bad.pipeline.kinds},
        )

    def _mixed(self, stage: Stage, other: Stage | None, chosen: Collection[Change]) -> Stage:
        """A stage with the chosen parameters and target of the other, and the symptom's gate alone."""
        mine = {one for one in chosen if one.name == stage.id}
        names = {one.parameter for one in mine if one.sort == "parameter"}
        params = dict(stage.params)
        references = [one for one in stage.references if _top(one.parameter) not in names]
        if other is not None and names:
            params |= {name: other.params[name] for name in names if name in other.params}
            references += [one for one in other.references if _top(one.parameter) in names]
        switched = {one.sort: other for one in mine if other is not None}
        targets, environment = (switched.get(sort, stage) for sort in ("target", "environment"))
        gates = (self.symptom.gate,) if self.symptom.gate and stage.id == self.symptom.stage else ()
        mixed = replace(
            stage,
            params=params,
            references=tuple(references),
            target=targets.target,
            extra_targets=targets.extra_targets,
            environment=environment.environment,
            gates=gates,
            guards=(),
        )
        return self.versions.applied(mixed, chosen) if self.versions else mixed


def _top(parameter: str) -> str:
    return parameter.partition(".")[0].partition("[")[0]
