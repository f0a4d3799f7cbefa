"""Memory that is moved onto huge pages stays what it is."""

from __future__ import annotations

import mmap
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from orun.measure.latency import huge_pages

MIB = 1 << 20
HUGE = 2 * MIB


def _can_collapse() -> bool:
    """Whether this kernel takes the advice, asked of memory of the test's own."""
    if sys.platform != "linux":
        return False
    with mmap.mmap(-1, 2 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(bytes(2 * HUGE))
        address = np.frombuffer(memory, np.uint8).ctypes.data
        try:
            memory.madvise(huge_pages.MADV_COLLAPSE, -address % HUGE, HUGE)
        except OSError:
            return False
        return True


def _huge() -> int:
    """Bytes of this process's memory on huge pages."""
    found = re.search(r"AnonHugePages:\s+(\d+) kB", Path("/proc/self/smaps_rollup").read_text(encoding="utf-8"))
    assert found
    return int(found[1]) * 1024


@pytest.mark.skipif(not _can_collapse(), reason="the kernel has no MADV_COLLAPSE (Linux 6.1)")
def test_memory_moves_onto_huge_pages_and_keeps_what_it_holds() -> None:
    held = bytes(range(256)) * (32 * MIB // 256)  # NumPy would ask for huge pages itself
    before = _huge()
    huge_pages.collapse(0.0)
    assert _huge() == before
    huge_pages.collapse(60.0)
    assert _huge() > before  # how much, depends on the pages that the system has
    assert held == bytes(range(256)) * (32 * MIB // 256)


def test_a_system_without_huge_pages_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    huge_pages.collapse(60.0)
