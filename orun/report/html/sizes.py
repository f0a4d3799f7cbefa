"""Size of the model after each stage, as a waterfall."""

from __future__ import annotations

from orun.core.run_record import StageResult
from orun.report.html.chart import Bar, BarRow
from orun.report.html.source import Source
from orun.text.units import show, show_change


def view_sizes(source: Source) -> list[BarRow]:
    """Return a row for each stage that made a model; none if there is only one."""
    models = {
        stage.stage: stage.metrics["size"].value
        for stage in source.result.stages
        if "size" in stage.metrics and not stage.uses.startswith(("measure/", "release/"))
    }
    largest = max(models.values(), default=0.0)
    if len(models) < 2 or not largest:  # noqa: PLR2004 - a change needs two
        return []
    return [_build_row(source.by_name[name], models, largest, source.stages[name]) for name in models]


def _build_row(stage: StageResult, models: dict[str, float], largest: float, target: str) -> BarRow:
    size = models[stage.stage]
    before = next((models[name] for name in stage.needs if name in models), None)
    bars = [Bar(0.0, size / largest, "size", f"{stage.stage}: {show(size, 'B')}")]
    if before is not None and before != size:
        start, end = sorted((size / largest, before / largest))
        style = "saved" if size < before else "added"
        title = f"{show(abs(before - size), 'B')} {'smaller' if size < before else 'larger'} than its input"
        bars = [Bar(0.0, start, "size"), Bar(start, end - start, style, title)]
    return BarRow(stage.stage, (show(size, "B"), show_change(before, size, "B")), bars, target)
