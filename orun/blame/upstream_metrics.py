"""Upstream metrics: the models that lead to a measurement, the metric at each, and the step that made it worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from orun.blame.diagnosis import Level
from orun.blame.experiment import Experiment
from orun.core.metrics import Metric
from orun.core.run_record import Failure, RunResult
from orun.pipeline.model import Gate, Pipeline, Stage
from orun.text.wording.reasons import describe_reason

TELLING = 1e-6  # share of a metric's own size below which a change from one artifact to the next is rounding


@dataclass(frozen=True)
class Step:
    """Change of a metric by one stage."""

    before: Level  # the level at the last artifact measured before the stage
    after: Level  # at the stage's own
    lost: float  # how much worse the metric got, in its unit


def find_model_port(pipeline: Pipeline, stage: Stage) -> str:
    """Return the primary port of a stage if a model is connected to it; else empty."""
    ports = pipeline.kinds[stage.uses].spec.inputs
    first = next(iter(ports), "")
    return first if first in stage.needs and "onnx" in ports[first].accepts else ""


def list_model_chain(pipeline: Pipeline, stage: Stage) -> tuple[Stage, ...]:
    """Return the stages whose models lead to a stage's primary input, in order."""
    chain: list[Stage] = []
    while port := find_model_port(pipeline, stage):
        stage = pipeline.stage(stage.needs[port])
        if pipeline.kinds[stage.uses].spec.output != "onnx":
            break
        chain.append(stage)
    return tuple(reversed(chain))


def add_measurement(experiment: Experiment, stage: Stage, gate: Gate, model: str) -> Stage:
    """Add a copy of a measurement that measures another stage's model."""
    needs = dict(stage.needs) | {find_model_port(experiment.pipeline, stage): model}
    return experiment.add(stage, id=f"{stage.id} of {model}", needs=needs, gates=(gate,), after=())


def read_level(result: RunResult, model: str, stage: str, metric: str) -> Level:
    """Return the level that a measurement of one artifact gave."""
    metrics = result[stage].metrics
    if metric not in metrics:
        return Level(model, None, why=explain_missing(result, stage))
    outcomes = [verdict.outcome for verdict in result.verdicts if verdict.stage == stage]
    passes = next((outcome == "passed" for outcome in outcomes if outcome in ("passed", "failed")), None)
    return Level(model, metrics[metric].value, passes)


def read_reference_level(stage: Stage, gate: Gate, metric: Metric | None) -> Level | None:
    """Return the level at the reference of a measurement, which was measured beside the model; None if it has none."""
    reference = stage.needs.get("reference")
    if not reference or metric is None or metric.reference is None:
        return None
    value, limit = metric.reference.value, gate.threshold.value
    passes = {"min": value >= limit, "max": value <= limit}.get(gate.rule)
    return Level(reference, value, passes)


def explain_missing(result: RunResult, stage: str) -> str:
    """Say why a stage has no result."""
    stage_result = result[stage]
    if stage_result.failure:
        return describe(stage_result.failure)
    return describe_reason(stage_result.reasons[0]) if stage_result.reasons else "it has no such metric"


def describe(failure: Failure) -> str:
    """Return the problem of a failure, with the first line of its cause."""
    return ": ".join(filter(None, (failure.problem, failure.why.partition("\n")[0])))


def choose_sign(gate: Gate, metrics: Mapping[str, Metric]) -> Literal[1, -1]:
    """Return 1 if more is better, else -1: by the gate's rule, or by the metric if the rule follows it."""
    if gate.rule in ("min", "max_drop"):
        return 1
    if gate.rule in ("max", "max_increase"):
        return -1
    better = metrics[gate.metric].better if gate.metric in metrics else "neither"
    return 1 if better == "higher" else -1


def choose_judged_metric(gate: Gate, metrics: Mapping[str, Metric]) -> str:
    """Return the metric that a gate judges; for a gate by slices, that of the worst slice."""
    start = f"{gate.metric}[{gate.by}="
    slices = [name for name in metrics if name.startswith(start)] if gate.by else []
    sign = choose_sign(gate, metrics)
    return min(slices, key=lambda name: sign * _compute_change(gate, metrics[name]), default=gate.metric)


def _compute_change(gate: Gate, metric: Metric) -> float:
    """Return the metric's value, or its difference from the model that the gate compares with."""
    comparison = None
    if gate.rule == "max_regression":
        comparison = metric.baseline
    elif gate.rule in ("max_drop", "max_increase", "min_speedup"):
        comparison = metric.references.get(gate.against) or metric.reference
    return comparison.difference.value if comparison else metric.value


def find_worst_step(levels: Sequence[Level], sign: int) -> Step | None:
    """Return the step with the largest loss; None if no loss exceeds rounding."""
    known = [(level, level.value) for level in levels if level.value is not None]
    steps = [Step(before, after, sign * (old - new)) for (before, old), (after, new) in pairwise(known)]
    size = max((abs(value) for _, value in known), default=0.0)
    telling = [step for step in steps if step.lost > TELLING * size]
    return max(telling, key=lambda step: step.lost, default=None)
