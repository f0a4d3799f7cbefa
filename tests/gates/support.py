"""Gates, metrics and stored results for the tests of verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orun.core.metrics import Better, Comparison, Estimate, Metric, Noise, Unit
from orun.core.source_location import Position
from orun.core.verdict import Verdict
from orun.gates.baseline_file import Accepted
from orun.gates.judge import judge
from orun.gates.regression import Terms
from orun.pipeline.model import Gate, Rule, Stage, Threshold, Undecided
from orun.planning.key_diff import list_key_changes
from orun.store.records import Action, ImplicitDependencies
from orun.text.units import DURATIONS, SIZES, split
from tests.facts import components

UNITS: Mapping[str, Unit] = {"%": "ratio", "/s": "1/s", "x": "x"}
PLACE = Position("bert.yaml", 44, 7)
PARAMS = {"resolution": 0.05, "time": None, "samples": 36, "min_launches": 3, "max_launches": 30}
HERE = {"host": "forge", "cpu": "EPYC", "cores": "2", "runtime": "onnxruntime 1.31.1"}


def gate(metric: str, rule: Rule, text: str, value: float, undecided: Undecided = "fail") -> Gate:
    written = (split(text) or (value, ""))[1]
    unit: Unit = "s" if written in DURATIONS else "B" if written in SIZES else UNITS.get(written, "")
    return Gate(metric, rule, Threshold(value, text.endswith("%"), text, unit), undecided, PLACE)


def compared(
    value: float,
    ratio: tuple[float, float, float],
    method: str = "by test",
    count: int = 0,
    spread: float = 0.0,
) -> Comparison:
    difference = Estimate(*(value * (bound - 1) for bound in ratio))
    return Comparison(value, Estimate(*ratio), difference, method, count, spread=spread)


def metric(
    value: float,
    unit: Unit = "",
    better: Better = "neither",
    noise: Noise = "none",
    interval: tuple[float, float] | None = None,
    reference: Comparison | None = None,
    baseline: Comparison | None = None,
) -> Metric:
    estimate = Estimate(value, *interval) if interval else None
    return Metric(value, unit, better, noise, estimate, reference, baseline)


def action(metrics: Mapping[str, Metric], model: str = "aa11") -> Action:
    return Action(
        key="key",
        components=components({"kind": "measure/latency", "input model": model}),
        implicit_deps=ImplicitDependencies(),
        tree="tree",
        size=0,
        metrics=metrics,
        log="log",
        pipeline="bert",
        stage="latency",
        host=HERE,
        started_at=0.0,
        seconds=0.0,
        cpu_seconds=0.0,
        peak_memory=0,
    )


def accepted(metrics: Mapping[str, Metric], model: str = "bb22", host: Mapping[str, str] = HERE) -> Accepted:
    return Accepted(model, metrics, host, "2026-11-02T08:30:00+00:00", "Ada", "run-1")


def verdict_of(
    condition: Gate,
    measured: Mapping[str, Metric],
    known: Accepted | None = None,
    host: Mapping[str, str] = HERE,
    params: Mapping[str, Any] = PARAMS,
    *,
    side_by_side: bool = True,
) -> Verdict:
    stage = Stage("latency", "measure/latency", PLACE, needs={"model": "int8"}, gates=(condition,), params=params)
    (verdict,) = judge(stage, action(measured), Terms(known, host, list_key_changes, side_by_side))
    return verdict
