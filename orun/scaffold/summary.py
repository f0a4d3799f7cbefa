"""Summary of what `orun init` measured."""

from __future__ import annotations

import math

from orun.fs.os_errors import quoted
from orun.report.summary import why_skipped
from orun.scaffold.create import Created
from orun.text.units import show


def measured_line(created: Created) -> str:
    """Return the release compared with the original: `90.9 MB -> 22.9 MB, 2.10x as fast, cosine 0.993`."""
    stages = {stage.stage: stage for stage in created.result.stages}
    graph = created.request.facts.graph
    release = next(
        (stage for name in ("tune", "int8", "half", "fuse", "simplify") if (stage := stages.get(name))), None
    )
    parts = []
    if graph and release and (size := release.metrics.get("size")):
        parts.append(f"{show(graph.size, 'B')} -> {show(size.value, 'B')}")
    latency = stages["latency"].metrics
    if median := latency.get("p50"):
        parts.append(f"p50 {show(median.value, 's')}")
    if speedup := latency.get("speedup"):
        parts.append(f"{speedup.value:.2f}x as fast")
    if (accuracy := stages.get("accuracy")) and (cosine := accuracy.metrics.get("cosine.mean")):
        parts.append(f"cosine {math.floor(cosine.value * 1e5) / 1e5:g}")
    return f"measured: {', '.join(parts)}" if parts else ""


def goal_lines(created: Created) -> list[str]:
    """Return the verdicts on the goal, a line each, and how near the model came to each condition that it misses."""
    metrics = {stage.stage: stage.metrics for stage in created.result.stages}
    outcomes = {(verdict.stage, verdict.metric, verdict.rule): verdict.outcome for verdict in created.verdicts}
    lines = []
    for condition in created.request.goal:
        outcome = outcomes.get((condition.stage, condition.metric, condition.rule), "not judged")
        metric = metrics.get(condition.stage, {}).get(condition.metric)
        figures = [show(metric.value, metric.unit), condition.miss(metric.value)] if metric else ["not measured"]
        lines.append(f"goal {condition.title}: {outcome} ({', '.join(filter(None, figures))})")
    if not created.is_reached:
        lines.append("goal not reached: this is the nearest model that the search found")
    return lines


def skipped_notes(created: Created) -> list[str]:
    """Return a note on each reason for which stages were skipped, such as a provider that this machine lacks."""
    names = ", ".join(stage.stage for stage in created.result.stages if stage.outcome == "skipped")
    return [f"note: {names} {why}" for why in why_skipped(created.result)]


def slower_note(created: Created) -> str:
    """Return advice if the release is slower than the original; else an empty text."""
    speedup = next(stage for stage in created.result.stages if stage.stage == "latency").metrics.get("speedup")
    if created.request.goal or not speedup or not speedup.interval or speedup.interval.high >= 1:
        return ""
    return 'note: the release is slower than the original here; a search may find a faster one: --goal "speedup>1"'


def unjudged_note(created: Created) -> str:
    """Return advice if every gate waits for a baseline, so that runs judge nothing; else an empty text."""
    rules = {rule for metrics in created.gates.values() for rules in metrics.values() for rule in rules}
    if rules - {"max_regression"}:
        return ""
    again = f"orun {quoted(created.file)} && orun baseline accept {quoted(created.file)}"
    return f"note: no gate is judged before a release is accepted: {again}"
