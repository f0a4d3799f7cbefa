"""orun report: the reports of an earlier run."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import click

from orun.cli import options
from orun.cli.complete import complete_run
from orun.cli.outputs import named_outputs_option, output_option
from orun.cli.reports import list_requested, write_all
from orun.cli.run_ids import read_run
from orun.cli.verb import Verb
from orun.report.terminal import detect

EXAMPLES = (
    ("orun report --open", "the last run, in a browser"),
    ("orun report 20261121-0930 --html report.html", "an earlier run, as a file for whoever signs the release"),
    ("orun report last~1", "the tables of the run before the last one"),
)


@click.command("report", cls=Verb, examples=EXAMPLES)
@click.argument("run", default="last", shell_complete=complete_run)
@output_option("--html", "Write the HTML report.")
@output_option("--markdown", "Write the Markdown summary.")
@output_option("--junit", "Write JUnit XML.")
@named_outputs_option("--report", "Write a report by its name, of orun or of an installed package.")
@output_option("--reports", "Write every report into this folder.", metavar="DIR")
@click.option("--open", "show", is_flag=True, help="Open the HTML report in a browser.")
@options.store_option
def command(
    run: str,
    html: Path | None,
    markdown: Path | None,
    junit: Path | None,
    report: Sequence[tuple[str, Path]],
    reports: Path | None,
    show: bool,
    store: Path | None,
) -> int:
    """Show the report of RUN again: its tables, or the files that are named.

    A run is the beginning of its id, `last`, or `last~1` for the one before. Nothing is run or judged again.
    """
    from orun.noop.overwrites import refuse_in_records

    with options.open_store(store, read_only=True) as opened:
        result = read_run(opened, run)
    if show and html is None:
        html = Path(tempfile.mkdtemp(prefix="orun-")) / "report.html"
    own = ("html", html), ("markdown", markdown), ("junit", junit)
    files = list_requested([*own, *report], reports, summary=False)
    if not files:
        from orun.report.console import Console

        Console(sys.stdout, detect(sys.stdout)).finish(result)
        return 0
    refuse_in_records([item.file.path for item in files], opened.root)
    write_all(files, result)
    for item in files:
        if not item.file.is_stream:
            options.show([f"wrote {item.file.path}"])
    if show and html is not None:
        webbrowser.open(html.absolute().as_uri())
    return 0
