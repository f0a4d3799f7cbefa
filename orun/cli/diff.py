"""orun diff: how two runs differ."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orun.cli import options
from orun.cli.complete import complete_run
from orun.cli.run_ids import read_run, refuse_pipeline_file
from orun.cli.verb import Verb
from orun.core.serialization import encode, parse_foreign_json, replace
from orun.core.source_location import abridge
from orun.errors import UsageError
from orun.fs.bounded_reads import RECORD_LIMIT, read_bounded
from orun.report.figures import ABSENT, NOT_THERE, show_component
from orun.report.table import Cell, Column, render
from orun.report.terminal import Terminal, detect
from orun.text.counts import count
from orun.text.lists import join_few
from orun.text.units import show, show_change
from orun.text.wording.components import name_component

if TYPE_CHECKING:
    from orun.core.run_record import RunResult
    from orun.history.run_diff import Change, ComponentChange, Figure, RunDifference, StageDifference

EXAMPLES = (
    ("orun diff", "the last run and the one before it"),
    ("orun diff last~5 last", "the last run and the fifth before it, of the same pipeline"),
    ("orun diff 20261121-0930 ci/record.json --json", "a run of this store and one of another machine, for a program"),
)
VALUES = (Column("old", flexible=True), Column("new", flexible=True))
COMMIT = 10  # digits of a commit that tell two apart for people
SHOWN = 5  # files that were not as in a commit


@click.command("diff", cls=Verb, examples=EXAMPLES)
@click.argument("old", default="last~1", shell_complete=complete_run)
@click.argument("new", default="last", shell_complete=complete_run)
@options.store_option
@options.json_option
@click.option("-v", "--verbose", is_flag=True, help="Show digests in full.")
def command(old: str, new: str, store: Path | None, as_json: bool, verbose: bool) -> int:
    """Show how the run NEW differs from the run OLD: the last run from the one before it when neither is named.

    A run is the beginning of its id, `last`, `last~1` for the one before, or a file: a run's `record.json` or
    `events.jsonl`, or what `orun FILE --json` printed. The command compares commits, files that differed
    from them, versions of orun, configurations, what each stage depends on (parameters, inputs, code, tools, what it
    read), artifacts, sizes, metrics and gates.
    """
    from orun.history.run_diff import compare

    pair = [_read_run(reference, store) for reference in (old, new)]
    difference = compare(*pair)
    if as_json:
        options.show_json(_to_data(difference))
    else:
        options.show(format_difference(difference, detect(sys.stdout), full=verbose))
    return 0


def _read_run(reference: str, store: Path | None) -> RunResult:
    """Return the run that is meant, with what its stages rest on as far as that is known."""
    from orun.eventlog import read_repeated
    from orun.history.run_diff import fill_inputs

    refuse_pipeline_file(reference)
    path = Path(reference)
    if path.is_file():
        run = _read_file(path)
        return fill_inputs(run, read_repeated(replace(run, folder=path.absolute().parent)))
    with options.open_store(store, read_only=True) as opened:
        run = read_run(opened, reference)
        return fill_inputs(run, read_repeated(run))


def _read_file(path: Path) -> RunResult:
    """Return the run of a record, an event log, or the output of `--json`."""
    from orun.eventlog import read_log
    from orun.report.document import decode_run
    from orun.store.checksummed_json import decode_checksummed

    try:
        if path.suffix == ".jsonl":
            return read_log(path)
        content = read_bounded(path, RECORD_LIMIT)
        data = parse_foreign_json(content)
        return decode_run(decode_checksummed(content) if "record" in data else data)
    except (OSError, TypeError, KeyError, ValueError) as error:
        raise UsageError(
            f"{path} is not a run that this orun can read",
            why=abridge(f"{type(error).__name__}: {error}"),
            hint="a run's record.json or events.jsonl, or the output of: orun FILE --json",
        ) from error


def format_difference(difference: RunDifference, terminal: Terminal, *, full: bool = False) -> list[str]:
    """Return the tables of what differs, and a sentence that sums it up."""
    format_value = partial(show_component, full=full)

    def render_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
        first, *rest = titles
        columns = (Column(first), *(Column(title, flexible=True) for title in rest), *VALUES)
        return render(columns, [(Cell(row[0], "strong"), *map(Cell, row[1:])) for row in rows], terminal)

    def list_sides(change: Change) -> tuple[str, str, str]:
        return change.name, format_value(change.old), format_value(change.new)

    def list_inputs(stage: StageDifference) -> list[tuple[str, ...]]:
        return [
            (
                stage.stage,
                _format_name(change),
                *(format_value(value) or NOT_THERE for value in (change.old, change.new)),
            )
            for change in stage.inputs
        ]

    in_both = [stage for stage in difference.stages if None not in stage.outcome]
    blocks = [
        _format_origins(difference, terminal),
        render_table(["configuration"], map(list_sides, difference.configuration)),
        render_table(["host"], map(list_sides, difference.host)),
        render_table(["stage", "rests on"], (row for stage in in_both for row in list_inputs(stage))),
        render_table(["stage", "result"], _iter_results(difference.stages, format_value)),
        _format_metrics(in_both, terminal),
        render_table(["gate"], map(list_sides, difference.gates)),
        [f"{terminal.paint('note', 'doubt')}: {note}" for note in difference.notes],
        [_sum_up(difference)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block).split("\n")


def _format_name(change: ComponentChange) -> str:
    return name_component(change.kind, change.subject, change.owner)


def _to_data(difference: RunDifference) -> dict[str, Any]:
    """Return what differs as plain data; a component has its name in words, too."""
    document: dict[str, Any] = encode(difference)
    for encoded, stage in zip(document["stages"], difference.stages, strict=True):
        encoded["inputs"] = [
            {"name": _format_name(change), **item} for item, change in zip(encoded["inputs"], stage.inputs, strict=True)
        ]
    return document


def _format_origins(difference: RunDifference, terminal: Terminal) -> list[str]:
    """Commits, what was not committed, and versions; nothing where both runs are of one clean commit, or of none."""
    old, new = difference.origins
    known = old.commit or new.commit or (old.orun and new.orun)
    if not known or (old == new and not new.edited):
        return []
    columns = (Column("run"), Column("commit"), Column("not as in the commit", flexible=True), Column("orun"))
    rows = [
        [
            Cell(run, "strong"),
            Cell((origin.commit or ABSENT)[:COMMIT]),
            Cell(ABSENT if origin.edited is None else join_few(origin.edited, SHOWN) or "nothing"),
            Cell(origin.orun or ABSENT),
        ]
        for run, origin in zip((difference.old, difference.new), difference.origins, strict=True)
    ]
    return render(columns, rows, terminal)


def _iter_results(stages: Sequence[StageDifference], text: Any) -> Iterable[tuple[str, ...]]:
    """Yield what came of each stage; one line for what has another name, or is in one run alone."""
    gone = {stage.key[0]: stage.stage for stage in stages if stage.key[0] and stage.outcome[1] is None}
    renamed = {stage.stage: gone[stage.key[1]] for stage in stages if stage.outcome[0] is None and stage.key[1] in gone}
    for stage in stages:
        if stage.stage in renamed:
            yield stage.stage, "name", renamed[stage.stage], stage.stage
        elif None not in stage.outcome:
            yield from _iter_result(stage, text)
        elif stage.stage not in renamed.values():
            yield stage.stage, "outcome", *map(text, stage.outcome)


def _iter_result(stage: StageDifference, text: Any) -> Iterable[tuple[str, ...]]:
    sizes = [None if size is None else show(size, "B") for size in stage.size]
    for name, (old, new) in {"outcome": stage.outcome, "artifact": stage.tree, "size": (sizes[0], sizes[1])}.items():
        if old != new and (name != "outcome" or stage.ended_differently):
            yield stage.stage, name, text(old), text(new)


def _format_metrics(stages: Sequence[StageDifference], terminal: Terminal) -> list[str]:
    columns = (
        *(Column(name) for name in ("stage", "metric")),
        *(Column(name, "right") for name in ("old", "new", "change")),
    )
    rows = [
        (Cell(stage.stage, "strong"), Cell(figure.name), *map(Cell, _format_figures(figure)))
        for stage in stages
        for figure in stage.metrics
    ]
    return render(columns, rows, terminal)


def _format_figures(figure: Figure) -> tuple[str, str, str]:
    old, new = (ABSENT if value is None else show(value, figure.unit) for value in (figure.old, figure.new))
    return old, new, show_change(figure.old, figure.new, figure.unit)


def _sum_up(difference: RunDifference) -> str:
    if difference.same:
        return f"{difference.new} does not differ from {difference.old}"
    counts = [count(len(difference.stages), "stage"), count(len(difference.gates), "gate")]
    return f"{difference.new} differs from {difference.old}: {', '.join(counts)}"
