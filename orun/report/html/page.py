"""HTML page of a run: one file with its style in it, that loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orun.core.run_record import RunResult
from orun.history.points import Series
from orun.report.html.accepted import compare_with_accepted
from orun.report.html.environment import view_environment
from orun.report.html.gates import view_gates
from orun.report.html.graph import view_graph
from orun.report.html.head import view_head
from orun.report.html.latency import view_latency
from orun.report.html.layers import view_layers
from orun.report.html.models import view_models
from orun.report.html.problems import view_diagnoses, view_failures, view_notices
from orun.report.html.release import view_release
from orun.report.html.sizes import view_sizes
from orun.report.html.source import Source, gather
from orun.report.html.stages import view_stages
from orun.report.html.templating import render
from orun.report.html.timeline import view_timeline
from orun.report.html.trends import view_trends
from orun.report.html.tuning import view_tuning
from orun.report.summary import choose_run_style
from orun.report.terminal import Style

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# Colours of the browser's tab.
ICONS: dict[Style, str] = {"good": "1a7f37", "bad": "cf222e", "doubt": "bf8700", "dim": "57606a"}


@dataclass(frozen=True)
class Section:
    """Section of the page. `templates/IDENT.html` draws what `view` returns; an empty view leaves the section out."""

    ident: str
    title: str
    view: Callable[[Source], object]


SECTIONS: Sequence[Section] = (
    Section("gates", "Release checklist", view_gates),
    Section("accepted", "Since the accepted release", compare_with_accepted),
    Section("release", "What is released", view_release),
    Section("models", "Models", view_models),
    Section("failures", "Failed stages", view_failures),
    Section("culprit", "Culprit", view_diagnoses),
    Section("notices", "Notices", view_notices),
    Section("graph", "Graph", view_graph),
    Section("sizes", "Size by stage", view_sizes),
    Section("latency", "Latency", view_latency),
    Section("layers", "Layers", view_layers),
    Section("tuning", "Tuning", view_tuning),
    Section("stages", "Stages", view_stages),
    Section("timeline", "Timeline", view_timeline),
    Section("trends", "Trend on this machine", view_trends),
    Section("environment", "Environment", view_environment),
)


def render_page(result: RunResult, series: Sequence[Series] = (), trouble: str = "") -> str:
    """Return the HTML document of a run. The same run and baseline give the same document, whenever it is made.

    Args:
        result: the run; files in its folder are read if they exist.
        series: the past of its gated metrics on its machine.
        trouble: why the past is missing; else empty.
    """
    source = gather(result, series, trouble)
    sections = [(section, view) for section in SECTIONS if (view := section.view(source))]
    return render(
        "page.html",
        source=source,
        result=result,
        head=view_head(source),
        sections=sections,
        policy=POLICY,
        icon=ICONS[choose_run_style(result)],
    )
