"""The options that several verbs share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orun.cli.complete import complete_file, complete_override
from orun.errors import UsageError
from orun.remote.options import Remote

if TYPE_CHECKING:
    from orun.core.events import Event
    from orun.store import Store

F = TypeVar("F", bound=Callable[..., object])


def _parse_folder(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Path | None:
    """Return the folder that an option names; an empty name says nothing, as an empty variable does."""
    return Path(text) if text else None


file_argument = click.argument("file", shell_complete=complete_file)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    shell_complete=complete_override,
    help="Change a value of the file, as in stages.int8.with.per_channel=false. Repeatable.",
)
store_option = click.option(
    "--store",
    type=click.Path(),
    callback=_parse_folder,
    metavar="DIR",
    help="Where results are kept: $ORUN_STORE, or artifacts/ at the top of the project, when left out.",
)
fleet_option = click.option(
    "--on",
    "executor",
    metavar="URL",
    help="Other machines that run the stages: ray://HOST:PORT, unix:///SOCKET, tcp://HOST:PORT; off for none."
    " $ORUN_ON, or the project's pyproject.toml, when left out.",
)
REMOTE = (
    click.option(
        "--remote",
        metavar="URL",
        help="Share results with other machines there: file, s3, gs, az, http or https; off for none."
        " $ORUN_REMOTE, or the project's pyproject.toml, when left out.",
    ),
    click.option("--remote-mode", type=click.Choice(("read", "read-write")), help="Whether results go there as well."),
    click.option("--remote-required", is_flag=True, help="Fail when the remote cannot be used."),
)


@contextmanager
def activity_shown() -> Iterator[None]:
    """Show in a terminal what orun reads or looks for inside of the block, once that takes longer than a moment."""
    from orun.report.terminal import detect
    from orun.report.waiting import waiting_line

    terminal = detect(sys.stderr)
    with waiting_line(sys.stderr, terminal) if terminal.live else nullcontext():
        yield


def warn(texts: Iterable[str]) -> None:
    """Print warnings on standard error."""
    for text in texts:
        click.echo(f"warning: {text}", err=True)


def open_store(folder: Path | None, *, read_only: bool = False) -> Store:
    """Return the store that `--store` names, or that of the working folder; it must be there.

    Raises:
        UsageError: when there is none.
    """
    from orun.fs.observed_state import stat_presence
    from orun.fs.os_errors import quote
    from orun.store import Store
    from orun.store.layout import VERSION_FILE, locate_store
    from orun.text.suggestions import show_path

    root = locate_store(folder)
    if not stat_presence(root / VERSION_FILE):
        below = () if folder else sorted(Path().glob(f"*/artifacts/{VERSION_FILE}"))
        near = quote(str(below[0].parent)) if below else "DIR"
        raise UsageError(f"there is no store at {show_path(str(root))}", hint=f"name another: --store {near}")
    return Store.open(root, read_only=read_only)


def format_outputs_folder(store: Path | None) -> str:
    """Return the folder of output checkouts, to append to a command: of a store, or of the working folder's."""
    from orun.fs.os_errors import quote
    from orun.store.layout import locate_store
    from orun.text.suggestions import show_path

    return quote(show_path(str(locate_store(store) / "out")))


def remote_options(function: F) -> F:
    """--remote, --remote-mode, --remote-required."""
    for decorate in reversed(REMOTE):
        function = decorate(function)
    return function


def take_remote(choices: dict[str, Any]) -> Remote | None:
    """Return the remote that the options name, taken out of the choices; None when nothing is said of it."""
    url, mode, required = (choices.pop(name) for name in ("remote", "remote_mode", "remote_required"))
    return Remote(url, mode, required) if url is not None or mode or required else None


def parse_seconds(option: str, text: str | None) -> float:
    """Return the seconds of an option such as `--wait 30m`; none when it is left out."""
    from orun.text.units import parse_duration, respell

    wrong = f"{option} wants a duration such as 90s or 30min, not {text!r}"
    try:
        seconds = parse_duration(respell(text) or text) if text else 0.0
    except ValueError as error:
        raise UsageError(wrong, why=str(error)) from error
    if seconds < 0:
        raise UsageError(wrong, why="a duration is not negative")
    return seconds


def parse_pairs(option: str, form: str, pairs: Sequence[str], hint: str, *, filled: bool = False) -> dict[str, str]:
    """Return the `name=value` texts of an option by name, `filled` with no empty value; the last of a name wins."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not (name and separator) or (filled and not value):
            raise UsageError(f"{option} wants {form}, not '{pair}'", hint=hint)
        values[name] = value
    return values


def parse_overrides(pairs: Sequence[str]) -> dict[str, str]:
    """Return the `path=value` words of `--set` as a mapping."""
    for pair in pairs:
        if (shown := os.fsencode(pair).decode(errors="replace")) != pair:
            raise UsageError(f"--set '{shown}' is not UTF-8", why="a pipeline file is, and what replaces its values")
    return parse_pairs("--set", "PATH=VALUE", pairs, "orun FILE --set vars.sequence=64")


def show(lines: Iterable[str]) -> None:
    """Print a report for people."""
    click.echo("\n".join(lines))


def show_json(value: Any) -> None:
    """Print a document for programs."""
    from orun.report.document import dumps

    click.echo(dumps(value))


def say_step(event: Event) -> None:
    """Say on standard error which stage an investigation runs, and what it has noticed."""
    from orun.core.events import Notice, StageStarted

    if isinstance(event, StageStarted):
        click.echo(f"  {event.stage} ...", err=True)
    elif isinstance(event, Notice):
        click.echo(f"  {event.text}", err=True)
