"""Rules for a folder that becomes a tree: only regular files, with names that every machine can write."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from orun.core.serialization import Record
from orun.errors import StoreError
from orun.fs.os_errors import quoted

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class OutputEntry(Record, frozen=True, order=True):
    """A file of a folder: posix path in it, path of its content, whether it is executable or a link."""

    name: str
    path: str
    executable: bool
    is_link: bool


def scan(folder: Path) -> list[OutputEntry]:
    """Return all files below a folder, sorted by name.

    Raises:
        StoreError: for a link that does not lead to a file of the folder, a pipe, socket or device, and a name that is
            not Unicode.
    """
    real = os.path.realpath(folder)
    return sorted(_resolve(entry, str(folder), real) for entry in _files(str(folder)))


def _files(root: str) -> Iterator[os.DirEntry[str]]:
    pending = [root]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    yield entry


def _resolve(entry: os.DirEntry[str], root: str, real: str) -> OutputEntry:
    name = entry.path[len(root) + 1 :]
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise _refusal(name, "its name is not Unicode", f"Rename it: ls -b {quoted(root)}") from error
    path = entry.path
    if entry.is_symlink():
        path = os.path.realpath(path)
        if not path.startswith(f"{real}/") or not os.path.isfile(path):
            why = f"it is a link to {os.readlink(entry.path)}, which is no file of the same folder"
            raise _refusal(name, why, "Leave a copy of the file instead of a link: cp -L")
    mode = os.lstat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise _refusal(name, f"it is {kind}", "Leave only files and folders in the output folder")
    return OutputEntry(name, path, bool(mode & stat.S_IXUSR), entry.is_symlink())


def _refusal(name: str, why: str, hint: str) -> StoreError:
    return StoreError(f"{name!r} cannot be stored", why=why, hint=hint)
