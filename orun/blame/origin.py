"""Earlier model: the first model of a chain as it was in the last good run, and what has changed since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from orun.blame.experiment import Experiment
from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components
from orun.core.reason import Reason
from orun.core.run_record import RunResult, StageResult
from orun.eventlog import read_repeated, read_result
from orun.gates import baselines
from orun.pipeline.graph import find_reachable
from orun.pipeline.model import Gate, Pipeline, Reference, Stage
from orun.planning.key_diff import list_key_changes
from orun.runner.output_checkouts import is_another
from orun.stages.contract import MODEL
from orun.store import Store

SEARCHED = 100  # newest runs to search for one in which the gate passed
BEFORE = "before"  # suffix of the ids of stages that are built from the earlier model


@dataclass(frozen=True)
class EarlierModel:
    """The first model of a chain as it was in the last good run."""

    run: str  # its id
    stage: str  # builds the model
    tree: str  # digest of the model
    last: str  # digest of the last model of the chain in that run
    changes: tuple[Reason, ...]  # since then, in what the model depends on
    here: bool  # whether the model is in the store

    @property
    def name(self) -> str:
        """Id of the stage that imports it."""
        return f"{self.stage} {BEFORE}"


def find_earlier_model(
    store: Store, pipeline: Pipeline, result: RunResult, gate: tuple[Stage, Gate], chain: Sequence[Stage]
) -> EarlierModel | None:
    """Return the first model of a chain in the last good run; None if there is no such run, or it has not changed.

    The good run of `max_regression` is the accepted one, of every other rule the last in which the gate passed.
    """
    good = _find_good(store, pipeline, result, gate)
    if good is None:
        return None
    now = read_repeated(result)
    first, last = (_find_result(good, stage.id) for stage in (chain[0], chain[-1]))
    current = _find_result(now, chain[0].id)
    if first is None or last is None or current is None or not first.tree or first.tree == current.tree:
        return None
    changes = tuple(_iter_changes(pipeline, chain[0], good, now))
    return EarlierModel(good.run, chain[0].id, first.tree, last.tree, changes, here=not store.check(first.tree))


def find_measurement_changes(
    store: Store, pipeline: Pipeline, result: RunResult, gate: tuple[Stage, Gate]
) -> tuple[str, tuple[Reason, ...]] | None:
    """Return the last good run, and what changed since in what the measurement itself depends on; None for nothing.

    Its inputs are left out: they are looked into by themselves.
    """
    stage, good = gate[0], _find_good(store, pipeline, result, gate)
    then = _find_result(good, stage.id) if good else None
    since = _find_result(read_repeated(result), stage.id)
    if good is None or then is None or since is None or not (then.inputs and since.inputs):
        return None
    changes = tuple(list_key_changes(stage, _select_own(then.inputs), _select_own(since.inputs)))
    return (good.run, changes) if changes else None


@contextmanager
def import_model(experiment: Experiment, store: Store, like: Stage, tree: str, name: str) -> Iterator[str]:
    """Add a stage that imports a stored model, and yield its id; within the context a stage can read the model."""
    folder = store.make_session_folder("model")
    try:
        store.materialize(tree, folder / "model")
        path = str(folder / "model" / MODEL)
        stage = experiment.make(name, "convert/onnx", like, {}, {"path": path})
        experiment.add(stage, references=(Reference("path", path),))
        yield name
    finally:
        store.discard(folder / "model")
        store.discard(folder)


def rebuild_chain(experiment: Experiment, earlier: EarlierModel, stage: Stage) -> dict[str, str]:
    """Add copies of the stages between the first model and `stage`, built from the earlier model.

    Returns:
        The copies' ids by the ids of the originals, and the imported model's by that of the first stage.
    """
    copies = {earlier.stage: earlier.name}
    upstream = experiment.list_stages_up_to(stage.upstream)
    for original in experiment.pipeline.stages:
        if original.id in upstream and original.id not in copies and copies.keys() & set(original.upstream):
            needs = {port: copies.get(source, source) for port, source in original.needs.items()}
            copies[original.id] = experiment.add(original, id=f"{original.id} {BEFORE}", needs=needs, after=()).id
    return copies


def _find_good(store: Store, pipeline: Pipeline, result: RunResult, gate: tuple[Stage, Gate]) -> RunResult | None:
    """Return the last good run of a gate: of `max_regression` the accepted one, else the last in which it passed."""
    stage, condition = gate
    if condition.rule == "max_regression":
        return _find_accepted(store, pipeline, stage)
    return _find_passed(store, result, stage, condition)


def _find_accepted(store: Store, pipeline: Pipeline, stage: Stage) -> RunResult | None:
    baseline = baselines.read(pipeline)
    accepted = baseline.stages.get(stage.id) if baseline else None
    folder = next(store.iter_ended_runs(accepted.run.__eq__), None) if accepted else None
    return read_repeated(read_result(folder)) if folder else None


def _find_passed(store: Store, result: RunResult, stage: Stage, gate: Gate) -> RunResult | None:
    condition = (stage.id, gate.metric, gate.rule, gate.scope)
    for folder in islice(store.iter_ended_runs(result.run.__ne__), SEARCHED):
        earlier = read_result(folder)
        outcomes = {(v.stage, v.metric, v.rule, v.scope): v.outcome for v in earlier.verdicts}
        same_pipeline = earlier.pipeline == result.pipeline and not is_another(Path(earlier.file), Path(result.file))
        if same_pipeline and outcomes.get(condition) == "passed":
            return read_repeated(earlier)
    return None


def _find_result(result: RunResult, name: str) -> StageResult | None:
    return next((stage for stage in result.stages if stage.stage == name), None)


def _iter_changes(pipeline: Pipeline, first: Stage, good: RunResult, now: RunResult) -> Iterator[Reason]:
    """Yield the changes in what the first model and the stages before it depend on."""
    names = find_reachable([first.id], {stage.id: stage.upstream for stage in pipeline.stages})
    for stage in reversed([stage for stage in pipeline.stages if stage.id in names]):
        then, since = _find_result(good, stage.id), _find_result(now, stage.id)
        if then and since and then.inputs and since.inputs:
            yield from list_key_changes(stage, _select_own(then.inputs), _select_own(since.inputs))


def _select_own(inputs: Components) -> Components:
    """Return the components without the artifacts of other stages, which are compared themselves."""
    return tuple(item for item in inputs if item.kind != ComponentKind.INPUT)
