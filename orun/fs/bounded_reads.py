"""Reads of files that somebody else may have written: kind and size are checked first."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

CHUNK = 1 << 20  # bytes to read at a time
TEXT_LIMIT = 4 << 20  # bytes of a text by people: a pipeline, a project's settings, requirements, code
RECORD_LIMIT = 64 << 20  # bytes of a document by programs: a record, a manifest, a baseline
LOG_LIMIT = 256 << 20  # bytes of an event log
NOTHING_THERE = {errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP}
NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # Windows has no named pipes among its files


def read_bounded(path: str | Path, limit: int) -> bytes:
    """Read a file that somebody else may have written, after a check of its kind and size.

    Raises:
        OSError: if it cannot be read, is not a regular file, or is larger.
    """
    require_regular(path)
    descriptor = os.open(path, os.O_RDONLY | NO_WAIT)  # a pipe that has just come does not wait
    with open(descriptor, "rb", buffering=0) as file:
        size = os.fstat(descriptor).st_size
        content = file.read(max(size, CHUNK) + 1) if size <= limit else b""
    if max(size, len(content)) > limit:
        raise OSError(errno.EOVERFLOW, f"File too large: more than {limit >> 20} MiB", str(path))
    return content


def require_regular(path: str | Path) -> os.stat_result:
    """Return the state of a regular file that is to be read, links followed.

    Raises:
        OSError: if it is missing, a folder, or a pipe, socket or device, whose reading might never end.
    """
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return status


def is_special(path: str | Path) -> bool:
    """Return whether a pipe, socket or device is at a path, links followed."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def explain_unreachable(path: Path, written: str, noun: str) -> str:
    """Return why a path in a text of the user cannot be read.

    Args:
        path: the absolute path.
        written: the path as the user wrote it.
        noun: what was expected there, such as `code file`.
    """
    if not os.path.lexists(path):
        return f"there is no {noun} {written!r}"
    try:
        require_regular(path)
    except OSError as error:
        if path.is_symlink() and error.errno in NOTHING_THERE:
            return f"{written!r} is a link to {str(path.readlink())!r}, which leads nowhere"
        return f"cannot read {written!r}: {error.strerror}"
    return f"cannot read {written!r}"
