"""The table of stages: what happened to each and why, with everything that is known of it below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components, KeyComponent
from orun.core.run_record import StageResult
from orun.report.figures import shortened
from orun.report.html.checklist import place
from orun.report.html.parts import MARKS, Section, cell, code, fold, moment, row, table, terms
from orun.report.html.source import Source
from orun.report.html.tags import Children, Markup, element, join
from orun.report.stages import COLUMNS, STYLES, stage_row
from orun.text.suggestions import near
from orun.text.units import show, span
from orun.text.wording.components import component_name
from orun.text.wording.reasons import sentences

MOST = 40  # entries of a group of inputs; the record has them all
UNSET = ("", "null", "[]", "{}", '""')  # parameters that were left as they are
# Kinds of components by the title that they stand under. The first needs no word beside its subject.
GROUPS: Mapping[str, tuple[ComponentKind, ...]] = {
    "parameters": (ComponentKind.PARAMETER, ComponentKind.TARGET, ComponentKind.SEED),
    "inputs": (ComponentKind.INPUT, ComponentKind.CONTENT, ComponentKind.CODE_FILE),
    "tools": (ComponentKind.TOOL, ComponentKind.PACKAGE, ComponentKind.PYTHON),
    "device": (ComponentKind.DEVICE,),
    "environment": (ComponentKind.VARIABLE,),
    "files read": (ComponentKind.READ,),
    "packages imported": (ComponentKind.IMPORTED,),
}


def stages(source: Source) -> Section | None:
    """The section; None for a run without stages."""
    rows = [line for stage in source.result.stages for line in _lines(source, stage)]
    if not rows:
        return None
    titles = [(column.title, column.align) for column in COLUMNS]
    return Section("stages", "Stages", table(titles, rows, "What became of each stage", "stages"))


def _lines(source: Source, stage: StageResult) -> Iterator[Markup]:
    name, outcome_text, seconds, size, metrics = stage_row(source.result, stage)
    style = STYLES[stage.outcome]
    mark = element("span", MARKS[style], class_="mark", aria_hidden="true") if MARKS[style] else ""
    outcome, *rest = outcome_text.partition(stage.outcome)[1:]
    yield row(
        element("th", element("bdi", name), scope="row", role="rowheader"),
        cell(join(mark, element("span", outcome, class_=style), *rest), COLUMNS[1].title),
        cell(seconds, COLUMNS[2].title, class_="right"),
        cell(size, COLUMNS[3].title, class_="right"),
        cell(metrics, COLUMNS[4].title),
        id=source.stages[stage.stage],
    )
    known = (terms(_facts(source, stage)), _metrics(stage), *_groups(source.inputs.get(stage.stage, ())))
    details = fold(element("span", stage.uses, class_="quiet"), *known)
    yield row(element("td", details, colspan=len(COLUMNS), role="cell"), class_="below")


def _facts(source: Source, stage: StageResult) -> Iterator[tuple[str, Children]]:
    yield "reasons", _several(sentences(stage.reasons))
    yield "in the file", place(stage.position) if stage.position else ""
    yield "needs", _links(source, stage.needs)
    yield "needed by", _links(source, source.after.get(stage.stage, ()))
    yield "built", join(moment(stage.built_at), f", in {show(stage.seconds, 's')}") if stage.built_at else ""
    yield "key", code(stage.key) if stage.key else ""
    yield "artifact", code(stage.tree) if stage.tree else ""
    yield "other artifacts of the same inputs", _several(stage.others)
    yield "folder", code(near(stage.out)) if stage.out else ""
    yield "wrote beside its output", _several(stage.wrote)
    yield "notes", _several(stage.notes)


def _several(texts: tuple[str, ...]) -> Markup:
    return join("; ".join(texts)) if len(texts) < 2 else element("ul", [element("li", text) for text in texts])  # noqa: PLR2004


def _links(source: Source, names: Sequence[str]) -> Markup:
    links = [
        element("a", element("bdi", name), href=f"#{source.stages[name]}") if name in source.stages else name
        for name in names
    ]
    return join(*[part for link in links for part in (", ", link)][1:])


def _metrics(stage: StageResult) -> Markup:
    if not stage.metrics:
        return Markup()
    titles = (("metric", "left"), ("value", "right"), ("95 % interval", "left"))
    rows = [
        row(
            element("th", element("bdi", name), scope="row", role="rowheader"),
            cell(show(metric.value, metric.unit), "value", class_="right"),
            cell(span(metric.interval, metric.unit), "95 % interval"),
        )
        for name, metric in stage.metrics.items()
    ]
    return table(titles, rows, f"Metrics of {stage.stage}", "small")


def _groups(inputs: Components) -> Iterator[Markup]:
    """Yield what the result depends on, in groups; what was looked for and missing is in the record alone."""
    for title, kinds in GROUPS.items():
        entries = {
            _label(item, kinds[0]): shortened(item.value)
            for item in inputs
            if item.kind in kinds and item.value not in UNSET
        }
        if entries:
            shown = list(entries.items())[:MOST]
            more = f"and {len(entries) - MOST} more in the record of the run" if len(entries) > MOST else ""
            listed = terms((name, code(text)) for name, text in shown)
            yield element("div", element("p", title, class_="group"), listed, element("p", more) if more else "")


def _label(component: KeyComponent, plain: ComponentKind) -> str:
    if component.kind != plain:
        return component_name(*component.identity)
    return f"{component.subject} of {component.owner}" if component.owner else component.subject
