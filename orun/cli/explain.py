"""orun explain: each part of a stage's key, the last time and now."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import orun
from orun.cli import options
from orun.cli.verb import Verb
from orun.report.figures import ABSENT, NOT_THERE, shortened
from orun.report.table import Cell, Column, render
from orun.report.terminal import Style, Terminal, detect

if TYPE_CHECKING:
    from orun.planning.plan import Step

EXAMPLES = (
    ("orun explain pipelines/bert.yaml int8", "why int8 runs, or what its result depends on"),
    ("orun explain pipelines/bert.yaml int8 --set stages.int8.with.per_channel=false", "what a change would do"),
)
COLUMNS = (Column(""), Column("part of the key"), Column("last time", flexible=True), Column("now", flexible=True))
VERDICTS = {
    "run": "would run",
    "maybe": "may run",
    "cached": "is up to date",
    "skipped": "is skipped",
    "blocked": "is blocked",
}
READ = (Column(""), Column("seen to use"), *COLUMNS[2:])


@click.command("explain", cls=Verb, examples=EXAMPLES)
@options.file_argument
@click.argument("stage", shell_complete=options.complete_stage)
@options.set_option
@options.store_option
@options.json_option
@click.option("-v", "--verbose", is_flag=True, help="Show digests in full.")
def command(file: str, stage: str, overrides: Sequence[str], store: Path | None, as_json: bool, verbose: bool) -> int:
    """Show why STAGE of FILE would run, or what its stored result depends on.

    Its key is made of parts: parameters, the content of its inputs and of the code and paths that it names, versions
    of tools, what its result is bound to. Below are files, packages and variables that it was seen to use besides.
    What differs from the last time is marked with `*`.
    """
    step = orun.explain(file, stage, set=options.parse_overrides(overrides), store=store)
    if as_json:
        options.show_json(_data(step))
    else:
        options.show(lines_of(step, detect(sys.stdout, os.environ), full=verbose))
    return 0


def lines_of(step: Step, terminal: Terminal, *, full: bool = False) -> list[str]:
    """What is decided, why, and the table of the key's parts, changed ones first."""
    names = dict.fromkeys([*step.parts, *step.previous])
    changed = [name for name in names if step.previous and step.parts.get(name) != step.previous.get(name)]
    rows = [
        _row(step, name, name in changed, full=full) for name in sorted(names, key=lambda name: name not in changed)
    ]
    lines = [f"{terminal.paint(step.stage.id, 'strong')} ({step.stage.uses}) {VERDICTS[step.action]}"]
    if step.action != "cached":
        lines += [f"  {reason}" for reason in step.reasons]
    elif changed:
        lines += ["  since the last time what is marked has changed, and a result for it was stored before"]
    lines += ["", *render(COLUMNS, rows, terminal)] if rows else []
    lines += ["", *render(READ, _read(step, full=full), terminal)] if step.read else []
    return [*lines, "", f"key {step.key or 'not known before its inputs are made'}"]


def _row(step: Step, name: str, changed: bool, *, full: bool) -> tuple[Cell, ...]:
    old, new = (_shown(parts.get(name), full=full) for parts in (step.previous, step.parts))
    if not step.previous:
        old = ""
    style: Style = "doubt" if changed else ""
    return Cell("*" if changed else "", style), Cell(name, style), Cell(old), Cell(new, style)


def _read(step: Step, *, full: bool) -> list[tuple[Cell, ...]]:
    """What it was seen to read, changed ones first."""
    rows = sorted(step.read.items(), key=lambda row: row[1][0] == row[1][1])
    return [_compared(name, old, new, full=full) for name, (old, new) in rows]


def _compared(name: str, old: str, new: str, *, full: bool) -> tuple[Cell, ...]:
    style: Style = "doubt" if old != new else ""
    then, now = (_shown(value, full=full) or NOT_THERE for value in (old, new))
    return Cell("*" if old != new else "", style), Cell(name, style), Cell(then), Cell(now, style)


def _shown(value: str | None, *, full: bool) -> str:
    if value is None:
        return ABSENT
    return value if full else shortened(value)


def _data(step: Step) -> dict[str, Any]:
    return {
        "stage": step.stage.id,
        "uses": step.stage.uses,
        "action": step.action,
        "reasons": list(step.reasons),
        "key": step.key,
        "parts": dict(step.parts),
        "previous": dict(step.previous),
        "read": {name: list(pair) for name, pair in step.read.items()},
    }
