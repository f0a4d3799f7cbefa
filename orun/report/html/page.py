"""The page: one file of HTML with its style in it, that loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files

from orun.core.run_record import RunResult
from orun.history.points import Series
from orun.report.html.accepted import accepted
from orun.report.html.checklist import checklist
from orun.report.html.graph import graph
from orun.report.html.head import contents, head
from orun.report.html.latency import latency
from orun.report.html.machine import environment
from orun.report.html.parts import Section
from orun.report.html.problems import culprits, failures, notices
from orun.report.html.release import release
from orun.report.html.sizes import sizes
from orun.report.html.source import Source, gather
from orun.report.html.stages import stages
from orun.report.html.tags import Markup, element
from orun.report.html.timeline import timeline
from orun.report.html.trends import trends
from orun.report.summary import style_of_run
from orun.report.terminal import Style

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
SECTIONS: Sequence[Callable[[Source], Section | None]] = (
    checklist,
    accepted,
    release,
    failures,
    culprits,
    notices,
    graph,
    sizes,
    latency,
    stages,
    timeline,
    trends,
    environment,
)
# Colours of the browser's tab.
ICONS: dict[Style, str] = {"good": "1a7f37", "bad": "cf222e", "doubt": "bf8700", "dim": "57606a"}


def page(result: RunResult, series: Sequence[Series] = (), trouble: str = "") -> str:
    """Return the HTML document of a run. The same run and baseline give the same document, whenever it is made.

    Args:
        result: the run; files in its folder are read if they exist.
        series: the past of its gated metrics on its machine.
        trouble: why the past is missing; else empty.
    """
    source = gather(result, series, trouble)
    sections = [built for section in SECTIONS if (built := section(source))]
    body = [
        head(source),
        contents(sections),
        element("main", [_section(section) for section in sections]),
        element("footer", "Times are in UTC. Measurements hold for the machine that built them.", class_="quiet"),
    ]
    return f"<!DOCTYPE html>\n{element('html', _meta(result), element('body', body), lang='en')}\n"


def _meta(result: RunResult) -> Markup:
    icon = f"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Ccircle cx='4' cy='4' r='4' fill='%23{ICONS[style_of_run(result)]}'/%3E%3C/svg%3E"  # noqa: E501
    sheet = files("orun.report.html").joinpath("style.css").read_text(encoding="utf-8")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"orun {result.orun}".strip()),
        element("title", f"{result.pipeline}: {result.outcome}"),
        element("link", rel="icon", href=icon),
        element("style", Markup(sheet)),
    )


def _section(section: Section) -> Markup:
    title = element("h2", section.title, id=f"{section.ident}-title")
    return element("section", title, section.body, id=section.ident, aria_labelledby=f"{section.ident}-title")
