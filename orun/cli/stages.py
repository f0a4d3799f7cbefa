"""orun stages: the stage library, and the documentation of a kind."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orun.cli import options
from orun.cli.describe import format_kind, to_data
from orun.cli.verb import Verb
from orun.report.table import Cell, Column, render
from orun.report.terminal import Terminal, detect

if TYPE_CHECKING:
    from orun.stages.kind import Kind

EXAMPLES = (
    ("orun stages", "every kind, with what it does"),
    ("orun stages quantize/dynamic", "what a kind does, its inputs, parameters and metrics"),
    ("orun stages ./prune.py:prune", "the same of a function of your own"),
)
COLUMNS = (Column("kind"), Column("what it does", flexible=True))


def _complete_kind(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from orun.stages.plugins import KINDS
    from orun.stages.registry import BUILTIN

    return [name for name in dict.fromkeys((*BUILTIN, *KINDS.find())) if name.startswith(incomplete)]


@click.command("stages", cls=Verb, examples=EXAMPLES)
@click.argument("kind", required=False, shell_complete=_complete_kind)
@options.json_option
def command(kind: str | None, as_json: bool) -> int:
    """List the kinds that `uses` may name, or document KIND: what it does, its inputs, parameters and metrics.

    Kinds of plug-in packages are listed after those of the library, and those that cannot be loaded below, with the
    reason.
    """
    from orun.stages.plugins import load_all
    from orun.stages.registry import BUILTIN, find, list_kinds
    from orun.text.suggestions import Unknown

    terminal = detect(sys.stdout)
    if kind:
        documented = find(kind, Path.cwd())
        if as_json:
            options.show_json(to_data(documented))
        else:
            options.show(format_kind(documented, terminal))
        return 0
    plug_ins = tuple(load_all(BUILTIN))
    kinds = (*list_kinds(), *(item for item in plug_ins if not isinstance(item, Unknown)))
    if as_json:
        options.show_json([to_data(item) for item in kinds])
    else:
        options.show(_format_library(kinds, terminal))
    for broken in plug_ins:
        if isinstance(broken, Unknown):
            click.echo(f"\n{broken}", err=True)
    return 0


def _format_library(kinds: Sequence[Kind], terminal: Terminal) -> list[str]:
    """Return the kinds in a table, with a blank line between folders."""
    rows: list[tuple[Cell, Cell]] = []
    folder = ""
    for kind in kinds:
        before, folder = folder, kind.name.rpartition("/")[0]
        if before and before != folder:
            rows.append((Cell(""), Cell("")))
        rows.append((Cell(kind.name, "strong"), Cell(kind.summary)))
    return render(COLUMNS, rows, terminal)
