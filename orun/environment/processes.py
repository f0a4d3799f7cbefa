"""Linux process facilities beyond the `os` module; no-ops on other systems."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resource import struct_rusage

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PROC = Path("/proc")
ENDED = (b"Z", b"X")  # states of ended processes that nobody has waited for yet
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
WAITS_TWICE = hasattr(os, "waitid")  # whether the system can wait for a child without releasing its id
KEPT_BLOCK, KEPT_FREE = 1 << 30, 2**31 - 1  # bytes: largest block to keep, and most free memory to keep


@functools.cache
def load_libc() -> ctypes.CDLL:
    """Return the C library; the functions that forked processes need are already looked up."""
    library = ctypes.CDLL(None, use_errno=True)
    for name in ("prctl", "syscall", "mallopt", "fflush"):
        getattr(library, name, None)
    return library


def die_with(parent: int, number: signal.Signals) -> None:
    """Let the kernel signal this process when its parent, of this id, ends."""
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # the parent ended before the call
        os.kill(os.getpid(), number)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own parent, so that none escapes."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux" and load_libc().prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")


def keep_freed_memory() -> None:
    """Make glibc reuse large freed blocks.

    By default it returns each block to the kernel, which clears every page again. That is half of the system time of
    stages that read and write a model of 90 MB several times.
    """
    if sys.platform == "linux" and hasattr(load_libc(), "mallopt"):
        load_libc().mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK)
        load_libc().mallopt(M_TRIM_THRESHOLD, KEPT_FREE)


def flush_native_output() -> None:
    """Flush the C library's buffers, which hold what native code has printed."""
    load_libc().fflush(None)


def list_children(process: int) -> list[int]:
    """Return the ids of the direct children of a process."""
    if not kernel_lists_children():
        return [child for child, parent in _iter_parents() if parent == process]
    ids: list[int] = []
    with contextlib.suppress(OSError):  # the process ended, or this system has no such list
        for thread in os.listdir(f"{PROC}/{process}/task"):  # noqa: PTH208 - names alone
            with open(f"{PROC}/{process}/task/{thread}/children", "rb", buffering=0) as file:  # noqa: PTH123 - often
                ids += map(int, file.readall().split())
    return ids


@functools.cache
def kernel_lists_children() -> bool:
    """Return whether this kernel lists the children of a process (`PROC_CHILDREN`)."""
    return os.path.exists(f"{PROC}/self/task/{os.getpid()}/children")  # noqa: PTH110 - as above


def _iter_parents() -> Iterator[tuple[int, int]]:
    """Yield every visible process and its parent."""
    with contextlib.suppress(OSError):  # a system without this folder
        for name in filter(str.isdigit, os.listdir(PROC)):  # noqa: PTH208 - names alone
            with contextlib.suppress(OSError):  # it ended meanwhile
                stat = (PROC / name / "stat").read_bytes()
                yield int(name), int(stat.rpartition(b")")[2].split()[1])  # the name before it may hold any character


def measure_held_memory(process: int) -> int:
    """Return the bytes that a process and its descendants hold: anonymous and shared memory, not pages of files."""
    return _count_memory(process) + sum(_count_memory(descendant) for descendant in iter_descendants(process))


def iter_descendants(process: int) -> Iterator[int]:
    """Yield the ids of all descendants of a process."""
    waiting = list_children(process)
    while waiting:
        process_id = waiting.pop()
        yield process_id
        waiting += list_children(process_id)


def signal_group(process: int, number: signal.Signals, spared: Collection[int | None] = ()) -> None:
    """Signal the process group of a child, or only the child if its group is this process's or spared.

    Args:
        process: id of the child, which must not have been waited for: until then the kernel reuses neither its id nor
            that of its group.
        number: the signal.
        spared: groups that continue.

    Raises:
        ChildProcessError: when it was waited for, or is no child of this process.
    """
    if WAITS_TWICE:
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    _signal_group(process, number, (os.getpgrp(), *spared))


def wait_for_child(end: Callable[[int], None], *, block: bool) -> tuple[int, int, struct_rusage] | None:
    """Wait for any child to end.

    Args:
        end: called with the id of the child before the id is released, to signal its group. Not called on macOS before
            Python 3.13, where a child cannot be waited for twice.
        block: whether to wait until a child ends.

    Returns:
        Id, status and resources of the child as `wait4` returns them; None when no child has ended.

    Raises:
        ChildProcessError: when there is no child.
    """
    if not WAITS_TWICE:
        waited = os.wait4(-1, 0 if block else os.WNOHANG)
        return waited if waited[0] else None
    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | (0 if block else os.WNOHANG))
    if ended is None:
        return None
    end(ended.si_pid)
    return os.wait4(ended.si_pid, 0)


def end_orphans(own: Collection[int]) -> None:
    """Kill every adopted child, with its process group.

    Killing groups also reaches processes that fork and end faster than each could be killed. A group with one of the
    process's own children, or a descendant of one, is spared.
    """
    orphans = [process for process in list_children(os.getpid()) if process not in own]
    if orphans:
        spared = {find_group(process) for process in {*own}.union(*map(iter_descendants, own))}
        for process in orphans:
            signal_group(process, signal.SIGKILL, spared)


def end_tree(leader: int, patience: float) -> None:
    """Kill a child that leads a group and adopts orphans, with all its descendants.

    It is stopped first: a stopped leader reaps no child, so no id is reused meanwhile. Orphans become children of the
    leader, which is killed last.

    Args:
        leader: its id; it must not have been waited for.
        patience: seconds to wait for children that the kernel has not ended yet.
    """
    until = time.monotonic() + patience
    os.kill(leader, signal.SIGSTOP)
    if WAITS_TWICE:
        os.waitid(os.P_PID, leader, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    while time.monotonic() < until:
        below = list_children(leader)
        if not any(map(_is_running, below)) and below == list_children(leader):  # else new children have appeared
            break
        for process in below:  # ended children too: others of their group may still run
            _signal_group(process, signal.SIGKILL, (leader,))
    signal_group(leader, signal.SIGKILL)


def _signal_group(process: int, number: signal.Signals, spared: Collection[int | None]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: it has ended
        its_group = os.getpgid(process)
        if its_group in spared:
            os.kill(process, number)
        else:
            os.killpg(its_group, number)


def find_group(process: int) -> int | None:
    """Return the group of a process; None if it has ended."""
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return None


def _is_running(process: int) -> bool:
    with contextlib.suppress(OSError):  # it has been waited for
        return (PROC / str(process) / "stat").read_bytes().rpartition(b")")[2].split()[0] not in ENDED
    return False


def _count_memory(process: int) -> int:
    with contextlib.suppress(OSError):  # it ended meanwhile
        lines = (PROC / str(process) / "status").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
    return 0
