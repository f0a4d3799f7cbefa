"""Section on sizes: what each stage makes of the size of the model, as bars."""

from __future__ import annotations

from orun.core.run_record import StageResult
from orun.report.html.parts import Section, cell, drawing, percent, row, table
from orun.report.html.source import Source
from orun.report.html.tags import Markup, element
from orun.text.units import changed, show

TITLES = (("stage", "left"), ("size", "right"), ("change", "right"), ("", "left"))
BAR = 14  # pixels


def sizes(source: Source) -> Section | None:
    """The section; None if fewer than two stages made a model."""
    models = [stage for stage in source.result.stages if "size" in stage.metrics and not _measures(stage)]
    if len(models) < 2:  # noqa: PLR2004 - a change needs two
        return None
    largest = max(stage.metrics["size"].value for stage in models)
    rows = []
    for number, stage in enumerate(models):
        size = stage.metrics["size"].value
        before = next((other for other in models if other.stage in stage.needs), None)
        title = f"{stage.stage}: {show(size, 'B')}"
        bar = element("rect", x=0, y=0, width=percent(size / largest if largest else 0), height=BAR, class_="size")
        rows.append(
            row(
                element("th", element("bdi", stage.stage), scope="row", role="rowheader"),
                cell(show(size, "B"), "size", class_="right"),
                cell(changed(before.metrics["size"].value, size, "B") if before else "", "change", class_="right"),
                cell(_picture(title, bar, f"size-{number}"), class_="picture"),
            )
        )
    return Section("sizes", "Size by stage", table(TITLES, rows, "Size of the model after each stage", "sizes"))


def _picture(title: str, bar: Markup, ident: str) -> Markup:
    note = "The bar is the share of the largest model."
    return drawing(title, note, bar, ident=ident, width="100%", height=BAR)


def _measures(stage: StageResult) -> bool:
    return stage.uses.startswith(("measure/", "release/"))
