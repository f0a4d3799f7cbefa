"""orun explain: each part of a stage's key, the last time and now."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import orun
from orun.cli import options
from orun.cli.complete import complete_stage
from orun.cli.verb import Verb
from orun.core.serialization import encode
from orun.report.facts import encode_reasons, pair_components
from orun.report.figures import NOT_THERE, show_component
from orun.report.table import Cell, Column, render
from orun.report.terminal import Style, Terminal, detect
from orun.text.wording.components import index_by_name, name_component
from orun.text.wording.reasons import describe_reasons

if TYPE_CHECKING:
    from orun.planning.plan import Step

EXAMPLES = (
    ("orun explain pipelines/bert.yaml int8", "why int8 runs, or what its result depends on"),
    ("orun explain pipelines/bert.yaml int8 --set stages.int8.with.per_channel=false", "what a change would do"),
)
COLUMNS = (Column(""), Column("key component"), Column("last time", flexible=True), Column("now", flexible=True))
Pair = Mapping[str, str | None]  # a component with its old and its new value
VERDICTS = {
    "run": "would run",
    "maybe": "may run",
    "cached": "is up to date",
    "skipped": "is skipped",
    "blocked": "is blocked",
}
USED = (Column(""), Column("seen to use"), *COLUMNS[2:])


@click.command("explain", cls=Verb, examples=EXAMPLES)
@options.file_argument
@click.argument("stage", shell_complete=complete_stage)
@options.set_option
@options.store_option
@options.remote_options
@options.fleet_option
@options.json_option
@click.option("-v", "--verbose", is_flag=True, help="Show digests in full.")
def command(
    file: str,
    stage: str,
    overrides: Sequence[str],
    store: Path | None,
    as_json: bool,
    verbose: bool,
    executor: str | None,
    **remote: Any,
) -> int:
    """Show why STAGE of FILE would run, or what its stored result depends on.

    Its key is made of components: parameters, the content of its inputs, code and paths that it names, versions of
    tools, what its result is bound to. Below are files, packages and variables that it was seen to use besides.
    What differs from the last time is marked with `*`.
    """
    values = options.parse_overrides(overrides)
    with options.activity_shown():
        step = orun.explain(file, stage, set=values, store=store, remote=options.take_remote(remote), executor=executor)
    options.warn(step.left_out)
    if as_json:
        options.show_json(_to_data(step))
    else:
        options.show(format_step(step, detect(sys.stdout), full=verbose))
    return 0


def format_step(step: Step, terminal: Terminal, *, full: bool = False) -> list[str]:
    """Return the decision, why, and the table of key components, changed ones first."""
    pairs = pair_components(step.previous, step.components)
    rows = _build_rows(pairs, full=full, compared=bool(step.previous))
    lines = [f"{terminal.paint(step.stage.id, 'strong')} ({step.stage.uses}) {VERDICTS[step.action]}"]
    if step.action != "cached":
        lines += [f"  {reason}" for reason in describe_reasons(step.reasons)]
    elif step.previous and any(pair["old"] != pair["new"] for pair in pairs):
        lines += ["  since the last time what is marked has changed, and a result for it was stored before"]
    lines += ["", *render(COLUMNS, rows, terminal)] if rows else []
    used = _build_rows(pair_components(*step.used), full=full, absent=NOT_THERE)
    lines += ["", *render(USED, used, terminal)] if step.used[0] else []
    if step.machine:  # whose facts are in the key
        names = ", ".join(name_component(*item.identity) for item in step.facts)
        lines += ["", f"machine {step.machine}", *([f"  its facts in the key: {names}"] if names else [])]
    return [*lines, "", f"key {step.key or 'not known before its inputs are made'}"]


def _build_rows(
    pairs: Sequence[Pair], *, full: bool, compared: bool = True, absent: str = ""
) -> list[tuple[Cell, ...]]:
    """Return a row for each pair, changed ones first and marked; without old values if nothing is compared."""
    rows: list[tuple[Cell, ...]] = []
    for pair in sorted(pairs, key=lambda pair: pair["old"] == pair["new"]):
        style: Style = "doubt" if compared and pair["old"] != pair["new"] else ""
        old, new = (show_component(pair[moment], full=full) or absent for moment in ("old", "new"))
        rows.append(
            (
                Cell("*" if style else "", style),
                Cell(name_component(pair["kind"] or "", pair["subject"] or "", pair["owner"] or ""), style),
                Cell(old if compared else ""),
                Cell(new, style),
            )
        )
    return rows


def _to_data(step: Step) -> dict[str, Any]:
    then, now = map(index_by_name, step.used)
    return {
        "stage": step.stage.id,
        "uses": step.stage.uses,
        "action": step.action,
        **encode_reasons(step.reasons),
        "key": step.key,
        **({"machine": step.machine, "facts": encode(step.facts)} if step.machine else {}),
        "parts": index_by_name(step.components),
        "previous": index_by_name(step.previous),
        "components": pair_components(step.previous, step.components),
        "read": {name: [value, now[name]] for name, value in then.items()},
        "used": pair_components(*step.used),
    }
