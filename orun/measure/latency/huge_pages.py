"""Memory of a process on huge pages, so that two processes with the same data run at the same speed.

Where the weights of a model lie in physical memory is chance, and a process is stuck with it: pages of 4 KiB that
happen to be neighbours share an entry of the TLB, pages that happen to fall together displace one another from the
caches. Two processes of one model differ by 1 to 2 % for that alone, more than many a regression. On pages of 2 MiB
they hardly do (docs/gates.md has the figures).
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from orun.environment.processes import libc

ADVICE = 25  # MADV_COLLAPSE, of Linux 6.1 and later; older ones refuse it
CHUNK = 32 << 20  # bytes between two looks at the clock; whole huge pages


def collapse(seconds: float) -> None:
    """Move the memory of this process that is no file's onto huge pages, where the system can, the largest parts first.

    That holds for what there is now: memory that is taken later comes as the system gives it. 100 MB take some 50 ms,
    or up to a second on a virtual machine whose host must find such pages first.

    Args:
        seconds: after which no more is moved.
    """
    if sys.platform != "linux":
        return
    end = time.monotonic() + seconds
    madvise = libc().madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for low, high in sorted(_anonymous(), key=lambda part: part[0] - part[1]):
        for start in range(low - low % CHUNK, high, CHUNK):
            if time.monotonic() >= end:
                return
            first = max(start, low)
            madvise(first, min(start + CHUNK, high) - first, ADVICE)  # goes on past a page that it cannot move


def _anonymous() -> Iterator[tuple[int, int]]:
    """First address, and the one past the last, of each private mapping that may be written and is no file's."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        where, rights, _, _, inode, *_ = line.split(maxsplit=5)
        if rights == "rw-p" and inode == "0":
            start, _, end = where.partition("-")
            yield int(start, 16), int(end, 16)
