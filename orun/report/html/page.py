"""HTML page of a run: one file with its style in it, that loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orun.core.run_record import RunResult
from orun.history.points import Series
from orun.report.html.accepted import compare_with_accepted
from orun.report.html.environment import environment
from orun.report.html.gates import gates
from orun.report.html.graph import graph
from orun.report.html.head import head
from orun.report.html.latency import latency
from orun.report.html.layers import layers
from orun.report.html.models import models
from orun.report.html.problems import culprit, failures, notices
from orun.report.html.release import release
from orun.report.html.sizes import sizes
from orun.report.html.source import Source, gather
from orun.report.html.stages import stages
from orun.report.html.templating import render
from orun.report.html.timeline import timeline
from orun.report.html.trends import trends
from orun.report.html.tuning import tuning
from orun.report.summary import style_of_run
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
    Section("gates", "Release checklist", gates),
    Section("accepted", "Since the accepted release", compare_with_accepted),
    Section("release", "What is released", release),
    Section("models", "Models", models),
    Section("failures", "Failed stages", failures),
    Section("culprit", "Culprit", culprit),
    Section("notices", "Notices", notices),
    Section("graph", "Graph", graph),
    Section("sizes", "Size by stage", sizes),
    Section("latency", "Latency", latency),
    Section("layers", "Layers", layers),
    Section("tuning", "Tuning", tuning),
    Section("stages", "Stages", stages),
    Section("timeline", "Timeline", timeline),
    Section("trends", "Trend on this machine", trends),
    Section("environment", "Environment", environment),
)


def page(result: RunResult, series: Sequence[Series] = (), trouble: str = "") -> str:
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
        head=head(source),
        sections=sections,
        policy=POLICY,
        icon=ICONS[style_of_run(result)],
    )
