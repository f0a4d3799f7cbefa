"""Blame: from a failed gate to the stage and nodes that cause it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from orun.blame import accuracy, latency, messages
from orun.blame.changes import list_publishing_stages
from orun.blame.diagnosis import Diagnosis
from orun.blame.experiment import Experiment
from orun.blame.origin import find_earlier_model, find_measurement_changes, import_model
from orun.blame.upstream_metrics import choose_judged_metric, list_model_chain
from orun.core.metrics import Metric
from orun.core.open_gates import list_failed_gates
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import RunResult
from orun.errors import UsageError
from orun.eventlog import Listener, ignore
from orun.fs.os_errors import quote
from orun.gates import baselines
from orun.pipeline.model import Gate, Pipeline, Stage, iter_gates
from orun.store import Store
from orun.store.layout import locate_store
from orun.text.suggestions import format_settings, show_path


@dataclass(frozen=True)
class BlameRequest:
    """A gate to investigate."""

    pipeline: Pipeline  # up to date as far as the stage
    stage: Stage
    gate: Gate
    metric: Metric  # that the gate judged
    result: RunResult  # of the run in which it failed


def find_requests(pipeline: Pipeline, result: RunResult, *, all_gates: bool = False) -> Iterator[BlameRequest]:
    """Yield a request for each failed gate, or for all, whose stage measured a model with stages upstream.

    Gates on the same metric of a stage have the same cause, so the first of them stands for all. A gate that failed
    because nothing was comparable, or its threshold has another unit, has no cause in a stage upstream.
    """
    seen: set[tuple[str, str]] = set()
    for verdict in result.verdicts if all_gates else list_failed_gates(result.verdicts):
        # Gates against several references share a position and differ in scope.
        gates = iter_gates(pipeline.stage(verdict.stage).gates)
        gate = next((gate for gate in gates if (gate.position, gate.scope) == (verdict.position, verdict.scope)), None)
        is_misfit = verdict.finding.code == ReasonCode.THRESHOLD_MISFIT
        incomparable = verdict.outcome == "failed" and (verdict.measured is None or is_misfit)
        if gate is None or incomparable or (verdict.stage, gate.metric) in seen:
            continue
        seen.add((verdict.stage, gate.metric))
        stage, metric = pipeline.stage(verdict.stage), result[verdict.stage].metrics.get(gate.metric)
        if metric and pipeline.kinds[stage.uses].spec.output == "metrics" and list_model_chain(pipeline, stage):
            yield BlameRequest(pipeline, stage, gate, metric, result)


def choose_stages(pipeline: Pipeline, stage: str | None) -> list[str]:
    """Return the stages to bring up to date before an investigation: `stage`, or all that publish no release.

    Raises:
        UsageError: if the stage publishes a release or comes after a stage that does.
    """
    if stage is None:
        return [candidate.id for candidate in pipeline.stages if not list_publishing_stages(pipeline, candidate.id)]
    if publishers := list_publishing_stages(pipeline, stage):
        again = f"orun {quote(show_path(str(pipeline.file)))}{format_settings(pipeline.overrides)}"
        raise UsageError(messages.refuse_publishing(stage, publishers[0]), hint=again)
    return [stage]


def blame(request: BlameRequest, seconds: float, store: Path | None = None, listener: Listener = ignore) -> Diagnosis:
    """Find out why a gate fails: the stage, its nodes, and the result of a variant without them.

    Every measurement and variant is a stage of a pipeline `<name>.blame`, run in a process of its own and stored, so a
    second investigation reuses it.

    Args:
        request: the gate.
        seconds: time after which no stage begins and the running stage is stopped.
        store: the store's folder; see `orun.store.layout.locate_store`.
        listener: receives the events of the runs.

    Raises:
        StoreError: if the store cannot be used.
    """
    began = monotonic()
    pipeline, stage, gate = request.pipeline, request.stage, request.gate
    root = locate_store(store, pipeline.root)
    experiment = Experiment(pipeline, root, seconds, listener)
    chain = list_model_chain(pipeline, stage)
    title = f"{stage.id} {gate.metric} {gate.rule} {gate.threshold.text}{gate.scope}"
    metric = choose_judged_metric(gate, request.result[stage.id].metrics)
    diagnosis = Diagnosis(title, stage.id, metric, request.metric.unit, "")
    with ExitStack() as stack:
        opened = stack.enter_context(Store.open(root))
        earlier = find_earlier_model(opened, pipeline, request.result, (stage, gate), chain)
        if earlier and earlier.here:
            stack.enter_context(import_model(experiment, opened, stage, earlier.tree, earlier.name))
        if request.metric.noise == "timing":
            other = stack.enter_context(_provide_compared(experiment, request, opened))
            diagnosis = latency.Investigation(experiment, stage, gate, chain, other, earlier).solve(diagnosis)
        else:
            changed = find_measurement_changes(opened, pipeline, request.result, (stage, gate))
            note = messages.describe_changed_measurement(stage.id, *changed) if changed else ""
            diagnosis = accuracy.Investigation(experiment, stage, gate, chain, earlier, metric, note).solve(diagnosis)
    sentence = diagnosis.sentence or "no cause was found before the time limit"
    return replace(diagnosis, sentence=sentence, seconds=monotonic() - began)


@contextmanager
def _provide_compared(experiment: Experiment, request: BlameRequest, store: Store) -> Iterator[str]:
    """Yield the stage whose model the gate compares with, or empty; imports the accepted model if that is compared."""
    stage, gate = request.stage, request.gate
    if gate.rule != "max_regression":
        yield stage.needs.get(f"reference.{gate.against}" if gate.against else "reference", "")
        return
    baseline = baselines.read(request.pipeline)
    accepted = baseline.stages.get(stage.id) if baseline else None
    if accepted is None or not accepted.model or store.check(accepted.model):
        yield ""
        return
    with import_model(experiment, store, stage, accepted.model, messages.BASELINE) as name:
        yield name
