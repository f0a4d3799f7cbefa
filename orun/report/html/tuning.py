"""Pareto front of a search: the candidates of `quantize/tune` that no other beats."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import find_value
from orun.core.metrics import Unit
from orun.core.run_record import StageResult
from orun.report.html.chart import Axis, Chart, Line, Point
from orun.report.html.source import Source
from orun.report.html.stored import SEARCH
from orun.text.counts import count
from orun.text.units import show

PROPERTY = "orun.tune"  # of the model, as `quantize/tune` writes it


def view_tuning(source: Source) -> list[Mapping[str, Any]]:
    """Return the front of each search whose model is stored."""
    fronts = []
    for name, stored in source.stored.models.items():
        if source.by_name[name].uses == SEARCH and PROPERTY in stored.outline.metadata:
            try:
                fronts.append(_view_front(source, source.by_name[name], json.loads(stored.outline.metadata[PROPERTY])))
            except (ValueError, KeyError, TypeError):  # a property of another version
                continue
    return fronts


def _view_front(source: Source, stage: StageResult, document: Mapping[str, Any]) -> Mapping[str, Any]:
    metric, chosen = document["metric"], document["chosen"]
    candidates = [*document["front"], *([] if chosen in document["front"] else [chosen])]
    trials = sorted(candidates, key=lambda trial: float(trial["time"] or trial["size"]))
    timed = all(trial["time"] for trial in trials)
    unit: Unit = "x" if timed else "B"
    places = [(1 / trial["time"] if timed else trial["size"], trial["accuracy"]) for trial in trials]
    inputs = source.inputs.get(stage.stage, ())
    bounds = [
        json.loads(find_value(inputs, ComponentKind.PARAMETER, name) or "null") for name in ("at_least", "at_most")
    ]
    bound = next((float(value) for value in bounds if value is not None), None)
    points = [
        Point(
            x,
            y,
            f"{_format_title(trial)}: {metric} {show(y, '')}, {show(x, unit)}",
            "last" if trial == chosen else "point",
        )
        for trial, (x, y) in zip(trials, places, strict=True)
    ]
    threshold = [("threshold", f"goal: {metric} {bound:g}")] if bound is not None else []
    chart = Chart(
        title=f"{metric} and {'speed-up' if timed else 'size'} of the candidates of {stage.stage}",
        description=f"{len(trials)} candidates that no other beats; chosen: {_format_title(chosen)}.",
        x=Axis.of("speed-up over the original model" if timed else "size of the model", [x for x, _ in places], unit),
        y=Axis.of(metric, [*(y for _, y in places), *([] if bound is None else [bound])]),
        lines=[Line("line-1", sorted(places))],
        points=points,
        limits=[] if bound is None else [bound],
        legend=[("last", f"chosen: {_format_title(chosen)}"), ("point", "other candidates"), *threshold],
    )
    rows = [
        (
            _format_title(trial) + (" (chosen)" if trial == chosen else ""),
            show(trial["accuracy"], ""),
            show(1 / trial["time"], "x") if trial["time"] else "",
            show(trial["size"], "B"),
        )
        for trial in trials
    ]
    return {"stage": stage.stage, "metric": metric, "chart": chart, "rows": rows}


def _format_title(trial: Mapping[str, Any]) -> str:
    options = ", ".join(f"{name}={json.dumps(value)}" for name, value in trial["options"])
    parts = [f"{trial['method']} ({options})" if options else trial["method"]]
    parts += ["fused"] if trial["fused"] else []
    parts += [f"{count(len(trial['kept']), 'group')} kept in float"] if trial["kept"] else []
    return f"{', '.join(parts)}, on {trial['place']}"
