"""Signatures of files: states by which no change of content goes unnoticed."""

from __future__ import annotations

import os
import time
from pathlib import Path

from orun.core.serialization import Record
from orun.fs.digests import digest_descriptor

Signature = tuple[int, int, int, int, int]  # device, inode, size, mtime and ctime in nanoseconds

# The coarsest clock of a file system (FAT), in nanoseconds. A file that changed less than that ago may change again
# without a trace, as git's racy rule has it.
CLOCK = 2_000_000_000
_MICROSECOND = 1_000
_UNITS = (1, 100, _MICROSECOND, 1_000_000, 10_000_000, 1_000_000_000, CLOCK)  # to which file systems cut times, in ns


class Reading(Record, frozen=True):
    """Result of reading a file.

    Attributes:
        digest: of its content.
        status: its state before it was read.
        steady: whether its state was the same afterwards.
    """

    digest: str
    status: os.stat_result
    steady: bool


def to_signature(status: os.stat_result) -> Signature:
    """Return the signature, which changes whenever the content does."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def read_signature(path: str | Path) -> Signature | None:
    """Return the signature of a file or folder, links followed; None if it cannot be seen."""
    try:
        return to_signature(os.stat(path))
    except OSError:  # nothing there, an impossible name, or a folder that nobody may enter
        return None


def read_steadily(path: str | Path, *, sync: bool = False) -> Reading:
    """Read a file and notice whether somebody wrote to it meanwhile. With `sync` it is on the disk afterwards."""
    with open(path, "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        digest = digest_descriptor(file.fileno())
        if sync:
            os.fsync(file.fileno())
        after = os.fstat(file.fileno())
    return Reading(digest, before, to_signature(before) == to_signature(after))


def set_stamp(path: str, stamp: int | None = None) -> int:
    """Set the mtime of a file of our own to a precise time, by default now; return the mtime that was kept (ns).

    A later write sets the coarse time of the kernel's clock, which differs even within the same tick.
    """
    if stamp is None:
        stamp = time.time_ns()
        stamp += 100 * (stamp % _MICROSECOND < 100)  # noqa: PLR2004 - not a whole microsecond, even if cut to 100 ns
    os.utime(path, ns=(stamp, stamp))
    kept = os.lstat(path).st_mtime_ns
    return kept if any(kept == stamp - stamp % unit for unit in _UNITS) else stamp  # somebody wrote to it at once


def is_settled(status: os.stat_result) -> bool:
    """Return whether any later write to a file of our own must change its mtime.

    Where the file system has cut the stamp to a coarse unit, that is so only after a while.
    """
    return status.st_mtime_ns % _MICROSECOND != 0 or status.st_mtime_ns < time.time_ns() - CLOCK
