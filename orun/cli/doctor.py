"""orun doctor: what this machine has, and what stages would lack on it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

import orun
from orun import __version__
from orun.cli import options
from orun.cli.complete import complete_file
from orun.cli.verb import Verb
from orun.environment.platforms import list_missing_functions
from orun.errors import UsageError
from orun.report.table import Cell, Column, render
from orun.report.terminal import Terminal, detect
from orun.text.lists import join_few
from orun.text.suggestions import show_path
from orun.text.units import show

if TYPE_CHECKING:
    from orun.core.targets import Environment
    from orun.pipeline.model import Pipeline

    Needs: TypeAlias = dict[tuple[str, Environment | None], list[str]]  # by tool and where it must be, who needs it

EXAMPLES = (
    ("orun doctor", "versions of tools, providers that really load, the store"),
    ("orun doctor pipelines/bert.yaml", "what a file needs, and what it would lack; exit 2 when it lacks something"),
    ("orun doctor --on ray://head:6379", "what is wrong with the machines of a fleet"),
)
TOOLS = (Column("tool"), Column("version"), Column("needed by", flexible=True))
MOST = 5  # names in a cell
ENVIRONMENTS = (Column("isolated environment"), Column("made for", flexible=True), Column("state"))
PROVIDERS = (Column("provider"), Column("loads"), Column("why not", flexible=True))


@click.command("doctor", cls=Verb, examples=EXAMPLES)
@click.argument("file", required=False, shell_complete=complete_file)
@options.set_option
@options.store_option
@click.option("--on", "fleet", metavar="URL", help="Check the machines of this fleet instead of this one.")
@options.json_option
def command(file: str | None, overrides: Sequence[str], store: Path | None, fleet: str | None, as_json: bool) -> int:
    """Show what this machine has, and what the stages of FILE need and would lack on it.

    ONNX Runtime also lists providers that cannot load. So each provider is tried in a process of its own, which takes a
    while for TensorRT.

    `trace` says how much of a stage's reads orun sees on this machine: `full`, or `python` with the reason.

    With --on it connects to the machines of a fleet instead, and says what is wrong with each; exit 2 if something is.
    """
    if fleet:
        if file:
            raise UsageError("--on checks the machines of a fleet, and no file", hint=f"orun doctor --on {fleet}")
        return _check_fleet(fleet, as_json=as_json)
    from orun.errors import PipelineError
    from orun.runner.preflight import find_lacks
    from orun.store.layout import locate_store

    pipeline = orun.load(file, options.parse_overrides(overrides)) if file else None
    facts = _collect_facts(locate_store(store, Path(file).absolute().parent if file else None), pipeline)
    problems = [problem for stage in pipeline.stages for problem in find_lacks(pipeline, stage)] if pipeline else []
    if as_json:
        options.show_json({**facts, "problems": problems})
        return PipelineError.exit_code if problems else 0
    options.show(format_facts(facts, detect(sys.stdout)))
    if problems:
        raise PipelineError(problems)
    return 0


def _check_fleet(url: str, *, as_json: bool) -> int:
    """Show what is wrong with each machine of a fleet; return the exit code."""
    from time import time

    from orun.cli.machines import find_machines, format_problems, list_problems

    machines, left_out = find_machines(url)
    options.warn(left_out)
    problems = {machine.id: list_problems(machine, time()) for machine in machines}
    if as_json:
        options.show_json({"machines": problems, "left_out": left_out})
    elif machines:
        options.show(format_problems(problems, detect(sys.stdout)))
    return UsageError.exit_code if not machines or left_out or any(problems.values()) else 0


def _collect_facts(store: Path, pipeline: Pipeline | None) -> dict[str, Any]:
    from orun.executors import explain_partial_tracing

    why = explain_partial_tracing()
    return {
        "orun": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "store": _describe_store(store),
        "trace": {"level": "python" if why else "full", "why": why},
        "missing": list(list_missing_functions()),
        "tools": _list_tools(_list_needs(pipeline) if pipeline else _list_all_needs()),
        "providers": _probe_providers(),
        "environments": _list_environments(),
    }


def _describe_store(folder: Path) -> dict[str, Any]:
    folder = folder.absolute()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    facts = {"folder": str(folder), "writable": os.access(existing, os.W_OK), "free": shutil.disk_usage(existing).free}
    if existing == folder:
        from orun.store import Store

        with Store.open(folder, read_only=True) as store:
            facts["notices"] = list(store.notices)
    return facts


def _list_all_needs() -> Needs:
    """Return every tool with the kinds that need it."""
    from orun.stages.registry import list_kinds

    needs: Needs = {}
    for kind in list_kinds():
        for tool in kind.spec.tools:
            needs.setdefault((tool, None), []).append(kind.name)
    return needs


def _list_needs(pipeline: Pipeline) -> Needs:
    """Return the tools that a pipeline needs, with its stages that do."""
    from orun.runner.preflight import MODEL_RUNTIME, list_needed_tools

    needs: Needs = {}
    for stage in pipeline.stages:
        wanted = [(tool, stage.environment) for tool in list_needed_tools(pipeline, stage)]
        environments = (
            {stage.choose_environment(target): None for target in stage.targets} if stage.out_of_process else {}
        )
        wanted += [
            (tool, environment)
            for environment in environments
            if environment != stage.environment
            for tool in MODEL_RUNTIME
        ]
        for need in wanted:
            needs.setdefault(need, []).append(stage.id)
    return needs


def _list_tools(needs: Needs) -> list[dict[str, Any]]:
    """Return every tool that is needed, with its version where it is needed, or how to install it."""
    from orun.environment import distributions, venvs
    from orun.environment.install_commands import format_install_command

    rows = []
    for (tool, environment), users in needs.items():
        distribution = distributions.find(tool, venvs.read_packages(environment))
        row: dict[str, Any] = {
            "tool": distribution[0] if distribution else tool.replace("|", " or "),
            "version": distribution[1] if distribution else None,
            "needed_by": users,
            "install": "" if distribution or environment else format_install_command([tool]),
        }
        if environment:
            row |= {"environment": environment.name, "made": venvs.is_known(environment)}
        rows.append(row)
    return rows


def _probe_providers() -> dict[str, dict[str, Any]]:
    """Return each provider that ONNX Runtime was built with: whether it loads, and why not."""
    from orun.environment import providers

    probes = {name: providers.probe(name, "{}") for name in providers.list_compiled_in()}
    return {
        name: {"loads": name in probe.providers, "why_not": providers.find_first_reason(probe.messages)}
        for name, probe in probes.items()
    }


def _list_environments() -> list[dict[str, Any]]:
    from orun.environment import venvs

    return [
        {
            "folder": str(folder),
            "holds": [line for line in environment.requirements if not line.startswith("-")],
            "packages": dict(environment.packages),
            "damage": venvs.describe_damage(folder),
        }
        for folder, environment in venvs.read_all().items()
    ]


def format_facts(facts: dict[str, Any], terminal: Terminal) -> list[str]:
    """Return the facts as text."""
    from orun.executors import format_trace_notice

    trace = facts["trace"]
    store = facts["store"]
    state = f"{show(store['free'], 'B')} free" if store["writable"] else "not writable"
    tools = [_build_tool_row(tool) for tool in facts["tools"]]
    providers = [_build_provider_row(name, provider) for name, provider in facts["providers"].items()]
    environments = [_build_environment_row(environment) for environment in facts.get("environments", ())]
    return [
        f"orun {facts['orun']}, Python {facts['python']}, {facts['platform']}",
        f"store: {show_path(store['folder'])}, {state}",
        *(f"  {notice}" for notice in store.get("notices", ())),
        format_trace_notice(trace["why"]) if trace["why"] else f"trace: {trace['level']}",
        *(f"missing on this system: {clause}" for clause in facts.get("missing", ())),
        "",
        *([*render(TOOLS, tools, terminal), *_format_installs(facts["tools"]), ""] if tools else []),
        *(render(PROVIDERS, providers, terminal) if providers else ["ONNX Runtime is not installed: no providers"]),
        *(["", *render(ENVIRONMENTS, environments, terminal)] if environments else []),
    ]


def _build_tool_row(tool: dict[str, Any]) -> tuple[Cell, ...]:
    version = Cell(tool["version"]) if tool["version"] else Cell("missing", "doubt")
    if tool.get("made") is False:
        version = Cell("not made yet")
    name = f"{tool['tool']} in {tool['environment']}" if "environment" in tool else tool["tool"]
    return Cell(name, "strong"), version, Cell(join_few(tool["needed_by"], MOST))


def _format_installs(tools: Sequence[dict[str, Any]]) -> list[str]:
    """Return each command that installs missing tools, after their names. In the table it would leave no room."""
    commands: dict[str, list[str]] = {}
    for tool in tools:
        if tool["install"]:
            commands.setdefault(tool["install"], []).append(tool["tool"])
    return [f"to install {', '.join(names)}: {command}" for command, names in commands.items()]


def _build_environment_row(environment: dict[str, Any]) -> tuple[Cell, ...]:
    damage = environment["damage"]
    state = Cell(f"will be made again: {damage}", "doubt") if damage else Cell("OK", "good")
    packages = [line.partition(" --hash")[0] for line in environment["holds"]]
    return Cell(show_path(environment["folder"]), "strong"), Cell(join_few(packages, MOST)), state


def _build_provider_row(name: str, provider: dict[str, Any]) -> tuple[Cell, ...]:
    if provider["loads"]:
        return Cell(name, "strong"), Cell("yes", "good"), Cell("")
    return Cell(name, "strong"), Cell("no", "doubt"), Cell(provider["why_not"])
