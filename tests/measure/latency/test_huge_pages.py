"""Memory that is moved onto huge pages stays what it is."""

from __future__ import annotations

import mmap
import subprocess
import sys

import numpy as np
import pytest

from orun.measure.latency import huge_pages

HUGE = 2 << 20
# In a process of its own: it would take long to move all memory of one that runs tests.
MOVED = """
import re
from pathlib import Path

from orun.measure.latency import huge_pages


def on_huge_pages():
    found = re.search(r"AnonHugePages:\\s+(\\d+) kB", Path("/proc/self/smaps_rollup").read_text())
    return int(found[1])


held = bytes(range(256)) * (1 << 17)  # 32 MiB; NumPy would ask for huge pages itself
before = on_huge_pages()
huge_pages.collapse(0.0)
print(on_huge_pages() == before)
huge_pages.collapse(60.0)
print(on_huge_pages() > before)  # how much, depends on the pages that the system has
print(held == bytes(range(256)) * (1 << 17))
"""


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


@pytest.mark.skipif(not _can_collapse(), reason="the kernel has no MADV_COLLAPSE (Linux 6.1)")
def test_memory_moves_onto_huge_pages_and_keeps_what_it_holds() -> None:
    process = subprocess.run([sys.executable, "-c", MOVED], capture_output=True, text=True, check=True, timeout=120)
    assert process.stdout == "True\nTrue\nTrue\n"


def test_a_system_without_huge_pages_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    huge_pages.collapse(60.0)
