"""orun store gc: remove what nobody needs any more."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orun.cli import options
from orun.cli.verb import Verb
from orun.report.figures import format_age
from orun.report.stages import SHORT
from orun.report.table import Cell, Column, render
from orun.report.terminal import Terminal, detect
from orun.text.counts import count
from orun.text.units import DURATION_FORM, SIZE_FORM, Form, parse_duration, parse_size, show, split

if TYPE_CHECKING:
    from orun.runner.retention import Root
    from orun.store.gc import Collected
    from orun.store.pins import Pin

RUNS = 10
REMOVED = (Column("stage", flexible=True), Column("artifact"), Column("size", "right"), Column("last used"))
REMOVED_RUNS = (Column("run", flexible=True), Column("size", "right"))


def _build_parser(parse: Callable[[str | float], float], form: Form, unit: str) -> Callable[..., float | None]:
    """Return the callback of an option for a duration or a size.

    A plain number is refused: `--max-age 30` may mean days, and 30 seconds would be gone for good.
    """

    def read(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
        try:
            value = None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(f"{text!r} is not {form.describe(with_unit=True)}", ctx, param) from error
        if value is not None and value < 0:
            raise click.BadParameter(f"{text!r} is less than nothing", ctx, param)
        if value and text and (parts := split(text)) and not parts[1]:
            raise click.BadParameter(f"{text!r} has no unit, as in {text}{unit}", ctx, param)
        return value

    return read


EXAMPLES = (
    ("orun store gc --dry-run", "what would go, and how much that is"),
    ("orun store gc --max-size 20GB --max-age 30d", "keep of the rest what was used lately, up to a size"),
    ("orun store gc --runs 3 --releases 5", "keep less"),
)


@click.command("gc", cls=Verb, examples=EXAMPLES)
@click.option(
    "--runs",
    type=click.IntRange(0),
    default=RUNS,
    metavar="N",
    help=f"Keep the last N runs of each pipeline and what they made or used; {RUNS} when left out.",
)
@click.option(
    "--releases",
    type=click.IntRange(0),
    metavar="N",
    help="Keep the bundles of the last N versions of each pipeline; all when left out.",
)
@click.option(
    "--baseline",
    "baselines",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="Keep also what this baseline file names, of a pipeline that ran elsewhere. Repeatable.",
)
@click.option(
    "--max-size",
    callback=_build_parser(parse_size, SIZE_FORM, "GB"),
    metavar="SIZE",
    help="Keep further results, the last used first, until all that is kept has this size, as in 20GB.",
)
@click.option(
    "--max-age",
    callback=_build_parser(parse_duration, DURATION_FORM, "d"),
    metavar="AGE",
    help="Keep further results that were used, and runs that began, within this time, as in 30d.",
)
@click.option("-n", "--dry-run", is_flag=True, help="Say what would go; remove nothing.")
@options.store_option
@options.json_option
def gc(
    runs: int,
    releases: int | None,
    baselines: Sequence[Path],
    max_size: int | None,
    max_age: float | None,
    dry_run: bool,
    store: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Remove results that nothing keeps, and list them.

    It keeps the results of the last runs of each pipeline, models that a baseline beside a pipeline file accepts,
    bundles with a version, pins, and results that a running process relies on. It removes the rest, unless --max-size
    or --max-age keeps it. A removed result is built again when a run needs it.

    It also removes folders of runs (logs, record, sources). It keeps those of the last runs, of accepted baselines, and
    of pinned or released results. Folders of runs that ended within the last hour stay, those of killed runs for a
    week. The history of measurements stays.
    """
    from orun.runner import retention
    from orun.store.gc import Keep, collect
    from orun.store.inventory import read_inventory
    from orun.store.pins import list_pins

    with options.open_store(store) as opened:
        inventory = read_inventory(opened)
        roots = (*retention.list_accepted(inventory, baselines), *retention.list_releases(inventory, releases))
        pinned = list_pins(opened)
        notices_before = opened.drain_notices()
        named_runs = retention.list_accepted_runs(inventory, baselines)
        keep = Keep(runs, {root.tree for root in roots}, named_runs, max_size, max_age)
        collected = collect(opened, keep, dry_run=dry_run)
        # What is read twice is shown once.
        notices = tuple(
            dict.fromkeys((*notices_before, *opened.drain_notices(), *retention.list_unknown_baselines(inventory)))
        )
    if as_json:
        kept = {"roots": roots, "pins": pinned, "runs": runs}
        options.show_json({"dry_run": dry_run, **vars(collected), "kept": kept, "notices": notices})
    else:
        terminal = detect(sys.stdout)
        warnings = [f"{terminal.paint('warning', 'doubt')}: {notice}" for notice in notices]
        options.show([*warnings, *format_collected(collected, roots, pinned, terminal, dry_run=dry_run)])
    return 0


def format_collected(
    collected: Collected, roots: Sequence[Root], pinned: Sequence[Pin], terminal: Terminal, *, dry_run: bool
) -> list[str]:
    """Return the tables of what goes, what is kept by name, and the sum."""
    rows = [
        (
            Cell(f"{artifact.pipeline}/{artifact.stage}", "strong"),
            Cell(artifact.tree[:SHORT]),
            Cell(show(artifact.size, "B")),
            Cell(format_age(time.time() - artifact.used_at)),
        )
        for artifact in collected.removed
    ]
    kept = [f"kept: {root.tree[:SHORT]}, {root.why}" for root in roots]
    kept += [f"kept: {pin.tree[:SHORT]}, pinned as {pin.name}" for pin in pinned]
    runs = [(Cell(run.run, "strong"), Cell(show(run.size, "B"))) for run in collected.runs]
    sums = [_sum_up(collected, dry_run=dry_run)]
    blocks = [render(REMOVED, rows, terminal), render(REMOVED_RUNS, runs, terminal), kept, sums]
    return "\n\n".join("\n".join(block) for block in blocks if block).split("\n")


def _sum_up(collected: Collected, *, dry_run: bool) -> str:
    stays = f"{count(collected.kept_objects, 'object')} ({show(collected.kept_size, 'B')})"
    if not (collected.objects or collected.removed or collected.runs):
        return f"nothing to remove; {stays} {'would stay' if dry_run else 'stay'}"
    goes = f"{count(collected.objects, 'object')} ({show(collected.size, 'B')})"
    if collected.runs:
        size = sum(run.size for run in collected.runs)
        goes += f" and {count(len(collected.runs), 'folder')} of runs ({show(size, 'B')})"
    return f"{goes} would go, {stays} would stay" if dry_run else f"{goes} removed, {stays} stay"
