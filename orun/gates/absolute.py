"""`min` and `max`: a metric against a figure of the file."""

from __future__ import annotations

from orun.gates.finding import Finding, against_maximum, against_minimum, figure, interval_text, point
from orun.gates.hosts import Host, device, same_machine
from orun.metrics import Metric
from orun.pipeline.model import Gate
from orun.units import show

AGAIN = "measure again with --fresh, for longer (`time`) or with more `samples`"


def judge_absolute(gate: Gate, metric: Metric, where: Host, here: Host, undisturbed: Metric | None = None) -> Finding:
    """The interval decides for times, the value itself for everything else.

    Args:
        gate: with rule `min` or `max`.
        metric: what was measured.
        where: fingerprint of the machine that it was measured on.
        here: fingerprint of this machine.
        undisturbed: the time of an inference without waiting for a core, beside a wall time.
    """
    limit = gate.threshold.value
    interval = metric.interval if metric.noise == "timing" and metric.interval else point(metric.value)
    outcome = (against_maximum if gate.rule == "max" else against_minimum)(interval, limit)
    text = f"{gate.metric} is {figure(metric.value, metric.unit, limit)}{_device(metric, where, here)}"
    beside = [f"95 % interval {interval_text(metric.interval, metric.unit)}"] if metric.interval else []
    beside += [f"{show(undisturbed.value, undisturbed.unit)} without waiting for a core"] if undisturbed else []
    text += f" ({'; '.join(beside)})" if beside else ""
    over, under = ("within", "above") if gate.rule == "max" else ("at or above", "below")
    rule = "maximum" if gate.rule == "max" else "minimum"
    ending = {
        "passed": f", {over} the {rule} of {gate.threshold.text}",
        "failed": f", {under} the {rule} of {gate.threshold.text}",
        "undecided": f", and the interval holds the {rule} of {gate.threshold.text}: {AGAIN}",
    }[outcome]
    return Finding(outcome, text + ending, metric.value, metric.unit, metric.interval)


def _device(metric: Metric, where: Host, here: Host) -> str:
    """What a time was measured on: on another device the threshold means something else."""
    name = device(where)
    if metric.noise != "timing" or not name:
        return ""
    return f" on {name}" if same_machine(where, here) else f" on another machine ({name})"
