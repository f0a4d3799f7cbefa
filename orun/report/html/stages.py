"""Table of stages: what happened to each and why, with everything that is known of it below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components, KeyComponent
from orun.core.run_record import StageResult
from orun.report.figures import shorten_digests
from orun.report.html.gates import describe_target
from orun.report.html.source import Source
from orun.report.html.templating import format_parameter, render_code
from orun.report.stages import STYLES, describe_outcome, format_stage
from orun.text.units import show, show_interval
from orun.text.wording.components import name_component
from orun.text.wording.reasons import describe_reasons

MOST = 40  # entries of a group of inputs; the record has them all
UNSET = ("", "null", "[]", "{}", '""')  # parameters that were left as they are
NO_FACT = ("cpu flags", "unknown")  # a digest, and what the system does not tell
# Kinds of components by the title that they stand under. The first needs no word beside its subject.
GROUPS: dict[str, tuple[ComponentKind, ...]] = {
    "parameters": (ComponentKind.PARAMETER, ComponentKind.TARGET, ComponentKind.SEED),
    "inputs": (ComponentKind.INPUT, ComponentKind.CONTENT, ComponentKind.CODE_FILE),
    "tools": (ComponentKind.TOOL, ComponentKind.PACKAGE, ComponentKind.PYTHON),
    "device": (ComponentKind.DEVICE,),
    "environment": (ComponentKind.VARIABLE,),
    "files read": (ComponentKind.READ,),
    "packages imported": (ComponentKind.IMPORTED,),
}


def view_stages(source: Source) -> list[Mapping[str, Any]]:
    """Return all stages of a run, each with the cells of its row and what is shown below it."""
    return [_view_stage(source, stage) for stage in source.result.stages]


def _view_stage(source: Source, stage: StageResult) -> Mapping[str, Any]:
    _, _, seconds, size, metrics = format_stage(source.result, stage)
    return {
        "result": stage,
        "style": STYLES[stage.outcome],
        "after": describe_outcome(source.result, stage),
        "seconds": seconds,
        "size": size,
        "metrics": metrics,
        "reasons": describe_reasons(stage.reasons),
        "figures": [
            (name, show(metric.value, metric.unit), show_interval(metric.interval, metric.unit))
            for name, metric in stage.metrics.items()
        ],
        "groups": list(_iter_groups(source.inputs.get(stage.stage, ()))),
    }


def _iter_groups(inputs: Components) -> Iterator[Mapping[str, Any]]:
    """Yield what the result depends on; what was looked for and missing is in the record alone."""
    for title, kinds in GROUPS.items():
        entries = {
            _format_label(item, kinds[0]): render_code(_format_component(item))
            for item in inputs
            if item.kind in kinds and item.value not in (*UNSET, *NO_FACT) and item.subject not in NO_FACT
        }
        if entries:
            yield {"title": title, "entries": list(entries.items())[:MOST], "more": max(len(entries) - MOST, 0)}


def _format_component(component: KeyComponent) -> str:
    if component.kind == ComponentKind.TARGET:
        return describe_target(component.value)
    is_json = component.kind == ComponentKind.PARAMETER
    return format_parameter(component.value) if is_json else shorten_digests(component.value)


def _format_label(component: KeyComponent, plain: ComponentKind) -> str:
    if component.kind != plain:
        return name_component(*component.identity)
    return f"{component.subject} of {component.owner}" if component.owner else component.subject
