"""The command line's entry: finds the verb, runs it, and turns every error into a message and an exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click
from click.exceptions import Exit

from orun import __version__
from orun.cli.verb import Verbs, find_lost_folder_error
from orun.errors import MORE_MEMORY, Interrupted, MissingPackages, OrunError, PipelineError, StoreError, UsageError

BUG = 5
COMPLETE = "_ORUN_COMPLETE"  # variable by which a shell asks for completions
BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE ended
FAILING = (
    errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ESTALE, errno.EMFILE, errno.ENFILE,
    errno.EACCES, errno.EPERM, errno.EBUSY,
)  # fmt: skip
OUTPUT = (errno.EPIPE, errno.ENOSPC)  # of an error without a file: it met what is printed, as all else names its file

VERBS = {
    "init": "Write a pipeline for a model that you have.",
    "run": "Bring every stage up to date and judge the gates (the default).",
    "plan": "Show what would run, and why.",
    "explain": "Show each part of a stage's key, then and now.",
    "blame": "Find the stage and the nodes behind a failed gate.",
    "bisect": "Find the change between a good run and a bad one.",
    "graph": "Draw the stages and what feeds them.",
    "validate": "Check pipeline files; runs nothing.",
    "stages": "List the stage library, or document a kind.",
    "test": "Try a custom stage on a tiny model, twice.",
    "schema": "Print the JSON Schema of pipeline files, or of the event log.",
    "report": "Show the report of an earlier run.",
    "history": "Show how measurements went from run to run.",
    "diff": "Show how two runs differ.",
    "baseline": "Accept a release as the one to compare with.",
    "verify": "Check a bundle, or build stages again and compare.",
    "watch": "Look for drift in the log of a server.",
    "store": "Show, check, pin and clean up what is stored.",
    "agent": "Run stages on this machine for runs on others.",
    "completion": "Print or install the completion script of a shell.",
    "head": "Let the machines of a fleet meet here (needs Ray).",
    "machines": "List the machines of a fleet.",
    "doctor": "Show what this machine has and what stages would lack.",
    "mcp": "Serve these verbs as tools to AI assistants.",
}
EXAMPLES = (
    ("orun init model.onnx", "write a pipeline for a model of yours"),
    ("orun pipelines/bert.yaml", "bring everything up to date; exit 1 when a gate fails"),
    ("orun plan pipelines/bert.yaml", "what would run, and why"),
    ("orun stages quantize/dynamic", "what a kind does and its parameters"),
    ("orun run --help", "the options of a run"),
)


@click.command("orun", cls=Verbs, verbs=VERBS, examples=EXAMPLES)
@click.version_option(__version__, message="orun %(version)s", help="Show the version.")
def group() -> None:
    """Build, measure and gate model releases from a YAML file.

    A pipeline file describes stages: convert, simplify, fuse, quantize, measure, bundle. orun runs what is out of
    date, keeps every result by its content, and exits non-zero when a gate fails.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code.

    Args:
        arguments: the words after the program's name; those of this process when left out.
    """
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    _open_streams()
    try:
        code = _run_command_line(command_line)
        sys.stdout.flush()
    except OSError as error:
        # Who read our output has gone, or its disk is full. The interpreter flushes once more at its end: to nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        return _fail(UsageError("the output cannot be written", why=error.strerror or str(error)), ())
    return code


def _open_streams() -> None:
    """Open what the parent has closed of the standard streams: else the next files would take their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - until the end


def _run_command_line(command_line: list[str]) -> int:
    try:
        return _invoke(command_line)
    except OrunError as error:
        return _fail(error, command_line)
    except click.UsageError as error:
        if error.ctx and isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):  # of click 8.2
            click.echo(error.ctx.get_help(), err=True)
            return UsageError.exit_code
        from orun.cli.usage import build_usage_error

        return _fail(build_usage_error(error, command_line), command_line)
    except KeyboardInterrupt:
        return _fail(Interrupted("interrupted"), command_line)
    except MemoryError:
        return _fail(StoreError("there is not enough memory to go on", hint=MORE_MEMORY), command_line)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in OUTPUT and error.filename is None:
            raise
        return _fail_unexpectedly(error, command_line)


def _fail_unexpectedly(error: Exception, command_line: Sequence[str]) -> int:
    """Tell of an error that no code expected: of the machine, of a package that is not installed, or a bug of ours."""
    from orun.cli.crash import find_missing_package_error, report_bug
    from orun.fs.os_errors import to_store_error

    refused: OrunError | None = None
    if isinstance(error, OSError):
        refused = find_lost_folder_error() or (
            to_store_error(error, "go on", Path.cwd()) if error.errno in FAILING else None
        )
    elif isinstance(error, ModuleNotFoundError):
        refused = find_missing_package_error(error)
    if refused is None:
        refused = report_bug(error, command_line)
        refused.exit_code = BUG
    return _fail(refused, command_line)


def _invoke(command_line: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no such letter is no reason to stop
            stream.reconfigure(errors="replace")
    if instruction := os.environ.get(COMPLETE):
        from click.shell_completion import shell_complete

        with suppress(click.ClickException, OrunError, OSError):  # Tab is no time to report mistakes
            return shell_complete(group, {}, "orun", COMPLETE, instruction)
        return 0
    try:
        with group.make_context("orun", command_line) as context:
            return int(group.invoke(context) or 0)
    except Exit as finished:  # --help and --version end so
        return finished.exit_code


def _fail(error: OrunError, command_line: Sequence[str]) -> int:
    if isinstance(error, MissingPackages):
        from orun.environment.install_commands import format_install_command

        error.hint = format_install_command(error.packages)
    if isinstance(error, PipelineError) and os.environ.get("GITHUB_ACTIONS") == "true":
        from orun.report.github import format_mistakes

        click.echo("\n".join(format_mistakes(error)), err=True)  # the runner reads both streams
    if "--json" in command_line:
        from orun.report.document import build_error_document, dumps

        click.echo(dumps(build_error_document(error)))
        return error.exit_code
    from orun.report.terminal import detect

    terminal = detect(sys.stderr)
    text = f"{terminal.paint('error', 'bad')}: {error}"
    if isinstance(error, PipelineError):
        from orun.pipeline.problems import render

        text = render(error.problems, colour=terminal.colour)
    click.echo(text, err=True)
    return error.exit_code
