"""Machine and tools of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import subjects
from orun.report.html.source import Source
from orun.report.html.stages import NO_FACT
from orun.report.html.templating import code


@dataclass(frozen=True)
class Environment:
    """Facts of the machine by name, and each tool's version with the stages that depend on it."""

    host: Mapping[str, str]
    tools: Sequence[tuple[str, str]]


def environment(source: Source) -> Environment | None:
    """Return machine and tools; None if neither is known."""
    host = {
        name: text for name, text in source.result.host.items() if name not in NO_FACT and text not in (*NO_FACT, "")
    }
    tools: dict[tuple[str, str], list[str]] = {}
    for stage in source.result.stages:
        for tool in subjects(source.inputs.get(stage.stage, ()), ComponentKind.TOOL).items():
            tools.setdefault(tool, []).append(stage.stage)
    rows = [(code(version), ", ".join(stages)) for (_, version), stages in sorted(tools.items())]
    return Environment(host, rows) if host or rows else None
