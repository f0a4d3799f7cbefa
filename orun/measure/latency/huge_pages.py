"""Huge pages for a process's memory, so that two processes with the same data run at the same speed.

The place of a model's weights in physical memory is chance, and a process keeps it. Neighbouring 4 KiB pages share a
TLB entry; pages of the same cache sets displace one another. Two processes of one model therefore differ by 1 to 2 %,
more than many regressions. On 2 MiB pages they hardly differ (docs/explanation/statistics.md has the figures).
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from orun.environment.processes import load_libc

MADV_COLLAPSE = 25  # Linux 6.1 and later; older kernels refuse it
CHUNK = 32 << 20  # bytes moved between two checks of the clock; a multiple of a huge page


def collapse(seconds: float) -> None:
    """Move this process's anonymous memory onto huge pages if the system can, the largest mappings first.

    Memory allocated later is not moved. 100 MB take about 50 ms, or up to a second on a virtual machine whose host must
    find such pages first.

    Args:
        seconds: time after which no more is moved.
    """
    if sys.platform != "linux":
        return
    end = time.monotonic() + seconds
    madvise = load_libc().madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for low, high in sorted(_iter_anonymous_mappings(), key=lambda mapping: mapping[0] - mapping[1]):
        for start in range(low - low % CHUNK, high, CHUNK):
            if time.monotonic() >= end:
                return
            first = max(start, low)
            madvise(first, min(start + CHUNK, high) - first, MADV_COLLAPSE)  # a failure concerns one page


def _iter_anonymous_mappings() -> Iterator[tuple[int, int]]:
    """Yield start and end address of each writable private mapping without a file."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        addresses, rights, _, _, inode, *_ = line.split(maxsplit=5)
        if rights == "rw-p" and inode == "0":
            start, _, end = addresses.partition("-")
            yield int(start, 16), int(end, 16)
