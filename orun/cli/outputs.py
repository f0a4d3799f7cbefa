"""Files that the command line names to be written."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from orun.errors import UsageError
from orun.fs.output_file import OutputFile
from orun.text.suggestions import show_path

F = TypeVar("F", bound=Callable[..., object])

STDOUT = Path("/dev/stdout")  # the file that is named `-`


def output_option(name: str, text: str, *parameters: str, metavar: str = "FILE") -> Callable[[F], F]:
    """Return an option that names a file, or a folder of files, to be written; `-` is the standard output."""
    return click.option(name, *parameters, type=click.Path(), metavar=metavar, callback=_parse_path, help=text)


def named_outputs_option(name: str, text: str) -> Callable[[F], F]:
    """Return an option that may be repeated and names a file for what each name stands for."""
    return click.option(name, multiple=True, metavar="NAME=FILE", callback=_parse_named_paths, help=text)


def _parse_named_paths(
    ctx: click.Context, param: click.Parameter, pairs: Sequence[str]
) -> list[tuple[str, Path | None]]:
    split = [pair.partition("=") for pair in pairs]
    if wrong := next((pair for pair, (name, _, path) in zip(pairs, split, strict=True) if not (name and path)), None):
        raise click.BadParameter(f"{wrong!r} is not NAME=FILE", ctx, param)
    return [(name, _parse_path(ctx, param, path)) for name, _, path in split]


def _parse_path(ctx: click.Context, param: click.Parameter, text: str | None) -> Path | None:
    if text == "":
        raise click.BadParameter("the name is empty", ctx, param)
    return None if text is None else STDOUT if text == "-" else Path(text)


def look_at(path: Path, *, append: bool = False) -> OutputFile:
    """Find out whether a file can be written, and touch nothing of it; a pipe is let go of when the verb ends.

    Raises:
        UsageError: when it cannot, or when a verb must leave it alone.
    """
    from orun.noop.overwrites import refuse_here

    with _refusing_unwritable(path):
        file = OutputFile(path, append=append)
    click.get_current_context().call_on_close(file.close)
    refuse_here([path])
    return file


def write(file: OutputFile, content: str | bytes) -> None:
    """Write the content of a file, after all that was printed before.

    Raises:
        UsageError: when it cannot be written.
    """
    with _refusing_unwritable(file.path), file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # A file whose name is no UTF-8 is named with its bytes written out, which JSON reads back as that name.
        file.write(content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace"))


def write_file(path: Path, text: str) -> None:
    """Write a file at once; raises as `look_at` and `write` do."""
    write(look_at(path), text)


@contextmanager
def _refusing_unwritable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if path == STDOUT and isinstance(error, BrokenPipeError):
            raise  # the verb ends as it does when its reader has gone while it prints
        raise UsageError(f"{path} cannot be written", **_explain(error, path)) from error


def _explain(error: OSError, path: Path) -> dict[str, Any]:
    """Return why a file cannot be written, and what to do about it."""
    from orun.fs.os_errors import quote, to_store_error

    reason = error.strerror or str(error)
    if file := next((folder for folder in path.parents if folder.is_file()), None):
        return {"why": f"{show_path(str(file))} is a file, not a folder"}
    if error.errno == errno.ENXIO:
        return {"why": reason, "hint": f"start a process that does: cat {quote(path)} &"}
    if error.errno == errno.EBUSY:
        return {"why": "it is mounted by itself and cannot be replaced", "hint": "mount the folder that it is in"}
    blamed = show_path(error.filename) if isinstance(error.filename, str) else str(path)
    why = reason if Path(blamed).absolute() == path.absolute() else f"{blamed}: {reason}"
    named = OSError(error.errno, reason, blamed)
    return {
        "why": why,
        "hint": to_store_error(named, "write", path, "name a file in a folder that can be written").hint,
    }
