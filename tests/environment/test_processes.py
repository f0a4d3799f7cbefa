from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orun.environment import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
kernel_lists = pytest.mark.skipif(not processes.kernel_lists_children(), reason="this kernel lists no children")


@pytest.mark.parametrize("listed", [pytest.param(True, marks=kernel_lists), False])
def test_children_and_their_memory(listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "kernel_lists_children", lambda: listed)
    code = "held = b'x' * 50_000_000; print(flush=True); input()"
    before = processes.measure_held_memory(os.getpid())
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        assert child.pid in processes.list_children(os.getpid())
        assert processes.measure_held_memory(child.pid) > 50_000_000
        assert processes.measure_held_memory(os.getpid()) - before > 40_000_000
        child.communicate(b"\n")
    assert child.pid not in processes.list_children(os.getpid())
    assert processes.list_children(child.pid) == []
    assert processes.measure_held_memory(child.pid) == 0


FAMILY = """
import os, sys, time
if os.fork():
    sys.exit(3)
time.sleep(60)
"""


def family(folder: Path, *, group: bool) -> tuple[subprocess.Popen[bytes], int]:
    """A child that ends at once and leaves a process in its group; and the end of a pipe that this one holds open."""
    ours, theirs = os.pipe()
    command = [sys.executable, "-c", FAMILY]
    child = subprocess.Popen(command, pass_fds=(theirs,), cwd=folder, process_group=0 if group else None)
    os.close(theirs)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    return child, ours


def test_a_group_is_signalled_before_its_leader_is_given_up(tmp_path: Path) -> None:
    child, pipe = family(tmp_path, group=True)
    ended: list[int] = []

    def end(process: int) -> None:
        ended.append(process)
        processes.signal_group(process, signal.SIGKILL)

    waited = processes.wait_for_child(end, block=False)
    assert waited is not None
    assert (ended, waited[:2]) == ([child.pid], (child.pid, 3 << 8))
    child.returncode = 3  # it was waited for here
    assert os.read(pipe, 1) == b""
    os.close(pipe)
    with pytest.raises(ChildProcessError):
        processes.signal_group(child.pid, signal.SIGKILL)


def test_a_group_is_never_signalled_after_its_leader_was_waited_for(tmp_path: Path) -> None:
    """Its number may be that of others by then."""
    child, pipe = family(tmp_path, group=True)
    assert child.wait(60) == 3
    with pytest.raises(ChildProcessError):
        processes.signal_group(child.pid, signal.SIGKILL)
    os.set_blocking(pipe, False)
    with pytest.raises(BlockingIOError):
        os.read(pipe, 1)
    os.killpg(child.pid, signal.SIGKILL)  # it is there still: the process that was left holds the pipe
    os.set_blocking(pipe, True)
    assert os.read(pipe, 1) == b""
    os.close(pipe)


def test_a_child_in_the_group_of_this_process_is_signalled_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        processes.signal_group(child.pid, signal.SIGTERM)
        assert child.wait(60) == -signal.SIGTERM


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries decide for themselves")
def test_freed_memory_is_used_again() -> None:
    code = """
import resource
from orun.environment import processes
{call}
faults = []
for _ in range(5):
    block = bytearray(b"x") * 40_000_000
    del block
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[0])
"""
    pages = 4 * 40_000_000 // os.sysconf("SC_PAGE_SIZE")
    given_back, kept = (
        int(subprocess.run([sys.executable, "-c", code.format(call=call)], stdout=subprocess.PIPE, check=True).stdout)
        for call in ("", "processes.keep_freed_memory()")
    )
    assert kept < pages // 100
    assert given_back > pages // 2 or _huge_pages()


def _huge_pages() -> bool:
    """Whether the kernel gives large blocks whole, so that faults do not count pages."""
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return setting.exists() and "[always]" in setting.read_text()
