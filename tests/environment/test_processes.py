from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from orun.environment import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
kernel_lists = pytest.mark.skipif(not processes.lists_children(), reason="this kernel lists no children")


@pytest.mark.parametrize("listed", [pytest.param(True, marks=kernel_lists), False])
def test_children_and_their_memory(listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "lists_children", lambda: listed)
    code = "held = b'x' * 50_000_000; print(flush=True); input()"
    before = processes.held_memory(os.getpid())
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        assert child.pid in processes.children(os.getpid())
        assert processes.held_memory(child.pid) > 50_000_000
        assert processes.held_memory(os.getpid()) - before > 40_000_000
        child.communicate(b"\n")
    assert child.pid not in processes.children(os.getpid())
    assert processes.children(child.pid) == []
    assert processes.held_memory(child.pid) == 0


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries decide for themselves")
def test_freed_memory_is_used_again() -> None:
    code = """
import resource
from orun import system
{call}
faults = []
for _ in range(5):
    block = bytearray(b"x") * 100_000_000
    del block
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[0])
"""
    pages = 4 * 100_000_000 // os.sysconf("SC_PAGE_SIZE")
    given_back, kept = (
        int(subprocess.run([sys.executable, "-c", code.format(call=call)], stdout=subprocess.PIPE, check=True).stdout)
        for call in ("", "system.keep_freed_memory()")
    )
    assert kept < pages // 100
    assert given_back > pages // 2 or _huge_pages()


def _huge_pages() -> bool:
    """Whether the kernel gives large blocks whole, so that faults do not count pages."""
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return setting.exists() and "[always]" in setting.read_text()
