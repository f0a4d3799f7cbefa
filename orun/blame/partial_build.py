"""Partial build: the good run's pipeline with some of the changes of the bad run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orun import api
from orun.blame.changes import Change, list_stages_up_to
from orun.blame.delta_debugging import Outcome
from orun.blame.env_changes import Variables
from orun.blame.run_snapshot import RunSnapshot, write_project
from orun.blame.versions import Versions
from orun.core.run_record import RunResult
from orun.core.serialization import replace
from orun.environment.distributions import holds_packages
from orun.environment.env_vars import set_variable
from orun.environment.python_path import VARIABLE, list_folders
from orun.errors import PipelineError
from orun.eventlog import Listener, ignore
from orun.fs.observed_state import find_project, stat_presence, to_portable_name
from orun.gates.baseline_file import locate_baseline
from orun.pipeline.graph import sort_topologically
from orun.pipeline.model import Gate, Pipeline, Stage
from orun.store import Store


@dataclass(frozen=True)
class Symptom:
    """Symptom of the bad run."""

    stage: str
    gate: Gate | None  # that fails; None if the stage itself fails
    values: tuple[float, float] | None = None  # good and bad, if both have the same verdict: the nearer counts
    earlier: Gate | None = None  # the gate as it was in the good run, if it is there

    @property
    def changes(self) -> tuple[Change, ...]:
        """The change of the gate's threshold; none if the metric's value counts."""
        if self.gate is None or self.earlier is None or self.values:
            return ()
        old, new = self.earlier.threshold.text, self.gate.threshold.text
        parameter = f"{self.gate.metric} {self.gate.rule}{self.gate.scope}"
        return (Change("threshold", self.stage, parameter, old, new),) if old != new else ()

    def choose_gate(self, chosen: Collection[Change]) -> Gate | None:
        """Return the gate with the threshold of the bad run if its change is chosen, else of the good run."""
        return self.gate if set(self.changes) <= set(chosen) else self.earlier


@dataclass
class PartialBuilder:
    """Builder of partial builds."""

    good: RunSnapshot
    bad: RunSnapshot
    symptom: Symptom
    store: Store
    variables: Variables
    listener: Listener = ignore
    versions: Versions | None = None  # to try the packages too
    outcomes: dict[frozenset[Change], Outcome] = field(default_factory=dict)  # of each set of changes so far

    def test(self, chosen: Sequence[Change]) -> Outcome:
        """Build the good run with these changes up to the symptom's stage; return the outcome."""
        key = frozenset(chosen)
        if key not in self.outcomes:
            self.outcomes[key] = self._build(key)
        return self.outcomes[key]

    def _build(self, chosen: Collection[Change]) -> Outcome:
        stage = self.symptom.stage
        # Outside of the store: files below the store are no implicit dependencies.
        folder = Path(tempfile.mkdtemp(prefix="orun-bisect-"))
        try:
            with self.variables.apply_to(chosen):
                module_folders = _map_module_folders(Path(self.bad.record.file).parent)
                root = self._write_project(chosen, folder, module_folders.values())
                pipeline = self._build_pipeline(chosen, root)
                if pipeline is None or stage not in {candidate.id for candidate in pipeline.stages}:
                    return "unresolved"
                with set_variable(VARIABLE, _build_python_path(module_folders, root)):
                    result = api.run(
                        pipeline, to=[stage], keep_going=True, store=self.store.root, on_event=self.listener
                    )
        except PipelineError:  # a file or package is missing: these changes do not go together
            return "unresolved"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return self._judge(result)

    def _judge(self, result: RunResult) -> Outcome:
        stage = result[self.symptom.stage]
        gate = self.symptom.gate
        if gate is None:
            return {"failed": "bad", "built": "good", "cached": "good"}.get(stage.outcome, "unresolved")  # type: ignore[return-value] # mypy widens the values to str
        sliced = not gate.by or any(name.startswith(f"{gate.metric}[{gate.by}=") for name in stage.metrics)
        if not stage.tree or gate.metric not in stage.metrics or not sliced:
            return "unresolved"  # a gate without its metric fails whatever the changes
        if self.symptom.values:
            value = stage.metrics[gate.metric].value
            good, bad = (abs(value - known) for known in self.symptom.values)
            return "good" if good < bad else "bad"
        verdict = next(verdict for verdict in result.verdicts if verdict.stage == stage.stage)
        return {"passed": "good", "failed": "bad"}.get(verdict.outcome, "unresolved")  # type: ignore[return-value]

    def _write_project(self, chosen: Collection[Change], folder: Path, module_folders: Collection[str]) -> Path:
        """Write the project with the good run's files, and the bad run's for the chosen changes."""
        names = {change.name for change in chosen if change.sort == "file"}
        runs = {name: self.good for name in self.good.files if name not in names}
        runs |= {name: self.bad for name in self.bad.files if name in names or name not in self.good.files}
        files = {name: (run.record, run.files[name]) for name, run in runs.items()}
        root = write_project(self.store, folder, files, module_folders)
        accepted = locate_baseline(Path(self.bad.record.file))
        if stat_presence(accepted):
            shutil.copy2(accepted, root)
        return root

    def _build_pipeline(self, chosen: Collection[Change], root: Path) -> Pipeline | None:
        good, bad = ({stage.id: stage for stage in run.pipeline.stages} for run in (self.good, self.bad))
        switched = {change.name for change in chosen if change.sort == "stage"}
        stages: dict[str, Stage] = {}
        for name in dict.fromkeys((*good, *bad)):
            source = bad if name in switched else good
            if name in source:
                stages[name] = self._mix_stage(source[name], bad.get(name), chosen)
        wanted = list_stages_up_to(replace(self.good.pipeline, stages=tuple(stages.values())), self.symptom.stage)
        stages = {name: stage for name, stage in stages.items() if name in wanted}
        edges = [(before, stage.id) for stage in stages.values() for before in stage.upstream]
        if any(before not in stages for before, _ in edges):
            return None
        order, cycles = sort_topologically(tuple(stages), edges)
        if cycles:
            return None
        seed = self.bad if any(change.sort == "seed" for change in chosen) else self.good
        return replace(
            self.good.pipeline,
            name=f"{self.good.pipeline.name}.bisect",
            file=root / self.good.pipeline.file.name,
            stages=tuple(stages[name] for name in order),
            seed=seed.pipeline.seed,
            kinds={**self.good.pipeline.kinds, **self.bad.pipeline.kinds},
        )

    def _mix_stage(self, stage: Stage, other: Stage | None, chosen: Collection[Change]) -> Stage:
        """Return a stage with the chosen parts of the other, and no gate but the symptom's."""
        own = {change for change in chosen if change.name == stage.id}
        names = {change.parameter for change in own if change.sort == "parameter"}
        params = dict(stage.params)
        references = [item for item in stage.references if _strip_path(item.parameter) not in names]
        if other is not None and names:
            params |= {name: other.params[name] for name in names if name in other.params}
            references += [item for item in other.references if _strip_path(item.parameter) in names]
        switched = {change.sort: other for change in own if other is not None}
        targets, environment = (switched.get(sort, stage) for sort in ("target", "environment"))
        gate = self.symptom.choose_gate(chosen)
        gates = (gate,) if gate and stage.id == self.symptom.stage else ()
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
        return self.versions.apply(mixed, chosen) if self.versions else mixed


def _map_module_folders(root: Path) -> dict[str, str]:
    """Return the entries of PYTHONPATH with code of the project, each with its path from the pipeline's folder `root`.

    Folders with installed packages are not laid out, as in a virtual environment inside the project.
    """
    project = find_project(root)
    paths = {
        entry: to_portable_name(Path(folder), root, project)
        for entry in os.environ.get(VARIABLE, "").split(os.pathsep)
        for folder in list_folders(entry)
        if not holds_packages(folder)
    }
    return {entry: path for entry, path in paths.items() if not path.startswith("/")}


def _build_python_path(module_folders: Mapping[str, str], root: Path) -> str | None:
    """Return PYTHONPATH with those entries in the laid-out project instead of the user's; None if it is not set."""
    value = os.environ.get(VARIABLE)
    if value is None:
        return None
    return os.pathsep.join(
        str((root / module_folders[entry]).resolve()) if entry in module_folders else entry
        for entry in value.split(os.pathsep)
    )


def _strip_path(parameter: str) -> str:
    return parameter.partition(".")[0].partition("[")[0]
