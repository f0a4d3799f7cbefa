"""The release checklist: every gate with its figures, why it did not pass, and how it was judged."""

from __future__ import annotations

from collections.abc import Iterator

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import subjects, value_of
from orun.core.metrics import Comparison, Metric
from orun.core.run_record import StageResult, Unjudged, Verdict
from orun.core.source_location import Position
from orun.report.figures import count
from orun.report.gates import (
    NOT_JUDGED,
    caveat,
    caveats,
    gate_row,
    next_step,
    open_gates,
    style_of,
    unjudged,
    why,
    why_unjudged,
)
from orun.report.html.limits import limit_drawing
from orun.report.html.parts import Section, cell, code, fold, moment, pill, prose, row, table, terms
from orun.report.html.source import Source
from orun.report.html.tags import Children, Markup, element, escape, join
from orun.text.suggestions import near
from orun.text.units import amount, show, span

TITLES = (
    ("verdict", "left"), ("gate", "left"), ("threshold", "left"), ("measured", "right"), ("95 % interval", "left"),
    ("against the threshold", "left"),
)  # fmt: skip
FAILS = " (fails the run)"  # of a gate that did not fail itself
DEEPEST = 4  # groups that are set in


def checklist(source: Source) -> Section | None:
    """The section; None for a run without gates."""
    result = source.result
    unsolved, limited = set(map(id, open_gates(result.verdicts))), set(map(id, caveats(result)))
    rows = [
        line
        for number, verdict in enumerate(result.verdicts, 1)
        for note in [caveat(verdict) if id(verdict) in limited else ""]
        for line in _judged(source, verdict, number, explained=id(verdict) in unsolved, note=note)
    ]
    rows += [
        line for number, (stage, gate) in enumerate(unjudged(result), 1) for line in _left(source, stage, gate, number)
    ]
    if not rows:
        return None
    return Section("gates", "Release checklist", table(TITLES, rows, "Gates with what was measured", "checklist"))


def place(position: Position) -> Markup:
    """`pipelines/bert.yaml:44:7`."""
    return code(f"{near(position.file)}:{position.line}:{position.column}")


def _judged(source: Source, verdict: Verdict, number: int, *, explained: bool, note: str) -> Iterator[Markup]:
    name, figure, interval, condition = gate_row(verdict)
    fails = FAILS if verdict.fails and verdict.outcome != "failed" else ""
    yield row(
        cell(join(pill(verdict.outcome, style_of(verdict)), fails)),
        _name(source, verdict.stage, name.strip(), min(verdict.depth, DEEPEST)),
        cell(condition, TITLES[2][0]),
        cell(figure if verdict.measured is not None else "", TITLES[3][0], class_="right"),
        cell(interval, TITLES[4][0]),
        cell(limit_drawing(verdict, f"gate-{number}"), class_="picture", rowspan="2"),
        id=f"gate-{number}",
        class_="gate",
    )
    sentence = join(prose(why(verdict)), " ", element("span", "(", place(verdict.position), ")", class_="place"))
    evidence = terms(_evidence(source, verdict))
    caveat = element("p", pill("notice", "dim"), " ", prose(note)) if note else ""
    if not explained:
        yield _below(fold("how it was judged", element("p", sentence), evidence), caveat)
        return
    hint = element("p", "hint: ", prose(next_step(verdict, source.result)), class_="hint") if verdict.fails else ""
    figures = fold("figures behind it", evidence) if evidence else ""
    yield _below(element("p", sentence, class_="why"), hint, caveat, figures, class_=style_of(verdict))


def _left(source: Source, stage: StageResult, gate: Unjudged, number: int) -> Iterator[Markup]:
    fails = FAILS if gate.fails else ""
    yield row(
        cell(join(pill(NOT_JUDGED, "doubt"), fails)),
        _name(source, gate.stage, f"{gate.stage} {gate.metric}", 0),
        cell(gate.condition, TITLES[2][0]),
        *(cell("") for _ in TITLES[3:-1]),
        cell("", rowspan="2"),
        id=f"unjudged-{number}",
        class_="gate",
    )
    sentence = element("p", prose(why_unjudged(stage)), " (", place(gate.position), ")", class_="why")
    yield _below(sentence, class_="doubt")


def _name(source: Source, stage: str, name: str, depth: int) -> Markup:
    """Return the name of a gate; its stage is a link."""
    target = source.stages.get(stage)
    rest = name.removeprefix(stage)
    link = element("a", stage, href=f"#{target}") if target else escape(stage)
    return element("th", element("bdi", link, rest), scope="row", role="rowheader", class_=f"depth-{depth}")


def _below(*parts: Children, class_: str = "") -> Markup:
    return row(element("td", *parts, colspan=len(TITLES) - 1, role="cell"), class_=f"below {class_}".strip())


def _evidence(source: Source, verdict: Verdict) -> Iterator[tuple[str, Children]]:
    """Yield the evidence of a verdict: the metric, its comparisons, where and when it was measured."""
    stage = source.by_name.get(verdict.stage)
    metric = stage.metrics.get(verdict.metric) if stage else None
    if stage is None or metric is None:
        return
    compared = {"the reference": metric.reference, "the accepted baseline": metric.baseline, **metric.references}
    comparisons = [(name, _compared(other, metric)) for name, other in compared.items() if other is not None]
    if comparisons or metric.interval or metric.examples:
        yield verdict.metric, _value(metric)
    yield from comparisons if metric.unit != "x" else ()  # of a speed-up the other is 1
    if metric.noise == "timing" and stage.built_at:
        yield "measured", moment(stage.built_at)
        yield "on", _device(source, verdict.stage)


def _value(metric: Metric) -> str:
    interval = span(metric.interval, metric.unit)
    examples = f", {count(metric.examples, 'example')}" if metric.examples else ""
    return amount(metric.value, metric.unit) + (f" ({interval})" if interval else "") + examples


def _compared(other: Comparison, metric: Metric) -> str:
    ratio = f"{show(other.ratio.value, 'x')} of it"
    if other.ratio.low != other.ratio.high:
        ratio += f" ({span(other.ratio, 'x')})"
    return f"{amount(other.value, metric.unit)}; {ratio}; {other.method}"


def _device(source: Source, stage: str) -> str:
    """Processor, cores and runtime, or the GPU, that the key of a measurement holds."""
    inputs = source.inputs.get(stage, ())
    traits = subjects(inputs, ComponentKind.DEVICE)
    wanted = ("host", "cpu", "cores", "gpu name", "gpu driver_version", "runtime")
    parts = [f"{traits[name]} cores" if name == "cores" else traits[name] for name in wanted if traits.get(name)]
    if target := value_of(inputs, ComponentKind.TARGET):
        parts.append(f"target {target}")
    return ", ".join(parts)
