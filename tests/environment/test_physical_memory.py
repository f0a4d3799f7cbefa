from __future__ import annotations

import os
from pathlib import Path

import pytest

from orun.environment import physical_memory
from tests.environment.support import put


def test_memory_here_is_the_machine_s_or_less() -> None:
    assert 100_000_000 < physical_memory.measure_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_control_groups_of_version_2(machine: Path) -> None:
    put(machine / "proc/self/cgroup", "0::/user.slice/job\n")
    put(machine / "cgroup/user.slice/job/memory.max", "1000000\n")
    put(machine / "cgroup/user.slice/job/memory.events", "low 0\noom 3\noom_kill 2\n")
    put(machine / "proc/vmstat", "oom_kill 9\n")
    assert physical_memory.measure_memory() == 1_000_000
    assert physical_memory.count_out_of_memory_kills() == 2


def test_control_groups_of_version_1(machine: Path) -> None:
    put(machine / "proc/self/cgroup", "9:cpu:/\n4:memory:/job\n0::/\n")
    put(machine / "cgroup/memory/job/memory.limit_in_bytes", "2000000\n")
    put(machine / "cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert physical_memory.measure_memory() == 2_000_000
    assert physical_memory.count_out_of_memory_kills() == 1


@pytest.mark.parametrize(("line", "folder"), [("0::/", ""), ("4:memory:/", "memory/")])
def test_a_limit_of_the_group_around_it(machine: Path, line: str, folder: str) -> None:
    """As of a job of a batch system, each step of which has a group of its own without one."""
    name, none = ("memory.limit_in_bytes", "9223372036854771712") if folder else ("memory.max", "max")
    put(machine / "proc/self/cgroup", f"{line}slurm/job/step\n")
    put(machine / f"cgroup/{folder}slurm/job/step/{name}", f"{none}\n")
    put(machine / f"cgroup/{folder}slurm/job/{name}", "5000000\n")
    put(machine / f"cgroup/{folder}slurm/{name}", "6000000\n")
    assert physical_memory.measure_memory() == 5_000_000


def test_a_machine_without_control_groups(machine: Path) -> None:
    put(machine / "proc/vmstat", "nr_free_pages 5\noom_kill 7\n")
    assert physical_memory.count_out_of_memory_kills() == 7
    (machine / "proc/vmstat").unlink()
    assert physical_memory.count_out_of_memory_kills() == 0
    assert physical_memory.measure_memory() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
