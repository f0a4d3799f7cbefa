"""orun history: how measurements went from run to run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

import click

from orun.cli import options, outputs
from orun.cli.complete import complete_metric
from orun.cli.outputs import output_option
from orun.cli.verb import Verb
from orun.errors import UsageError
from orun.text.counts import count
from orun.text.suggestions import show_path

if TYPE_CHECKING:
    from orun.history import Point, Series

EXAMPLES = (
    ("orun history", "every metric: its trend, its latest value, its last change"),
    ("orun history latency.p50 --pipeline bert", "one metric of one stage, measurement by measurement"),
    ("orun history p50 --csv p50.csv", "for a spreadsheet"),
    ("orun history --mend", "put a damaged history aside, and begin a new one"),
    ("orun history --mlflow http://localhost:5000", "log what is not logged yet to MLflow"),
)


@click.command("history", cls=Verb, examples=EXAMPLES)
@click.argument("metric", required=False, default="", shell_complete=complete_metric)
@click.option("--pipeline", default="", metavar="NAME", help="Only of the pipeline of that name.")
@click.option(
    "--last", type=click.IntRange(1), default=20, metavar="N", help="Measurements and changes to list of each series."
)
@output_option("--csv", "Write CSV instead; - prints it.", "csv_file")
@click.option("--mlflow", default="", metavar="URI", help="Log to an MLflow tracking server instead.")
@click.option(
    "--mend", "repair", is_flag=True, help="Put a damaged history aside, and add what the store's runs have measured."
)
@options.store_option
@options.json_option
def command(
    metric: str,
    pipeline: str,
    last: int,
    csv_file: Path | None,
    mlflow: str,
    repair: bool,
    store: Path | None,
    as_json: bool,
) -> int:
    """Show what runs measured of METRIC (`p50`, or `latency.p50`) over time, or of everything.

    Measurements are kept in history.sqlite in the store, or in the file that $ORUN_HISTORY names. Each machine has its
    own series. A change is where the level moved for good: by E-divisive at 1 % for noisy metrics, by any other value
    for exact ones. History informs; gates measure for themselves.
    """
    if sum(map(bool, (csv_file, mlflow, as_json))) > 1:
        raise UsageError("--csv, --mlflow and --json are one instead of the other", hint="orun history --csv FILE")
    if repair:
        _repair(store, as_json=as_json)
        return 0
    from orun.history import History, locate_history
    from orun.history.search import find_points
    from orun.store.layout import locate_store

    points = find_points(History(locate_history(locate_store(store))), metric, pipeline)
    if mlflow:
        from orun.history.export import to_mlflow

        options.show([f"logged {to_mlflow(points, mlflow)} runs to {mlflow}"])
    elif csv_file:
        from orun.history.export import to_csv
        from orun.noop.overwrites import refuse_in_records

        file = outputs.look_at(csv_file)
        refuse_in_records([csv_file], locate_store(store))
        outputs.write(file, to_csv(points))
    else:
        _show(points, last, detailed=bool(metric), as_json=as_json)
    return 0


def _repair(store: Path | None, *, as_json: bool) -> None:
    from orun.history import History, locate_history
    from orun.history.repair import repair

    with options.open_store(store) as opened:
        history = History(locate_history(opened.root))
        damaged, added = repair(history, opened)
    if as_json:
        options.show_json({"file": history.path, "damaged": damaged, "added": added})
        return
    notices = [f"{show_path(str(history.path))} was damaged, and is {show_path(str(damaged))} now"] if damaged else []
    options.show(
        [*notices, f"{show_path(str(history.path))}: {count(added, 'measurement')} added from the records of runs"]
    )


def _show(points: Sequence[Point], last: int, *, detailed: bool, as_json: bool) -> None:
    from orun.history import group_points
    from orun.report.terminal import detect
    from orun.report.trend import format_detail, format_overview

    all_series = group_points(points)
    if as_json:
        options.show_json({"series": [_to_data(series) for series in all_series]})
        return
    terminal = detect(sys.stdout)
    if not detailed:
        options.show(format_overview(all_series, time(), terminal))
        return
    options.show(
        "\n\n".join("\n".join(format_detail(series, time(), terminal, last)) for series in all_series).split("\n")
    )


def _to_data(series: Series) -> dict[str, object]:
    from orun.history.changes import find_changes

    return {
        "pipeline": series.last.pipeline,
        "stage": series.last.stage,
        "metric": series.last.metric,
        "unit": series.last.unit,
        "host": series.last.host,
        "machine": series.last.machine,
        "changes": [{**vars(change), "run": series.points[change.index].run} for change in find_changes(series)],
        "points": series.points,
    }
