"""orun diff: how two runs differ."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orun.cli import options
from orun.cli.complete import complete_run
from orun.cli.run_ids import find, record_of
from orun.cli.verb import Verb
from orun.core.serialization import encode, foreign_json
from orun.core.source_location import abridged
from orun.errors import UsageError
from orun.fs.observed_state import RECORD_LIMIT, read_bounded
from orun.report.figures import ABSENT, NOT_THERE, count, shortened
from orun.report.table import Cell, Column, render
from orun.report.terminal import Terminal, detect
from orun.store.layout import RECORD_FILE
from orun.text.units import changed, show
from orun.text.wording.components import component_name

if TYPE_CHECKING:
    from orun.core.run_record import RunResult
    from orun.history.run_diff import Change, ComponentChange, Figure, RunDifference, StageDifference

EXAMPLES = (
    ("orun diff", "the last run and the one before it"),
    ("orun diff last~5 last", "the last run and the fifth before it, of the same pipeline"),
    ("orun diff 20261121-0930 ci/record.json --json", "a run of this store and one of another machine, for a program"),
)
SIDES = (Column("old", flexible=True), Column("new", flexible=True))
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
    `events.jsonl`, or what `orun FILE --json` printed. What differs is told of the commit, of files that were not as in
    it, of orun's version, of the configuration, of what each stage rests on (parameters, inputs, code, tools, what it
    read), of artifacts, sizes, metrics and gates.
    """
    from orun.history.run_diff import compare

    pair = [_run(reference, store) for reference in (old, new)]
    found = compare(*pair)
    if as_json:
        options.show_json(_data(found))
    else:
        options.show(lines_of(found, detect(sys.stdout, os.environ), full=verbose))
    return 0


def _run(reference: str, store: Path | None) -> RunResult:
    """The run that is meant, with what its stages rest on as far as that is known."""
    from orun.eventlog import read_result

    path = Path(reference)
    if path.is_file():
        run = _of_file(path)
        repeated = path.parent.parent / run.repeats / RECORD_FILE
        return _completed(run, _of_file(repeated) if run.repeats and repeated.is_file() else None)
    with options.open_store(store, read_only=True) as opened:
        run = read_result(record_of(find(opened, reference)))
        known = {folder.name: folder for folder in opened.runs()}
        return _completed(run, read_result(record_of(known[run.repeats])) if run.repeats in known else None)


def _completed(run: RunResult, repeated: RunResult | None) -> RunResult:
    from orun.history.run_diff import completed

    return completed(run, repeated) if repeated else run


def _of_file(path: Path) -> RunResult:
    """The run of a record, an event log, or the output of `--json`."""
    from orun.eventlog import read_log
    from orun.store.checksummed_json import decode_checksummed

    try:
        if path.suffix == ".jsonl":
            return read_log(path)
        content = read_bounded(path, RECORD_LIMIT)
        data = foreign_json(content)
        return _decoded(decode_checksummed(content) if "record" in data else data, path)
    except (OSError, TypeError, KeyError, ValueError) as error:
        raise _no_run(path, error) from error


def _decoded(data: Any, path: Path) -> RunResult:
    from orun.report.document import run_of

    try:
        return run_of(data)
    except ValueError as error:
        raise _no_run(path, error) from error


def _no_run(path: Path, error: Exception) -> UsageError:
    forms = "a run's record.json or events.jsonl, or the output of: orun FILE --json"
    return UsageError(
        f"{path} is not a run that this orun can read", why=abridged(f"{type(error).__name__}: {error}"), hint=forms
    )


def lines_of(found: RunDifference, terminal: Terminal, *, full: bool = False) -> list[str]:
    """The tables of what differs, and a sentence that sums it up."""

    def text(value: str | None) -> str:
        return ABSENT if value is None else value if full else shortened(value)

    def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
        first, *rest = titles
        columns = (Column(first), *(Column(title, flexible=True) for title in rest), *SIDES)
        return render(columns, [(Cell(row[0], "strong"), *map(Cell, row[1:])) for row in rows], terminal)

    def sides(change: Change) -> tuple[str, str, str]:
        return change.name, text(change.old), text(change.new)

    def rests(one: StageDifference) -> list[tuple[str, ...]]:
        return [
            (one.stage, _name(change), *(text(value) or NOT_THERE for value in (change.old, change.new)))
            for change in one.inputs
        ]

    in_both = [one for one in found.stages if None not in one.outcome]
    blocks = [
        _origins(found, terminal),
        table(["configuration"], map(sides, found.configuration)),
        table(["host"], map(sides, found.host)),
        table(["stage", "rests on"], (row for one in in_both for row in rests(one))),
        table(["stage", "result"], _results(found.stages, text)),
        _metrics(in_both, terminal),
        table(["gate"], map(sides, found.gates)),
        [f"{terminal.paint('note', 'doubt')}: {note}" for note in found.notes],
        [_sum(found)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block).split("\n")


def _name(change: ComponentChange) -> str:
    return component_name(change.kind, change.subject, change.owner)


def _data(found: RunDifference) -> dict[str, Any]:
    """Return what differs as plain data; a component has its name in words, too."""
    document: dict[str, Any] = encode(found)
    for encoded, stage in zip(document["stages"], found.stages, strict=True):
        encoded["inputs"] = [
            {"name": _name(change), **item} for item, change in zip(encoded["inputs"], stage.inputs, strict=True)
        ]
    return document


def _origins(found: RunDifference, terminal: Terminal) -> list[str]:
    """Commits, what was not committed, and versions; nothing where both runs are of one clean commit, or of none."""
    old, new = found.origins
    known = old.commit or new.commit or (old.orun and new.orun)
    if not known or (old == new and not new.edited):
        return []
    columns = (Column("run"), Column("commit"), Column("not as in the commit", flexible=True), Column("orun"))
    rows = [
        [
            Cell(run, "strong"),
            Cell((one.commit or ABSENT)[:COMMIT]),
            Cell(_edited(one.edited)),
            Cell(one.orun or ABSENT),
        ]
        for run, one in zip((found.old, found.new), found.origins, strict=True)
    ]
    return render(columns, rows, terminal)


def _edited(names: Sequence[str] | None) -> str:
    if names is None:
        return ABSENT
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}" if names else "nothing"


def _results(stages: Sequence[StageDifference], text: Any) -> Iterable[tuple[str, ...]]:
    """What came of each stage; one line for what has another name, or is in one run alone."""
    gone = {one.key[0]: one.stage for one in stages if one.key[0] and one.outcome[1] is None}
    renamed = {one.stage: gone[one.key[1]] for one in stages if one.outcome[0] is None and one.key[1] in gone}
    for one in stages:
        if one.stage in renamed:
            yield one.stage, "name", renamed[one.stage], one.stage
        elif None not in one.outcome:
            yield from _result(one, text)
        elif one.stage not in renamed.values():
            yield one.stage, "outcome", *map(text, one.outcome)


def _result(one: StageDifference, text: Any) -> Iterable[tuple[str, ...]]:
    sizes = [None if size is None else show(size, "B") for size in one.size]
    for name, (old, new) in {"outcome": one.outcome, "artifact": one.tree, "size": (sizes[0], sizes[1])}.items():
        if old != new and (name != "outcome" or one.fared_otherwise):
            yield one.stage, name, text(old), text(new)


def _metrics(stages: Sequence[StageDifference], terminal: Terminal) -> list[str]:
    columns = (
        *(Column(name) for name in ("stage", "metric")),
        *(Column(name, "right") for name in ("old", "new", "change")),
    )
    rows = [
        (Cell(one.stage, "strong"), Cell(figure.name), *map(Cell, _figures(figure)))
        for one in stages
        for figure in one.metrics
    ]
    return render(columns, rows, terminal)


def _figures(figure: Figure) -> tuple[str, str, str]:
    old, new = (ABSENT if value is None else show(value, figure.unit) for value in (figure.old, figure.new))
    return old, new, changed(figure.old, figure.new, figure.unit)


def _sum(found: RunDifference) -> str:
    if found.same:
        return f"{found.new} does not differ from {found.old}"
    told = [count(len(found.stages), "stage"), count(len(found.gates), "gate")]
    return f"{found.new} differs from {found.old}: {', '.join(told)}"
