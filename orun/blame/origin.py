"""The first model of a chain where it is another one than in the last run in which the gate was good: what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from orun.blame.experiment import Bench
from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components
from orun.core.reason import Reason
from orun.core.run_record import RunResult, StageResult
from orun.eventlog.reducer import read_result
from orun.gates import baselines
from orun.pipeline.model import Gate, Pipeline, Reference, Stage
from orun.planning.key_diff import key_changes
from orun.runner.output_checkouts import is_another
from orun.stages.contract import MODEL
from orun.store import Store
from orun.store.layout import RECORD_FILE

LOOKED = 100  # newest runs that are looked at for one in which the gate passed
BEFORE = "before"  # in the ids of stages that are built of the model of then


@dataclass(frozen=True)
class Past:
    """The first model of a chain as it was.

    Attributes:
        run: id of the run.
        stage: that made it, then and now.
        tree: digest of it.
        last: digest of the last model of the chain in that run.
        changes: what differs since in all that it depends on.
        here: whether it is in the store.
    """

    run: str
    stage: str
    tree: str
    last: str
    changes: tuple[Reason, ...]
    here: bool

    @property
    def name(self) -> str:
        """Id of the stage that brings it in."""
        return f"{self.stage} {BEFORE}"


def past(
    store: Store, pipeline: Pipeline, result: RunResult, gate: tuple[Stage, Gate], chain: Sequence[Stage]
) -> Past | None:
    """The first model of a chain in the last good run; None where there is none, or it is the same.

    The good run of `max_regression` is the accepted one, of every other rule the last in which the gate passed.

    Args:
        store: where runs are.
        pipeline: the pipeline.
        result: the run in which the gate is bad.
        gate: with its stage.
        chain: the stages whose models led to it, the first made first.
    """
    good = _accepted(store, pipeline, gate[0]) if gate[1].rule == "max_regression" else _passed(store, result, *gate)
    if good is None:
        return None
    now = _whole(store, result)
    first, last = (_stage(good, one.id) for one in (chain[0], chain[-1]))
    current = _stage(now, chain[0].id)
    if first is None or last is None or current is None or not first.tree or first.tree == current.tree:
        return None
    changes = tuple(_changes(pipeline, chain[0], good, now))
    return Past(good.run, chain[0].id, first.tree, last.tree, changes, here=not store.check(first.tree))


@contextmanager
def brought(bench: Bench, store: Store, like: Stage, tree: str, name: str) -> Iterator[str]:
    """A stage that brings a stored model in, by its id; the model lies where a stage can read it meanwhile."""
    scratch = store.make_session_folder("model")
    try:
        store.materialize(tree, scratch / "model")
        path = str(scratch / "model" / MODEL)
        made = bench.make(name, "convert/onnx", like, {}, {"path": path})
        bench.add(made, references=(Reference("path", path),))
        yield name
    finally:
        store.discard(scratch / "model")
        store.discard(scratch)


def rebuilt(bench: Bench, past: Past, stage: Stage) -> dict[str, str]:
    """Put the stages between the first model and another stage on the bench once more, of the model of then.

    Returns:
        Their ids by those of the stages that they are like; with that of the first model itself.
    """
    made = {past.stage: past.name}
    waiting, wanted = list(stage.upstream), set[str]()
    while waiting:
        if (name := waiting.pop()) not in wanted:
            wanted.add(name)
            waiting += bench.stage(name).upstream
    for one in bench.pipeline.stages:
        if one.id in wanted and one.id not in made and made.keys() & set(one.upstream):
            needs = {port: made.get(source, source) for port, source in one.needs.items()}
            made[one.id] = bench.add(one, id=f"{one.id} {BEFORE}", needs=needs, after=()).id
    return made


def _accepted(store: Store, pipeline: Pipeline, stage: Stage) -> RunResult | None:
    baseline = baselines.read(pipeline)
    accepted = baseline.stages.get(stage.id) if baseline else None
    found = _recorded(store, accepted.run) if accepted else None
    return _whole(store, found) if found else None


def _passed(store: Store, result: RunResult, stage: Stage, gate: Gate) -> RunResult | None:
    asked = (stage.id, gate.metric, gate.rule, gate.scope)
    for folder in islice(store.ended_runs(result.run.__ne__), LOOKED):
        found = read_result(folder / RECORD_FILE)
        verdicts = {(one.stage, one.metric, one.rule, one.scope): one.outcome for one in found.verdicts}
        of_it = found.pipeline == result.pipeline and not is_another(Path(found.file), Path(result.file))
        if of_it and verdicts.get(asked) == "passed":
            return _whole(store, found)
    return None


def _whole(store: Store, result: RunResult) -> RunResult:
    """The run that looked at each stage, where one found its results unchanged at a glance."""
    return (_recorded(store, result.repeats) if result.repeats else None) or result


def _recorded(store: Store, run: str) -> RunResult | None:
    """The record of a run by its id; None when it is gone, or has none."""
    folder = next(store.ended_runs(run.__eq__), None)
    return read_result(folder / RECORD_FILE) if folder else None


def _stage(result: RunResult, name: str) -> StageResult | None:
    return next((one for one in result.stages if one.stage == name), None)


def _changes(pipeline: Pipeline, first: Stage, good: RunResult, now: RunResult) -> Iterator[Reason]:
    """What differs in what the first model rests on, and in what led to it."""
    waiting, seen = [first.id], set[str]()
    while waiting:
        if (name := waiting.pop()) in seen:
            continue
        seen.add(name)
        stage = pipeline.stage(name)
        waiting += stage.upstream
        then, since = _stage(good, name), _stage(now, name)
        if then and since and then.inputs and since.inputs:
            yield from key_changes(stage, _own(then.inputs), _own(since.inputs))


def _own(inputs: Components) -> Components:
    """Return the components without the artifacts of other stages, which are compared themselves."""
    return tuple(item for item in inputs if item.kind != ComponentKind.INPUT)
