"""Machine and tools of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import index_by_subject
from orun.report.html.source import Source
from orun.report.html.stages import NO_FACT
from orun.report.html.templating import render_code


def view_environment(source: Source) -> Mapping[str, Any] | None:
    """Return facts of the machine, machines of a fleet and tools with their stages; None if nothing is known."""
    host = {
        name: text for name, text in source.result.host.items() if name not in NO_FACT and text not in (*NO_FACT, "")
    }
    tools: dict[tuple[str, str], list[str]] = {}
    machines: dict[str, list[str]] = {}
    for stage in source.result.stages:
        if stage.machine:
            machines.setdefault(stage.machine, []).append(stage.stage)
        for tool in index_by_subject(source.inputs.get(stage.stage, ()), ComponentKind.TOOL).items():
            tools.setdefault(tool, []).append(stage.stage)
    rows = [(render_code(version), ", ".join(stages)) for (_, version), stages in sorted(tools.items())]
    ran = [(render_code(name), ", ".join(stages)) for name, stages in sorted(machines.items())]
    return {"host": host, "machines": ran, "tools": rows} if host or ran or rows else None
