"""Writes lost when Python closes a file that the stage left open, such as on a full disk.

`json.dump(figures, open(path, "w"))` on a full disk leaves an empty file and raises nothing. From version 3.13 on,
Python reports the error to `sys.unraisablehook`. Before that, a disk that is still full when the stage ends fails the
run, because its result cannot be recorded; a disk that was full for a moment goes unnoticed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orun.executors.local.compat import find_unclosed_file

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_errors: dict[str, OSError] = {}


def watch() -> None:
    """Note lost writes from now on, in this process and in its forks."""
    sys.unraisablehook = _note_unraisable


def list_losses_below(folder: str) -> dict[str, OSError]:
    """Return the files below a folder that lost writes, by their names in it, and the errors."""
    errors = {str(Path.cwd() / path): error for path, error in _errors.items()}
    return {path[len(folder) + 1 :]: errors[path] for path in sorted(errors) if path.startswith(f"{folder}/")}


def note(name: object, error: OSError) -> None:
    """Note that the file of this name lost writes; anything that is no path is ignored."""
    if isinstance(name, (str, bytes, os.PathLike)):
        _errors[os.fsdecode(name)] = error


def _note_unraisable(unraisable: UnraisableHookArgs) -> None:
    if isinstance(unraisable.exc_value, OSError):
        note(find_unclosed_file(unraisable), unraisable.exc_value)
    sys.__unraisablehook__(unraisable)
