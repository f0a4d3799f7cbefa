"""orun bisect: the change between a good run and a bad one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orun.cli import options
from orun.cli.complete import complete_run
from orun.cli.run_ids import find_ended
from orun.cli.verb import Verb
from orun.eventlog import ignore
from orun.store.layout import locate_store
from orun.text.counts import count

if TYPE_CHECKING:
    from orun.blame.bisect import Bisection
    from orun.report.terminal import Terminal

EXAMPLES = (
    ("orun bisect last~1 last", "what made a gate fail that passed on the run before"),
    ("orun bisect 20260101-120000 20260105-120000", "what made the gate fail that passed on the first"),
    ("orun bisect 20260101 20260105 --gate accuracy.cosine", "what changed a metric, whether its gate fails or not"),
)


@click.command("bisect", cls=Verb, examples=EXAMPLES)
@click.argument("good", metavar="RUN_GOOD", shell_complete=complete_run)
@click.argument("bad", metavar="RUN_BAD", shell_complete=complete_run)
@click.option("--gate", default="", metavar="STAGE.METRIC", help="The gate; the first that only the bad run fails.")
@options.store_option
@options.json_option
def command(good: str, bad: str, gate: str, store: Path | None, as_json: bool) -> int:
    """Find the change that turned RUN_GOOD into RUN_BAD, by building what lies between.

    It builds the pipeline of RUN_GOOD with some of the differences, and drops differences until each one left is
    needed. Those are the answer, several if it takes them together. Differences are parameters, targets, code, stages,
    the gate's threshold, environment variables and the seed. What both runs have built comes from the store.

    If these explain nothing, the packages that differ are installed as they were, in isolated environments, and tried
    as well. Orun's own code, Python and the machine cannot be tried: they are listed, with what to type. Of environment
    variables a run keeps only digests: if $NAME had another value then, set $ORUN_GOOD_NAME or $ORUN_BAD_NAME to it. If
    both runs recorded their commits, the commits that touch the change are named.

    A run is named by its id, or the beginning of it, as in the folder runs/ of the store; `last` is the last one,
    `last~1` the one before it of the same pipeline.
    """
    from orun.blame.bisect import bisect
    from orun.cli.signals import stop_signals
    from orun.report.terminal import detect
    from orun.store import Store

    with stop_signals(), Store.open(locate_store(store)) as opened:
        good, bad = (find_ended(opened, reference).name for reference in (good, bad))
        bisection = bisect(opened, good, bad, gate, ignore if as_json else options.say_step)
    if as_json:
        options.show_json(bisection)
    else:
        options.show(format_bisection(bisection, detect(sys.stdout)))
    return 0


def format_bisection(bisection: Bisection, terminal: Terminal) -> list[str]:
    """Return what was compared, what differs, and the answer."""
    lines = [f"{terminal.paint(bisection.symptom, 'strong')}: good in {bisection.good}, bad in {bisection.bad}", ""]
    guilty = {change for cause in bisection.causes for change in cause}
    lines += [
        terminal.paint(f"  * {change}", "bad") if change in guilty else f"    {change}" for change in bisection.changes
    ]
    lines += [terminal.paint(f"  ? {change}", "doubt") for change in bisection.fixed]
    builds = count(bisection.built, "partial build")
    lines += ["", f"{bisection.sentence} ({builds})", *(f"try {advice}" for advice in bisection.advice)]
    between = bisection.commits
    if between.commits:
        lines += ["", "commits that touch it:" if bisection.causes else "commits that touch what differs:"]
        lines += [f"  {commit}" for commit in between.commits]
        lines += [f"  and {between.more} more"] if between.more else []
    return [*lines, *([f"({between.note})"] if between.note else [])]
