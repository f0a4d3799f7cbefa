"""Release checklist: every gate with its figures, why it did not pass, and how it was judged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from markupsafe import Markup

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import find_value, index_by_subject
from orun.core.metrics import Comparison, Metric
from orun.core.open_gates import list_open_gates
from orun.core.run_record import RunResult
from orun.core.source_location import Position
from orun.core.verdict import Verdict
from orun.report.gates import (
    NOT_JUDGED,
    choose_style,
    explain_unjudged,
    explain_verdict,
    format_caveat,
    format_gate,
    iter_unjudged,
    list_caveats,
    suggest_next_step,
)
from orun.report.html.limits import LimitDrawing, draw_limit
from orun.report.html.source import Source
from orun.report.html.templating import render_time
from orun.report.terminal import Style
from orun.text.counts import count
from orun.text.units import show, show_amount, show_interval

FAILS = " (fails the run)"  # of a gate that did not fail itself
DEEPEST = 4  # groups that are set in
COMMAND = re.compile(r"(?<=[:,] )orun .+?(?=, or |; or |$)")  # of a hint


@dataclass(frozen=True)
class Gate:
    """Gate of the checklist.

    Attributes:
        ident: id of its row.
        outcome, style: its verdict, and how that is painted.
        fails: says that it fails the run although it did not fail itself.
        stage, rest: its name, of which the stage is a link.
        condition, measured, interval: its figures as text.
        depth: groups that it is in.
        drawing: the value against the threshold, if there are two numbers.
        why: what was found.
        position: its place in the file.
        is_open: whether it did not pass; then the finding is shown without being asked for.
        hint: the next command, between backquotes; may be empty.
        caveat: what the verdict does not tell; may be empty.
        evidence: what the verdict rests on.
    """

    ident: str
    outcome: str
    style: Style
    fails: str
    stage: str
    rest: str
    condition: str
    why: str
    position: Position
    measured: str = ""
    interval: str = ""
    depth: int = 0
    drawing: LimitDrawing | None = None
    is_open: bool = True
    hint: str = ""
    caveat: str = ""
    evidence: list[tuple[str, str | Markup]] = field(default_factory=list)


def view_gates(source: Source) -> list[Gate]:
    """Return the gates of a run, judged ones first."""
    result = source.result
    unsolved, limited = set(map(id, list_open_gates(result.verdicts))), set(map(id, list_caveats(result)))
    judged = [
        _view_gate(source, verdict, number, is_open=id(verdict) in unsolved, has_note=id(verdict) in limited)
        for number, verdict in enumerate(result.verdicts, 1)
    ]
    left = [
        Gate(
            ident=f"unjudged-{number}",
            outcome=NOT_JUDGED,
            style="doubt",
            fails=FAILS if gate.fails else "",
            stage=gate.stage,
            rest=f" {gate.metric}",
            condition=gate.condition,
            why=explain_unjudged(stage),
            position=gate.position,
        )
        for number, (stage, gate) in enumerate(iter_unjudged(result), 1)
    ]
    return judged + left


def _view_gate(source: Source, verdict: Verdict, number: int, *, is_open: bool, has_note: bool) -> Gate:
    _, measured, interval, condition = format_gate(verdict)
    return Gate(
        ident=f"gate-{number}",
        outcome=verdict.outcome,
        style=choose_style(verdict),
        fails=FAILS if verdict.fails and verdict.outcome != "failed" else "",
        stage=verdict.stage,
        rest=f" {verdict.metric}",
        condition=condition,
        measured=measured if verdict.measured is not None else "",
        interval=interval,
        depth=min(verdict.depth, DEEPEST),
        drawing=draw_limit(verdict),
        why=explain_verdict(verdict),
        position=verdict.position,
        is_open=is_open,
        hint=_format_hint(verdict, source.result) if is_open and verdict.fails else "",
        caveat=format_caveat(verdict) if has_note else "",
        evidence=list(_iter_evidence(source, verdict)),
    )


def _format_hint(verdict: Verdict, result: RunResult) -> str:
    return COMMAND.sub(r"`\g<0>`", suggest_next_step(verdict, result, portable=True))


def _iter_evidence(source: Source, verdict: Verdict) -> Iterator[tuple[str, str | Markup]]:
    """Yield what a verdict rests on: the metric, its comparisons, where and when it was measured."""
    stage = source.by_name.get(verdict.stage)
    metric = stage.metrics.get(verdict.metric) if stage else None
    if stage is None or metric is None:
        return
    compared = {"the reference": metric.reference, "the accepted baseline": metric.baseline, **metric.references}
    comparisons = [(name, _describe_comparison(other, metric)) for name, other in compared.items() if other is not None]
    if comparisons or metric.interval or metric.examples:
        yield verdict.metric, _format_value(metric)
    yield from comparisons if metric.unit != "x" else ()  # the other model's speed-up is 1
    if metric.noise == "timing" and stage.built_at:
        yield "measured", render_time(stage.built_at)
        yield "on", _describe_device(source, verdict.stage)


def _format_value(metric: Metric) -> str:
    interval = show_interval(metric.interval, metric.unit)
    examples = f", {count(metric.examples, 'example')}" if metric.examples else ""
    return show_amount(metric.value, metric.unit) + (f" ({interval})" if interval else "") + examples


def _describe_comparison(other: Comparison, metric: Metric) -> str:
    ratio = f"{show(other.ratio.value, 'x')} of it"
    if other.ratio.low != other.ratio.high:
        ratio += f" ({show_interval(other.ratio, 'x')})"
    return f"{show_amount(other.value, metric.unit)}; {ratio}; {other.method}"


def _describe_device(source: Source, stage: str) -> str:
    """Return processor, cores and runtime, or the GPU, and the target of a measurement."""
    inputs = source.inputs.get(stage, ())
    traits = index_by_subject(inputs, ComponentKind.DEVICE)
    wanted = ("host", "cpu", "cores", "gpu name", "gpu driver_version", "runtime")
    parts = [f"{traits[name]} cores" if name == "cores" else traits[name] for name in wanted if traits.get(name)]
    if target := find_value(inputs, ComponentKind.TARGET):
        parts.append(describe_target(target))
    return ", ".join(parts)


def describe_target(text: str) -> str:
    """Return the target in a cache key as words: `CPUExecutionProvider, intra_op_num_threads 2`."""
    try:
        target = json.loads(text)
        providers = [" ".join([name, *_list_settings(options)]) for name, options in target["providers"]]
        return ", ".join([*providers, *_list_settings(target.get("session", {}))])
    except (ValueError, KeyError, TypeError, AttributeError):  # a target of another version
        return text


def _list_settings(options: dict[str, object]) -> list[str]:
    return [f"{name} {value}" for name, value in options.items()]
