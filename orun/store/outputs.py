"""Files of an output folder that becomes a tree."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from orun.core.serialization import Record
from orun.errors import StoreError


class OutputEntry(Record, frozen=True, order=True):
    """A file of a folder: its posix path in the folder, and whether it is executable."""

    name: str
    executable: bool


def scan(folder: Path) -> list[OutputEntry]:
    """Return all files below a folder, sorted by name.

    Raises:
        StoreError: for a link, pipe, socket or device. `stages/ensure.py` refuses it too, but it may have come later.
    """
    root = str(folder)
    files, folders = [], [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                name = entry.path[len(root) + 1 :]
                if not entry.is_file(follow_symlinks=False):
                    hint = "Leave only files and folders in the output folder"
                    raise StoreError(f"{name!r} cannot be stored", why="it is neither a file nor a folder", hint=hint)
                mode = entry.stat(follow_symlinks=False).st_mode
                files.append(OutputEntry(name, bool(mode & stat.S_IXUSR)))
    return sorted(files)
