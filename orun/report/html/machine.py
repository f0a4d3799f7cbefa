"""Section on the machine and the tools of a run."""

from __future__ import annotations

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import subjects
from orun.report.html.parts import Section, cell, code, row, table, terms
from orun.report.html.source import Source
from orun.report.html.tags import Markup, element, join


def environment(source: Source) -> Section | None:
    """The section; None where neither is known."""
    host = terms(((name, code(text)) for name, text in source.result.host.items()), "terms facts")
    found: dict[tuple[str, str], list[str]] = {}
    for stage in source.result.stages:
        for tool in subjects(source.inputs.get(stage.stage, ()), ComponentKind.TOOL).items():
            found.setdefault(tool, []).append(stage.stage)
    return Section("environment", "Environment", join(host, _tools(found))) if host or found else None


def _tools(found: dict[tuple[str, str], list[str]]) -> Markup:
    if not found:
        return Markup()
    rows = [
        row(
            element("th", code(version), scope="row", role="rowheader"),
            cell(", ".join(stages), "stages"),
        )
        for (_, version), stages in sorted(found.items())
    ]
    return table((("tool", "left"), ("stages that rest on it", "left")), rows, "Tools and their versions", "small")
