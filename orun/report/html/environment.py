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
    """Machines and tools of a run.

    Attributes:
        host: facts of the machine of the run by name.
        machines: each machine of a fleet, with the stages that it ran.
        tools: each tool's version, with the stages that depend on it.
    """

    host: Mapping[str, str]
    machines: Sequence[tuple[str, str]]
    tools: Sequence[tuple[str, str]]


def environment(source: Source) -> Environment | None:
    """Return machine and tools; None if neither is known."""
    host = {
        name: text for name, text in source.result.host.items() if name not in NO_FACT and text not in (*NO_FACT, "")
    }
    tools: dict[tuple[str, str], list[str]] = {}
    machines: dict[str, list[str]] = {}
    for stage in source.result.stages:
        if stage.machine:
            machines.setdefault(stage.machine, []).append(stage.stage)
        for tool in subjects(source.inputs.get(stage.stage, ()), ComponentKind.TOOL).items():
            tools.setdefault(tool, []).append(stage.stage)
    rows = [(code(version), ", ".join(stages)) for (_, version), stages in sorted(tools.items())]
    ran = [(code(name), ", ".join(stages)) for name, stages in sorted(machines.items())]
    return Environment(host, ran, rows) if host or ran or rows else None
