"""Files that a stage leaves to Python to close: what cannot be written then would be lost without a word.

`json.dump(figures, open(path, "w"))` on a full disk leaves an empty file and raises nothing. From 3.13 on Python tells
`sys.unraisablehook` of it. Before, a disk that is still full when the stage ends fails the run, because its result
cannot be recorded either, and nothing tells of one that was full for a moment.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

NAMED = re.compile(r"""\bname=(b?'(?:[^'\\]|\\.)*'|b?"(?:[^"\\]|\\.)*")""")  # in what is shown of a file
_lost: dict[str, OSError] = {}


def watch() -> None:
    """Take note of what is lost from now on, in this process and in those forked from it."""
    sys.unraisablehook = _hear


def lost(folder: str) -> dict[str, OSError]:
    """The files below a folder that were not written to the end, by their names in it, and why."""
    found = {str(Path.cwd() / path): error for path, error in _lost.items()}
    return {path[len(folder) + 1 :]: found[path] for path in sorted(found) if path.startswith(f"{folder}/")}


def note(file: object, error: OSError) -> None:
    """Take note of a file of which something could not be written."""
    _note(getattr(file, "name", None), error)


def _note(name: object, error: OSError) -> None:
    if isinstance(name, (str, bytes, os.PathLike)):
        _lost[os.fsdecode(name)] = error


def _hear(told: UnraisableHookArgs) -> None:
    if isinstance(told.exc_value, OSError):
        note(told.object, told.exc_value)
        if told.object is None and (named := NAMED.search(told.err_msg or "")):  # from 3.14 on it is shown alone
            _note(ast.literal_eval(named[1]), told.exc_value)
    sys.__unraisablehook__(told)
