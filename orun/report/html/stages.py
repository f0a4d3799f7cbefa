"""Table of stages: what happened to each and why, with everything that is known of it below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components, KeyComponent
from orun.core.run_record import StageResult
from orun.report.figures import shortened
from orun.report.html.gates import target_words
from orun.report.html.source import Source
from orun.report.html.templating import code, plain_value
from orun.report.stages import STYLES, after_outcome, stage_row
from orun.text.units import show, span
from orun.text.wording.components import component_name
from orun.text.wording.reasons import sentences

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


def stages(source: Source) -> list[Mapping[str, Any]]:
    """Return all stages of a run, each with the cells of its row and what is shown below it."""
    return [_view(source, stage) for stage in source.result.stages]


def _view(source: Source, stage: StageResult) -> Mapping[str, Any]:
    _, _, seconds, size, metrics = stage_row(source.result, stage)
    return {
        "result": stage,
        "style": STYLES[stage.outcome],
        "after": after_outcome(source.result, stage),
        "seconds": seconds,
        "size": size,
        "metrics": metrics,
        "reasons": sentences(stage.reasons),
        "figures": [
            (name, show(metric.value, metric.unit), span(metric.interval, metric.unit))
            for name, metric in stage.metrics.items()
        ],
        "groups": list(_groups(source.inputs.get(stage.stage, ()))),
    }


def _groups(inputs: Components) -> Iterator[Mapping[str, Any]]:
    """Yield what the result depends on; what was looked for and missing is in the record alone."""
    for title, kinds in GROUPS.items():
        entries = {
            _label(item, kinds[0]): code(_text(item))
            for item in inputs
            if item.kind in kinds and item.value not in (*UNSET, *NO_FACT) and item.subject not in NO_FACT
        }
        if entries:
            yield {"title": title, "entries": list(entries.items())[:MOST], "more": max(len(entries) - MOST, 0)}


def _text(component: KeyComponent) -> str:
    if component.kind == ComponentKind.TARGET:
        return target_words(component.value)
    is_json = component.kind == ComponentKind.PARAMETER
    return plain_value(component.value) if is_json else shortened(component.value)


def _label(component: KeyComponent, plain: ComponentKind) -> str:
    if component.kind != plain:
        return component_name(*component.identity)
    return f"{component.subject} of {component.owner}" if component.owner else component.subject
