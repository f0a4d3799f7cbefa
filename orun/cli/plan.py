"""orun plan: what a run would do, and why."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

import orun
from orun.cli import options
from orun.cli.selection import TYPED, SelectingVerb, list_forced, selection_options
from orun.core.reason_codes import ReasonCode
from orun.core.serialization import encode
from orun.fs.os_errors import quote
from orun.planning.plan import DUE
from orun.report.facts import encode_reasons
from orun.report.stages import format_reasons
from orun.report.table import Cell, Column, render
from orun.report.terminal import Style, Terminal, detect
from orun.text.counts import count
from orun.text.positions import format_position
from orun.text.units import show

if TYPE_CHECKING:
    from orun.core.source_location import Problem
    from orun.planning.plan import Plan, Step

EXAMPLES = (
    ("orun plan pipelines/bert.yaml", "what would run, and why"),
    ("orun plan pipelines/bert.yaml --from fuse --json", "the same of one stage and all after it, for a program"),
)
COLUMNS = (Column("stage"), Column("would"), Column("why", flexible=True), Column("last time", "right"))
MACHINE, HERE = Column("machine"), "this machine"
STYLES: dict[str, Style] = {"run": "good", "maybe": "doubt", "cached": "dim", "skipped": "doubt", "blocked": "doubt"}
DECISIONS = {"run": "run", "maybe": "maybe run", "cached": "stay", "skipped": "be skipped", "blocked": "be blocked"}


@click.command("plan", cls=SelectingVerb, examples=EXAMPLES)
@options.file_argument
@selection_options
@options.set_option
@options.store_option
@options.remote_options
@options.fleet_option
@options.json_option
def command(file: str, overrides: Sequence[str], as_json: bool, **choices: Any) -> int:
    """Show what `orun FILE` with the same options would do; runs nothing.

    `maybe run` marks a stage whose inputs are built again. If they have the same bytes as before, its result is reused.
    A selected stage is blocked if the selection leaves out what it needs: a note names it. What a remote holds is not
    looked up.

    Below the stages stands what this machine lacks: packages, execution providers, memory, GPUs. A run would refuse to
    start. The exit code is 0 all the same.

    With --on, the machine of each stage is shown: that which has its result, or that on which it would start if all
    were idle. Below stand the facts of the machines, and why stages run on this one.
    """
    from orun.environment.resources import find_available_resources
    from orun.remote.options import Remote
    from orun.remote.settings import read_remote_url
    from orun.runner.preflight import find_missing

    choices["set"] = options.parse_overrides(overrides)
    choices["force"] = list_forced(file, choices)
    choices["remote"] = options.take_remote(choices)
    with options.activity_shown():
        plan = orun.plan(file, **choices)
    uses_remote = bool(read_remote_url(choices["remote"] or Remote(), plan.pipeline.project))
    options.warn(plan.left_out)
    refused = find_missing(plan, [step.stage.id for step in plan.steps], find_available_resources(memory=True))
    if as_json:
        document = {"pipeline": plan.pipeline.name, "steps": [_to_data(step, plan) for step in plan.steps]}
        machines = {"machines": encode(plan.machines), "left_out": plan.left_out} if plan.machines else {}
        options.show_json({**document, **machines, "refused": refused})
    else:
        terminal = detect(sys.stdout)
        again = shlex.join(["orun", *click.get_current_context().meta[TYPED]])
        options.show(format_plan(plan, refused, terminal, again, uses_remote=uses_remote))
    return 0


def format_plan(
    plan: Plan, refused: Sequence[Problem], terminal: Terminal, command_line: str, *, uses_remote: bool = False
) -> list[str]:
    """Return the table of a plan, its sum with the command that carries it out, and what a run would refuse."""
    table = render((*COLUMNS, MACHINE), [_build_row(step, plan) for step in plan.steps], terminal)
    machines = list(_format_machines(plan))
    lines = [*table, "", *machines, *([""] if machines else []), _summarize(plan, "" if refused else command_line)]
    lines += [f"{terminal.paint('note', 'doubt')}: {note}" for note in _iter_notes(plan, uses_remote=uses_remote)]
    if refused:
        lines.append(f"{terminal.paint('warning', 'doubt')}: a run would refuse this:")
    for problem in refused:
        lines.append(f"  {format_position(problem.position)}: {problem.message}")
        lines += [f"    hint: {problem.hint}"] if problem.hint else []
    return lines


def _format_machines(plan: Plan) -> Iterator[str]:
    """Yield the facts of each machine that a stage is planned for, and why stages run on this one."""
    for machine in plan.machines:
        if any(step.machine == machine.id for step in plan.steps):
            labels = [f"{name}={text}" for name, text in sorted(machine.labels.items())]
            versions = [f"{name} {version}" for name, version in machine.versions.items()]
            cores = count(machine.cores, "core")
            yield f"{machine.id}: {', '.join([*labels, cores, f'Python {machine.python}', *versions])}"
    for step in plan.steps:
        if why := plan.here.get(step.stage.id):
            yield f"{step.stage.id} runs on {HERE}: {why}"


def _build_row(step: Step, plan: Plan) -> tuple[Cell, ...]:
    return (
        Cell(step.stage.id, "strong"),
        Cell(DECISIONS[step.action], STYLES[step.action]),
        Cell(format_reasons(step.reasons, every=True)),
        Cell("" if step.action in ("cached", "blocked") or step.seconds is None else show(step.seconds, "s")),
        Cell(step.machine or (HERE if step.stage.id in plan.here else "")),
    )


def _summarize(plan: Plan, command_line: str) -> str:
    due = [step for step in plan.steps if step.action in DUE]
    if not due:
        blocked = sum(step.action == "blocked" for step in plan.steps)
        summary = f"{blocked} of {count(len(plan.steps), 'stage')} blocked" if blocked else "every stage is up to date"
        return f"nothing to run: {summary}"
    known = [step.seconds for step in due if step.seconds is not None]
    text = f"{len(due)} of {count(len(plan.steps), 'stage')} to run"
    if known:
        new = " and what is new" if len(known) < len(due) else ""
        text += f", about {show(sum(known), 's')} one after another{new}"
    return f"{text}; to do so: {command_line}" if command_line else text


def _iter_notes(plan: Plan, *, uses_remote: bool) -> Iterator[str]:
    """Yield a note for each stage that a stage blocks which is neither selected nor up to date, and on the remote."""
    planned = {step.stage.id for step in plan.steps}
    for step in plan.steps:
        for reason in step.reasons:
            before = reason.arguments.get("stage")
            if any(item.code == ReasonCode.NOT_SELECTED for item in reason.because) and before not in planned:
                needed = f"{step.stage.id} needs {before}, not up to date and not selected"
                yield f"{needed}; to select all that it needs: --to {quote(step.stage.id)}"
    due = any(step.action in (*DUE, "blocked") for step in plan.steps)
    if uses_remote and due:
        yield "the remote is not asked; what it holds is fetched instead of built"


def _to_data(step: Step, plan: Plan) -> dict[str, Any]:
    return {
        "stage": step.stage.id,
        "uses": step.stage.uses,
        "action": step.action,
        **encode_reasons(step.reasons),
        "seconds": step.seconds,
        "key": step.key,
        **({"machine": step.machine} if step.machine else {}),
        **({"here": plan.here[step.stage.id]} if step.stage.id in plan.here else {}),
    }
