from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from orun.executors import system


def test_children_and_their_memory() -> None:
    code = "held = b'x' * 50_000_000; print(flush=True); input()"
    before = system.held_memory(os.getpid())
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        assert child.pid in system.children(os.getpid())
        assert system.held_memory(child.pid) > 50_000_000
        assert system.held_memory(os.getpid()) - before > 40_000_000
        child.communicate(b"\n")
    assert child.pid not in system.children(os.getpid())
    assert system.children(child.pid) == []
    assert system.held_memory(child.pid) == 0


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries decide for themselves")
def test_freed_memory_is_used_again() -> None:
    code = """
import resource
from orun.executors import system
{call}
faults = []
for _ in range(5):
    block = bytearray(b"x") * 100_000_000
    del block
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[0])
"""
    pages = 4 * 100_000_000 // system.PAGE
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


def test_memory_here_is_the_machine_s_or_less() -> None:
    assert 100_000_000 < system.memory_here() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that takes the place of /proc and /sys/fs/cgroup."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    monkeypatch.setattr(system, "PROC", tmp_path / "proc")
    monkeypatch.setattr(system, "CGROUP", tmp_path / "cgroup")
    return tmp_path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_control_groups_of_version_2(machine: Path) -> None:
    put(machine / "proc/self/cgroup", "0::/user.slice/job\n")
    put(machine / "cgroup/user.slice/job/memory.max", "1000000\n")
    put(machine / "cgroup/user.slice/job/memory.events", "low 0\noom 3\noom_kill 2\n")
    put(machine / "proc/vmstat", "oom_kill 9\n")
    assert system.memory_here() == 1_000_000
    assert system.out_of_memory_kills() == 2


def test_control_groups_of_version_1(machine: Path) -> None:
    put(machine / "proc/self/cgroup", "9:cpu:/\n4:memory:/job\n0::/\n")
    put(machine / "cgroup/memory/job/memory.limit_in_bytes", "2000000\n")
    put(machine / "cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert system.memory_here() == 2_000_000
    assert system.out_of_memory_kills() == 1


def test_a_container_that_sees_its_group_at_the_top(machine: Path) -> None:
    put(machine / "proc/self/cgroup", "0::/not/seen/from/here\n")
    put(machine / "cgroup/memory.max", "3000000\n")
    put(machine / "cgroup/memory.events", "oom_kill 4\n")
    assert system.memory_here() == 3_000_000
    assert system.out_of_memory_kills() == 4


def test_a_machine_without_control_groups(machine: Path) -> None:
    put(machine / "proc/vmstat", "nr_free_pages 5\noom_kill 7\n")
    assert system.out_of_memory_kills() == 7
    (machine / "proc/vmstat").unlink()
    assert system.out_of_memory_kills() == 0
    assert system.memory_here() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_group_without_a_limit(machine: Path) -> None:
    put(machine / "proc/self/cgroup", "0::/\n")
    put(machine / "cgroup/memory.max", "max\n")
    assert system.memory_here() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
