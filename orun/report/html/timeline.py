"""Timeline: when each stage waited and ran, as bars over the time of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orun.report.html.chart import Axis, Bar, BarRow
from orun.report.html.source import Source, StageSpan
from orun.report.stages import STYLES, format_stage
from orun.text.counts import count
from orun.text.units import show

FOLDED = 60  # stages from which the drawing is shown when one asks for it
LEAST = 0.003  # of the width, that is still seen


def view_timeline(source: Source) -> Mapping[str, Any] | None:
    """Return the timeline; None if no stage ran, or the log of the run is not there. `fold` names a folded drawing."""
    spans = source.spans
    if not spans:
        return None
    axis = Axis.of("", (0.0, max(source.result.seconds, *(span.ended for span in spans), 1e-3)), "s")
    fold = f"{count(len(spans), 'stage')} that ran" if len(spans) > FOLDED else ""
    return {"rows": [_build_row(source, span, axis) for span in spans], "ticks": axis.ticks, "fold": fold}


def _build_row(source: Source, span: StageSpan, axis: Axis) -> BarRow:
    stage = source.by_name[span.stage]
    return BarRow(
        name=span.stage,
        figures=(format_stage(source.result, stage)[2],),
        bars=list(_iter_bars(span, axis, f"{STYLES[stage.outcome]} {stage.outcome}", stage.outcome)),
        target=source.stages[span.stage],
    )


def _iter_bars(span: StageSpan, axis: Axis, style: str, outcome: str) -> Iterator[Bar]:
    began, ended = axis.scale.compute_share(span.began), axis.scale.compute_share(span.ended)
    if span.waited is not None and span.waited < span.began:
        waited = axis.scale.compute_share(span.waited)
        title = f"{span.stage} waited for {span.waited_for}, {show(span.began - span.waited, 's')}"
        yield Bar(waited, began - waited, "waited", title)
    title = f"{span.stage}: {outcome}, from {show(span.began, 's')} to {show(span.ended, 's')} of the run"
    yield Bar(began, max(ended - began, LEAST), f"run {style}", title)
