"""orun watch: whether the log of a server has drifted from its release."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orun.cli import options
from orun.cli.complete import complete_file
from orun.cli.verb import Verb
from orun.core.serialization import encode
from orun.errors import UsageError
from orun.fs.observed_state import FOLDER, observe_presence
from orun.report.figures import ABSENT, format_minute
from orun.report.table import Cell, Column, render
from orun.report.terminal import Terminal, detect
from orun.text.counts import count
from orun.text.units import RATIO_FORM, parse_ratio, show

if TYPE_CHECKING:
    from orun.drift.release import Release
    from orun.drift.result import WatchedStatistic, WatchResult

EXAMPLES = (
    ("orun watch requests.jsonl --release artifacts/out/bert/release", "has anything drifted since the release?"),
    ("orun watch requests.jsonl --release /srv/bert --state bert.state", "every night, of a log that is rotated"),
    ("orun watch requests.jsonl --release /srv/bert --follow", "wait until something drifts"),
    ("orun watch *.jsonl.gz --release last --per 1d --json", "one request of each day, for a program"),
    ("orun watch requests.jsonl --release /srv/bert --learn '*=5000'", "against the first records of the log"),
)
COLUMNS = (
    Column("statistic", flexible=True),
    Column("before", "right"),
    Column("lately", "right"),
    Column("since (UTC)"),
    Column("p", "right"),
    Column("verdict"),
)
LATENCY = "latency"


@click.command("watch", cls=Verb, examples=EXAMPLES)
@click.argument("logs", nargs=-1, required=True, metavar="LOG...", shell_complete=complete_file)
@click.option(
    "--release",
    required=True,
    metavar="FOLDER|RUN",
    shell_complete=complete_file,
    help="What is served: a bundle, a server's folder, or a run of the store (an id, last).",
)
@click.option(
    "--learn",
    multiple=True,
    metavar="NAME=N",
    help="Compare a statistic (or 'outputs.*') with its values in the first N records of the log. Repeatable.",
)
@click.option("--per", default="", metavar="PERIOD", help="Let one record of each period count, as in 1h or 1d.")
@click.option(
    "--alpha", default="1%", show_default=True, help="Probability of ever naming a statistic that has not drifted."
)
@click.option("--state", default="", metavar="FILE", help="Go on with the test in this file, and keep it there.")
@click.option("--follow", is_flag=True, help="Wait for further records, until something has drifted.")
@click.option("-v", "--verbose", is_flag=True, help="Show every statistic.")
@options.store_option
@options.json_option
def command(logs: Sequence[str], release: str, store: Path | None, as_json: bool, verbose: bool, **choices: Any) -> int:
    """Look for drift of inputs, outputs and latency in the LOGs of a server, the oldest first; - reads standard input.

    Statistics of each sampled request are compared with those of the release's own examples, `reference.json`. The
    latency is compared with that of the first 500 records of the log, or with that of the release by --learn latency=0.
    The test is anytime-valid: you may look at a growing log as often as you like, and the probability of a false alarm
    over its whole life stays below alpha, for all statistics together. It assumes that requests are exchangeable; --per
    helps where traffic goes up and down with the hours.

    The exit code is 0 without drift, 1 if a statistic has drifted, and 2 if the log or the release cannot be read.
    """
    from orun.api import watch

    choices["learn"] = _parse_learn(choices["learn"])
    choices["alpha"] = _parse_alpha(choices["alpha"])
    choices["per"] = options.parse_seconds("--per", choices["per"])
    result = watch(logs, _find_release(release, store), **choices)
    if as_json:
        options.show_json({"drift": bool(result.drifted), **encode(result)})
    else:
        options.show(format_result(result, detect(sys.stdout), verbose=verbose))
    return result.exit_code


def _find_release(reference: str, store: Path | None) -> Path | Release:
    """Return the folder that is meant, or the only release of a run."""
    if observe_presence(reference) == FOLDER or os.sep in reference:
        return Path(reference)
    from orun.cli.run_ids import read_run
    from orun.drift.release import HINT, load_tree

    with ExitStack() as stack:
        try:
            opened = stack.enter_context(options.open_store(store, read_only=True))
            run = read_run(opened, reference)
        except UsageError as error:
            problem = f"{reference} is neither the folder of a release nor a run"
            raise UsageError(problem, why=error.problem, hint=f"ls {options.format_outputs_folder(store)}") from error
        named = {
            stage.stage: load_tree(opened, stage.tree, f"{stage.stage} of the run {run.folder.name}")
            for stage in run.stages
            if stage.tree
        }
    releases = {stage: item for stage, item in named.items() if item}
    if not releases:
        raise UsageError(f"the run {reference} has no release with a reference", hint=HINT)
    if len({item.digest for item in releases.values()}) > 1:
        why = f"with references of their own: {', '.join(releases)}"
        hint = f"name a folder in {options.format_outputs_folder(store)}"
        raise UsageError(f"the run {reference} has {len(releases)} releases", why=why, hint=hint)
    return next(iter(releases.values()))


def _parse_learn(pairs: Sequence[str]) -> Mapping[str, int]:
    learn: dict[str, int] = {}
    for pair in pairs:
        name, _, number = pair.rpartition("=")
        if not (name and number.isdecimal()):
            raise UsageError(f"--learn wants NAME=N, not '{pair}'", hint=f"--learn {LATENCY}=500")
        learn[name] = int(number)
    return learn


def _parse_alpha(text: str) -> float:
    try:
        return parse_ratio(text)
    except ValueError as error:
        raise UsageError(f"--alpha wants {RATIO_FORM.describe()}, not {text!r}") from error


def format_result(result: WatchResult, terminal: Terminal, *, verbose: bool = False) -> list[str]:
    """Return the table of the statistics that have drifted, or of all, and a sentence that sums it up."""
    shown = result.statistics if verbose else result.drifted
    rows = [
        (
            Cell(item.name, "strong"),
            Cell(_format_value(item.name, item.before)),
            Cell(_format_value(item.name, item.now)),
            Cell(format_minute(item.since) if item.since is not None else ""),
            Cell(f"{item.p:.2g}"),
            Cell(item.verdict, "bad" if item.verdict == "drift" else ""),
        )
        for item in shown
    ]
    table = render(COLUMNS, rows, terminal)
    return [*table, *([""] if table else []), *_iter_learnt_notes(shown), *_iter_notes(result), _summarize(result)]


def _format_value(name: str, value: float | None) -> str:
    return ABSENT if value is None else show(value, "s") if name == LATENCY else f"{value:.3g}"


def _iter_learnt_notes(shown: Sequence[WatchedStatistic]) -> Iterable[str]:
    learnt = [item for item in shown if item.learnt and item.verdict != "learning"]
    for number in sorted({item.learnt for item in learnt}):
        names = _quote([item for item in learnt if item.learnt == number])
        yield f"note: {names}: compared with the first {number} records of the log, not with the release"


def _quote(items: Sequence[WatchedStatistic]) -> str:
    return items[0].name if len(items) == 1 else count(len(items), "statistic")


def _iter_notes(result: WatchResult) -> Iterable[str]:
    learning = [item for item in result.statistics if item.verdict == "learning"]
    if learning:
        number = max(item.learnt for item in learning)
        yield f"note: {_quote(learning)}: the first {number} records become the reference, {result.records} are there"
    if result.latency is not None and result.statistics[-1].learnt:
        yield f"note: the median of the latency at release was {show(result.latency, 's')}"
    if absent := [item.name for item in result.statistics if item.verdict == "not logged"]:
        yield f"note: not in the log: {', '.join(absent)}"
    for reason, number in result.left_out.items():
        yield f"note: left out {count(number, 'line')}: {reason}"


def _summarize(result: WatchResult) -> str:
    span = ""
    if result.first is not None and result.last is not None:
        span = f" from {format_minute(result.first)} to {format_minute(result.last)} UTC"
    records = f"{count(result.records, 'record')}{span}"
    if drifted := result.drifted:
        return f"drift: {len(drifted)} of {count(len(result.statistics), 'statistic')}, in {records}"
    return f"no drift: {count(len(result.statistics), 'statistic')}, {records}"
