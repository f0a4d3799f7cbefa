"""From a gate to the reason why it fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from orun import api
from orun.blame import accuracy, latency, messages
from orun.blame.chain import upstream
from orun.blame.changes import giving
from orun.blame.diagnosis import Diagnosis
from orun.blame.experiment import Bench
from orun.blame.origin import brought, past
from orun.blame.upstream_metrics import judged
from orun.core.metrics import Metric
from orun.core.run_record import RunResult, Verdict
from orun.errors import UsageError
from orun.eventlog.writer import Listener, ignore
from orun.fs.os_errors import quoted
from orun.gates import baselines
from orun.gates.regression import BASELINE
from orun.pipeline.model import Gate, Pipeline, Stage, conditions
from orun.store import Store
from orun.text.suggestions import near


@dataclass(frozen=True)
class Question:
    """A gate to look into.

    Attributes:
        pipeline: the pipeline, up to date as far as the stage.
        stage: the stage with the gate.
        gate: the gate.
        metric: what it judged.
        result: the run that it failed in.
    """

    pipeline: Pipeline
    stage: Stage
    gate: Gate
    metric: Metric
    result: RunResult


def questions(pipeline: Pipeline, result: RunResult, *, all_gates: bool = False) -> Iterator[Question]:
    """The gates of a run that failed, or all, where a stage measured a model that other stages made.

    One for each metric of a stage: what makes it miss one limit makes it miss the other.
    """
    seen: set[tuple[str, str]] = set()
    for verdict in result.verdicts:
        gate = _gate(pipeline, verdict)
        if gate is None or (verdict.outcome != "failed" and not all_gates) or (verdict.stage, gate.metric) in seen:
            continue
        seen.add((verdict.stage, gate.metric))
        stage, metric = pipeline.stage(verdict.stage), result[verdict.stage].metrics.get(gate.metric)
        if metric and pipeline.kinds[stage.uses].spec.output == "metrics" and upstream(pipeline, stage):
            yield Question(pipeline, stage, gate, metric, result)


def needed(pipeline: Pipeline, stage: str | None = None) -> list[str]:
    """The stages to bring up to date before gates are looked into: all, or one, but for those that give a release away.

    Raises:
        UsageError: when the stage is such a one or comes after it.
    """
    if stage is None:
        return [one.id for one in pipeline.stages if not giving(pipeline, one.id)]
    if given := giving(pipeline, stage):
        raise UsageError(messages.given(stage, given[0]), hint=f"orun {quoted(near(str(pipeline.file)))}")
    return [stage]


def _gate(pipeline: Pipeline, verdict: Verdict) -> Gate | None:
    """Against several references one place in the file holds a gate each."""
    gates = conditions(pipeline.stage(verdict.stage).gates)
    return next((one for one in gates if (one.position, one.scope) == (verdict.position, verdict.scope)), None)


def blame(question: Question, seconds: float, store: Path | None = None, listener: Listener = ignore) -> Diagnosis:
    """Find out why a gate fails: which stage, which nodes, and what a variant without them does.

    Everything that is measured or built for it is a stage of a pipeline `<name>.blame`, run in a process of its own
    and kept in the store: asking again costs nothing.

    Args:
        question: the gate.
        seconds: after which nothing more is begun, and what runs is stopped.
        store: the store's folder; see `orun.api.default_store`.
        listener: hears what is run.

    Raises:
        StoreError: when the store cannot be used.
    """
    began = monotonic()
    pipeline, stage, gate = question.pipeline, question.stage, question.gate
    root = store or api.default_store(pipeline.root)
    bench = Bench.open(pipeline, root, seconds, listener)
    chain = upstream(pipeline, stage)
    title = f"{stage.id} {gate.metric} {gate.rule} {gate.threshold.text}{gate.scope}"
    metric = judged(gate, question.result[stage.id].metrics)
    found = Diagnosis(title, stage.id, metric, question.metric.unit, "")
    with ExitStack() as stack:
        opened = stack.enter_context(Store.open(root))
        then = past(opened, pipeline, question.result, (stage, gate), chain)
        if then and then.here:
            stack.enter_context(brought(bench, opened, stage, then.tree, then.name))
        if question.metric.noise == "timing":
            other = stack.enter_context(_other(bench, question, opened))
            found = latency.Case(bench, stage, gate, chain, other, then).solve(found)
        else:
            found = accuracy.Case(bench, stage, gate, chain, then, metric).solve(found)
    sentence = found.sentence or "nothing was found before the time limit"
    return replace(found, sentence=sentence, seconds=monotonic() - began)


@contextmanager
def _other(bench: Bench, question: Question, store: Store) -> Iterator[str]:
    """The stage whose model the gate compares with; the accepted model is put where a stage can read it."""
    stage, gate = question.stage, question.gate
    if gate.rule != "max_regression":
        yield stage.needs.get(f"reference.{gate.against}" if gate.against else "reference", "")
        return
    baseline = baselines.read(question.pipeline)
    accepted = baseline.stages.get(stage.id) if baseline else None
    if accepted is None or not accepted.model or store.check(accepted.model):
        yield ""
        return
    with brought(bench, store, stage, accepted.model, BASELINE) as name:
        yield name
