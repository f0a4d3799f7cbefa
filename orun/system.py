"""What Linux tells and does about processes beyond the `os` module; elsewhere these do nothing or know nothing."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PROC = Path("/proc")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BLOCK, KEPT_FREE = 1 << 30, 2**31 - 1  # bytes: the largest blocks that are kept, and how much free memory may be


@functools.cache
def libc() -> ctypes.CDLL:
    """The C library of this process, and of those forked from it, which find its functions looked up."""
    library = ctypes.CDLL(None, use_errno=True)
    for name in ("prctl", "syscall", "mallopt", "fflush"):
        getattr(library, name, None)
    return library


def die_with(parent: int) -> None:
    """End this process when its parent does, which has that process id."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before it could be asked
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every process below this one that loses its own, so that none escapes."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux" and libc().prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")


def keep_freed_memory() -> None:
    """Have the C library use large blocks again that were freed, where it is glibc.

    It returns each to the kernel otherwise, which clears every page anew: half of the system time of the stages that
    read and write a model of 90 MB several times over.
    """
    if sys.platform == "linux" and hasattr(libc(), "mallopt"):
        libc().mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK)
        libc().mallopt(M_TRIM_THRESHOLD, KEPT_FREE)


def flush_native_output() -> None:
    """Write out what native code has printed and the C library still holds."""
    libc().fflush(None)


def children(process: int) -> list[int]:
    """Ids of the direct children of a process."""
    if not lists_children():
        return [one for one, parent in _parents() if parent == process]
    found: list[int] = []
    with contextlib.suppress(OSError):  # it ended, or this system does not tell
        for thread in os.listdir(f"{PROC}/{process}/task"):  # noqa: PTH208 - names alone
            with open(f"{PROC}/{process}/task/{thread}/children", "rb", buffering=0) as file:  # noqa: PTH123 - often
                found += map(int, file.readall().split())
    return found


@functools.cache
def lists_children() -> bool:
    """Whether this kernel lists the children of a process; Linux may have been built without (`PROC_CHILDREN`)."""
    return os.path.exists(f"{PROC}/self/task/{os.getpid()}/children")  # noqa: PTH110 - as above


def _parents() -> Iterator[tuple[int, int]]:
    """Every process of this machine that is seen from here, and its parent."""
    with contextlib.suppress(OSError):  # there is no such folder
        for name in filter(str.isdigit, os.listdir(PROC)):  # noqa: PTH208 - names alone
            with contextlib.suppress(OSError):  # it ended meanwhile
                stat = (PROC / name / "stat").read_bytes()
                yield int(name), int(stat.rpartition(b")")[2].split()[1])  # the name before may hold anything


def held_memory(process: int) -> int:
    """Bytes that a process and all below it hold: anonymous and shared memory, not pages of files."""
    return _held(process) + sum(_held(one) for one in descendants(process))


def descendants(process: int) -> Iterator[int]:
    """Ids of all processes below one."""
    waiting = children(process)
    while waiting:
        one = waiting.pop()
        yield one
        waiting += children(one)


def _held(process: int) -> int:
    with contextlib.suppress(OSError):  # it ended meanwhile
        lines = (PROC / str(process) / "status").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
    return 0
