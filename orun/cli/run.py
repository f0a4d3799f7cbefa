"""orun run: bring a pipeline up to date and judge its gates."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import orun
from orun.cli import options
from orun.cli.outputs import named_outputs_option, output_option
from orun.cli.reports import FILES, list_requested, write_all
from orun.cli.selection import SelectingVerb, list_forced, selection_options
from orun.cli.signals import wrap_listener
from orun.core.open_gates import list_failed_gates
from orun.core.run_record import INTERRUPTED, RunInterrupted
from orun.errors import UsageError

if TYPE_CHECKING:
    from orun.blame.diagnosis import Diagnosis
    from orun.core.run_record import RunResult
    from orun.eventlog import Listener
    from orun.report.console import Detail

EXAMPLES = (
    ("orun pipelines/bert.yaml", "everything that is out of date"),
    ("orun pipelines/bert.yaml --to int8 --set stages.int8.with.per_channel=false", "another value, up to one stage"),
    ("orun pipelines/bert.yaml --only latency --fresh", "measure again"),
    ("orun pipelines/bert.yaml -k --reports reports", "for CI: go on after failures, write every report"),
)


@click.command("run", cls=SelectingVerb, examples=EXAMPLES)
@options.file_argument
@selection_options
@click.option("-k", "--keep-going", is_flag=True, help="Go on after a failure, and measure behind a failed gate.")
@click.option("--strict", is_flag=True, help="Every gate must pass; any other verdict, or none, fails the run.")
@click.option(
    "-j", "--jobs", type=click.IntRange(1), metavar="N", help="Cores to keep busy; all usable ones by default."
)
@click.option("--gpus", type=click.IntRange(0), metavar="N", help="GPUs to use; all visible ones by default.")
@options.set_option
@options.store_option
@options.remote_options
@options.fleet_option
@click.option("--wait", metavar="DURATION", help="How long a stage waits for a machine that can run it: 30min.")
@options.json_option
@output_option("--junit", "Also write JUnit XML.")
@output_option("--markdown", "Also write a Markdown summary.")
@output_option("--html", "Also write an HTML report of one file.")
@named_outputs_option("--report", "Also write a report by its name, of orun or of an installed package.")
@output_option(
    "--reports",
    "Also write every report: JUnit, Markdown, HTML, GitLab's Code Quality and metrics, JSON.",
    metavar="DIR",
)
@click.option("--no-blame", is_flag=True, help="Do not search for the cause of a failed gate.")
@click.option("-q", "--quiet", is_flag=True, help="Show failures and the last line only.")
@click.option("-v", "--verbose", is_flag=True, help="Show every reason, and the keys.")
def command(
    file: str,
    overrides: Sequence[str],
    reports: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **choices: Any,
) -> int:
    """Bring every stage of FILE up to date and judge its gates.

    A stage runs if something that its result depends on has changed: parameters, code, the content of inputs, versions
    of tools. Everything else comes from the store. Gates are judged on every run. If one fails, orun searches for the
    stage and the nodes behind it, for a minute at most, as `orun blame` does.

    After a stage has failed, no other starts, and a failed gate blocks all stages after its own. With --keep-going, a
    failed stage blocks only those after it. Behind a failed gate, stages that only measure or check run then, on the
    artifact that failed. What builds or releases stays blocked, and the run fails.

    \b
    Exit codes: 0 no gate failed, 1 a gate failed, 2 the file or the command line
    is wrong, 3 a stage failed, or is blocked because what it needs is not up to
    date, 4 a gate is undecided and a release waits for it, or the file or --strict
    says that it must be decided, 5 a bug in orun, 130 interrupted. When several
    apply: 130, 3, 1, 4.
    """  # noqa: D301 -- click's mark for text that keeps its lines
    if quiet and verbose:
        raise UsageError("--quiet and --verbose contradict each other", hint="use one of them")
    requested = list_requested([*((name, choices.pop(name)) for name in FILES), *choices.pop("report")], reports)
    choices["reports"] = [report.file.path for report in requested]
    blames = not choices.pop("no_blame")
    choices["past_gates"] = choices["keep_going"]
    choices["set"] = options.parse_overrides(overrides)
    choices["force"] = list_forced(file, choices)
    choices["remote"] = options.take_remote(choices)
    choices["wait"] = options.parse_seconds("--wait", choices["wait"])
    with ExitStack() as stack:
        if as_json:
            from orun.report.document import build_run_document

            result = _run_to_its_end(file, wrap_listener(stack, None), choices)
            diagnoses = _diagnose(file, choices, result, quiet=True) if blames else ()
            options.show_json(build_run_document(result, diagnoses))
            _annotate(result, as_json=True)
        else:

            def look_into(result: RunResult) -> None:
                if blames and (diagnoses := _diagnose(file, choices, result, quiet=quiet)):
                    from orun.cli import blame

                    blame.show(diagnoses, sentences=quiet)
                _annotate(result, as_json=False)

            detail: Detail = "quiet" if quiet else "verbose" if verbose else "normal"
            result = _run_and_show(file, detail, look_into, choices, stack)
        try:
            write_all(requested, result)
        except UsageError as error:
            error.exit_code = result.exit_code or error.exit_code  # the verdict counts for more
            raise
    return result.exit_code


def _run_to_its_end(file: str, listener: Listener, choices: Mapping[str, Any]) -> RunResult:
    """Run the pipeline; a run that the user stops has a result and reports, too."""
    try:
        return orun.run(file, on_event=listener, **choices)
    except RunInterrupted as stopped:
        return stopped.result


def _annotate(result: RunResult, *, as_json: bool) -> None:
    """In a step of GitHub Actions, say what is wrong at its line of the file; the runner reads both streams."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        from orun.report.github import format_commands

        click.echo("".join(f"{line}\n" for line in format_commands(result)), nl=False, err=as_json)


def _run_and_show(
    file: str, detail: Detail, look_into: Callable[[RunResult], None], choices: dict[str, Any], stack: ExitStack
) -> RunResult:
    from orun.report.console import Console
    from orun.report.terminal import detect

    console = Console(sys.stdout, detect(sys.stdout), detail)
    try:
        result = _run_to_its_end(file, wrap_listener(stack, console), choices)
    finally:
        console.close()
    console.finish(result, look_into)
    return result


def _diagnose(file: str, choices: Mapping[str, Any], result: RunResult, *, quiet: bool) -> tuple[Diagnosis, ...]:
    """Return what is behind the failed gates of a run, if a search on this machine can find it."""
    if not list_failed_gates(result.verdicts) or result.exit_code == INTERRUPTED:
        return ()
    from orun.fs.observed_state import find_project
    from orun.remote.settings import read_fleet_url

    if read_fleet_url(choices["executor"], find_project(Path(result.file).parent)):  # its machines measured the gate
        return ()
    from orun.cli import blame

    return blame.look_into(file, choices, result, quiet=quiet)
