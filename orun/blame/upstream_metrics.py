"""The gate's metric at an artifact upstream, and the stage that made it worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from orun.blame.chain import model_port
from orun.blame.diagnosis import Level
from orun.blame.experiment import Bench
from orun.core.metrics import Metric
from orun.core.run_record import RunResult
from orun.pipeline.model import Gate, Stage
from orun.text.wording.reasons import sentence

TELLING = 1e-6  # share of a metric's own size below which a change from one artifact to the next is rounding


@dataclass(frozen=True)
class Step:
    """The stage that made the metric worse than any other did.

    Attributes:
        before, after: the last artifact that could be measured before it, and its own.
        lost: by how much, in the metric's unit.
    """

    before: Level
    after: Level
    lost: float


def variant(bench: Bench, stage: Stage, gate: Gate, model: str) -> Stage:
    """The measurement of another model; of the model that it has, it is the stage itself under another name."""
    needs = dict(stage.needs) | {model_port(bench.pipeline, stage): model}
    return bench.add(stage, id=f"{stage.id} of {model}", needs=needs, gates=(gate,), after=())


def level(result: RunResult, model: str, stage: str, metric: str) -> Level:
    """What a measurement of one artifact found."""
    found = result[stage]
    if metric not in found.metrics:
        return Level(model, None, why=reason(result, stage))
    verdicts = [one for one in result.verdicts if one.stage == stage]
    decided = next((one.outcome == "passed" for one in verdicts if one.outcome in ("passed", "failed")), None)
    return Level(model, found.metrics[metric].value, decided)


def reason(result: RunResult, stage: str) -> str:
    """Why a stage has no result."""
    found = result[stage]
    if found.failure:
        return found.failure.what
    return sentence(found.reasons[0]) if found.reasons else "it measured no such figure"


def direction(gate: Gate, metrics: Mapping[str, Metric]) -> Literal[1, -1]:
    """1 where more is better: as the gate's rule says, or the metric where the rule goes by it."""
    if gate.rule in ("min", "max_drop"):
        return 1
    if gate.rule in ("max", "max_increase"):
        return -1
    better = metrics[gate.metric].better if gate.metric in metrics else "neither"
    return 1 if better == "higher" else -1


def judged(gate: Gate, metrics: Mapping[str, Metric]) -> str:
    """The metric that a gate judges; of one by slices that of the worst slice."""
    start = f"{gate.metric}[{gate.by}="
    slices = [name for name in metrics if name.startswith(start)] if gate.by else []
    sign = direction(gate, metrics)
    return min(slices, key=lambda name: sign * _change(gate, metrics[name]), default=gate.metric)


def _change(gate: Gate, metric: Metric) -> float:
    """The figure, or by how much it is above that of the model which the gate compares it with."""
    if gate.rule == "max_regression":
        other = metric.baseline
    elif gate.rule in ("max_drop", "max_increase", "min_speedup"):
        other = metric.references.get(gate.against) or metric.reference
    else:
        other = None
    return other.difference.value if other else metric.value


def worst_step(levels: Sequence[Level], sign: int) -> Step | None:
    """Where the metric got worse most; None where it never did by an amount that tells."""
    known = [(one, one.value) for one in levels if one.value is not None]
    steps = [Step(before, after, sign * (old - new)) for (before, old), (after, new) in pairwise(known)]
    size = max((abs(value) for _, value in known), default=0.0)
    telling = [step for step in steps if step.lost > TELLING * size]
    return max(telling, key=lambda step: step.lost, default=None)
