"""Section on the machine and the tools of a run."""

from __future__ import annotations

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import subjects
from orun.report.html.parts import Section, cell, code, row, table, terms
from orun.report.html.source import Source
from orun.report.html.tags import Markup, element, join

FLAGS = "cpu flags"  # a digest, which says nothing to a reader
UNKNOWN = "unknown"  # what the system does not tell


def environment(source: Source) -> Section | None:
    """The section; None where neither is known."""
    facts = ((name, code(text)) for name, text in source.result.host.items() if name != FLAGS and text != UNKNOWN)
    host = terms(facts, "terms facts")
    tools: dict[tuple[str, str], list[str]] = {}
    for stage in source.result.stages:
        for tool in subjects(source.inputs.get(stage.stage, ()), ComponentKind.TOOL).items():
            tools.setdefault(tool, []).append(stage.stage)
    return Section("environment", "Environment", join(host, _tools(tools))) if host or tools else None


def _tools(tools: dict[tuple[str, str], list[str]]) -> Markup:
    if not tools:
        return Markup()
    rows = [
        row(
            element("th", code(version), scope="row", role="rowheader"),
            cell(", ".join(stages), "stages"),
        )
        for (_, version), stages in sorted(tools.items())
    ]
    return table((("tool", "left"), ("stages that rest on it", "left")), rows, "Tools and their versions", "small")
