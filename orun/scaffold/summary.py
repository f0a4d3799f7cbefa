"""Summary of what `orun init` measured."""

from __future__ import annotations

import math
from collections.abc import Mapping

from orun.core.serialization import replace
from orun.fs.os_errors import quote
from orun.report.notes import format_stage_notes
from orun.report.summary import iter_skip_reasons
from orun.report.terminal import Terminal
from orun.scaffold.create import Created
from orun.scaffold.goal import parse_goal
from orun.scaffold.init_command import format_init_command
from orun.scaffold.recipe import explain_unjudged_labels
from orun.scaffold.thresholds import find_release_size, measure_likeness
from orun.stages.measure.accuracy import MADE_UP_NOTE
from orun.text.units import show


def format_measured(created: Created) -> str:
    """Return the release compared with the original: `90.9 MB -> 22.9 MB, 2.10x as fast, cosine 0.993`."""
    stages = {stage.stage: stage for stage in created.result.stages}
    graph = created.request.facts.graph
    parts = []
    if graph and (size := find_release_size(created.result)):
        parts.append(f"{show(graph.size, 'B')} -> {show(size.value, 'B')}")
    latency = stages["latency"].metrics
    if median := latency.get("p50"):
        parts.append(f"p50 {show(median.value, 's')}")
    if speedup := latency.get("speedup"):
        parts.append(f"{speedup.value:.2f}x as fast")
    if alike := measure_likeness(created.result):
        metric, value, _ = alike
        parts.append(f"{metric} {math.floor(value * 1e5) / 1e5:g}")
    return f"measured: {', '.join(parts)}" if parts else ""


def format_goal(created: Created) -> list[str]:
    """Return the verdicts on the goal, a line each, and how near the model came to each condition that it misses."""
    metrics = {stage.stage: stage.metrics for stage in created.result.stages}
    outcomes = {(verdict.stage, verdict.metric, verdict.rule): verdict.outcome for verdict in created.verdicts}
    lines = []
    for condition in created.request.goal:
        metric = metrics.get(condition.stage, {}).get(condition.metric)
        miss = condition.describe_miss(metric.value) if metric else ""
        unjudged = f"{'missed' if miss else 'met'}, not judged" if metric else "not judged"  # a gate before it failed
        outcome = outcomes.get((condition.stage, condition.metric, condition.rule), unjudged)
        figures = [show(metric.value, metric.unit), miss] if metric else ["not measured"]
        lines.append(f"goal {condition.title}: {outcome} ({', '.join(filter(None, figures))})")
    if not created.is_reached:
        lines.append("goal not reached: this is the nearest model that the search found")
    return lines


def list_skipped_notes(created: Created) -> list[str]:
    """Return a note on each reason for which stages were skipped, such as a provider that this machine lacks."""
    names = ", ".join(stage.stage for stage in created.result.stages if stage.outcome == "skipped")
    return [f"note: {names} {why}" for why in iter_skip_reasons(created.result)]


def list_stage_notes(created: Created) -> list[str]:
    """Return the notes of stages on their results, as a run shows them, but for made-up examples, which `init` says."""
    stages = (
        replace(stage, notes=tuple(note for note in stage.notes if note != MADE_UP_NOTE))
        for stage in created.result.stages
    )
    return format_stage_notes(replace(created.result, stages=tuple(stages)), Terminal())


def explain_worse(created: Created) -> str:
    """Return advice if the release is larger or slower than the original; else an empty text."""
    request, graph = created.request, created.request.facts.graph
    if not request.drawback:
        return ""
    goal = "speedup>1" if "slower" in request.drawback else f"size<{math.floor(graph.size) if graph else 0}B"
    file = created.file.with_stem(f"{created.file.stem}-goal")
    command = format_init_command(file, replace(request, goal=parse_goal(goal)))
    return f"note: the release is {request.drawback} than the original here; a search may find a better one: {command}"


def explain_pixels(created: Created) -> str:
    """Return which values images become, unless they stay integers or the model's files state it."""
    data = created.request.data
    if not isinstance(data, Mapping) or "images" not in data or "types" in data:
        return ""
    images = data["images"]
    if "resample" in images:  # the file beside the model states it all
        return ""
    scales = [*zip(images["mean"], images["std"], strict=True)]
    low = min((0 - mean) / std for mean, std in scales)
    high = max((255 * images["scale"] - mean) / std for mean, std in scales)
    change = f"scale: {1 / 255}, mean: {[0] * len(scales)}, std: {[1] * len(scales)}"
    return (
        f"note: the images in {data['path']} become values from {low:.3g} to {high:.3g}; if the model takes others, "
        f"change `scale`, `mean` and `std` in {created.file}: for 0 to 1, `{change}`"
    )


def explain_agreement(created: Created) -> str:
    """Return that a part of the original's answers may differ after the conversion; else an empty text."""
    share = created.request.agreement
    if not share:
        return ""
    return f"note: a few rounded values differ after the conversion, so {created.file} has `min_agreement: {share}`"


def list_label_notes(created: Created) -> list[str]:
    """Return what is assumed of the labels of the user's data, and why no gate judges them."""
    request = created.request
    assumption = request.label_facts.assumption
    check = f"{assumption}. Check it in {created.file}" if assumption else ""
    return [f"note: {note}" for note in (check, explain_unjudged_labels(request, created.gates)) if note]


def explain_unjudged(created: Created) -> str:
    """Return advice if every gate waits for a baseline, so that runs judge nothing; else an empty text."""
    rules = {rule for metrics in created.gates.values() for rules in metrics.values() for rule in rules}
    if rules - {"max_regression"}:
        return ""
    file = f"{quote(created.file)}{created.store_option}"
    return f"note: no gate is judged before a release is accepted: orun {file} && orun baseline accept {file}"
