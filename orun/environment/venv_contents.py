"""List of the files of an isolated environment, with digests, to notice later changes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from orun.fs.digests import digest_descriptor
from orun.fs.durable import replace_file

LIST = "contents.json"  # size, time of the last change in ns and digest by path
COMPILED = "__pycache__"  # Python may rewrite it at any time


def note(folder: Path, top: Path) -> None:
    """Write a list of the files below `top` into `folder`."""
    states: dict[str, tuple[int, int, str]] = {}
    for path in _iter_files(str(top)):
        state = os.stat(path)  # noqa: PTH116 - a Path for each of ten thousand files costs more
        states[os.path.relpath(path, top)] = (state.st_size, state.st_mtime_ns, _digest(path))
    text = json.dumps(states, sort_keys=True, separators=(",", ":"))
    replace_file(str(folder / LIST), text.encode(), str(folder / f".{LIST}-{os.urandom(6).hex()}"))


def describe_difference(folder: Path, top: Path) -> str:
    """Return how files below `top` differ from the list in `folder`, as a clause; empty if they do not.

    New files are ignored: libraries keep caches next to their code. A file of the same size with another time, such as
    a copy, is read.
    """
    try:
        listed = json.loads((folder / LIST).read_text("utf-8"))
        states = [(f"{top}/{name}", name, *state) for name, state in listed.items()]
        for path, name, size, changed, digest in states:
            if how := _differs(path, size, changed, digest):
                return f"{name} {how}"
    except FileNotFoundError:
        return "the list of its files is gone"
    except (ValueError, TypeError, AttributeError):
        return "the list of its files is damaged"
    return ""


def _differs(path: str, size: int, changed: int, digest: str) -> str:
    try:
        state = os.stat(path)  # noqa: PTH116 - as above
        same = state.st_size == size and (state.st_mtime_ns == changed or _digest(path) == digest)
    except (FileNotFoundError, NotADirectoryError):
        return "is gone"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "" if same else "was changed"


def _iter_files(top: str) -> Iterator[str]:
    """Yield the paths of all files except links and compiled code."""
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if name != COMPILED]
        yield from (path for name in files if not os.path.islink(path := f"{folder}/{name}"))  # noqa: PTH114


def _digest(path: str) -> str:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - as above
        return digest_descriptor(file.fileno())[:32]
