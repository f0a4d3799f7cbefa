"""Cores of a machine that control groups leave."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orun.environment import cgroups, processor
from orun.environment.resources import find_available_resources
from tests.environment.support import put

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("200000 100000", [2]),
        ("150000 100000", [2]),  # half a core is one that may be busy
        ("5000 100000", [1]),
        ("max 100000", []),
        ("", []),
    ],
)
def test_a_quota_of_version_2(machine: Path, quota: str, cores: list[int]) -> None:
    put(machine / "proc/self/cgroup", "0::/kubepods/pod/container\n")
    put(machine / "cgroup/kubepods/pod/container/cpu.max", f"{quota}\n")
    assert cgroups.read_core_limits() == cores


@pytest.mark.parametrize(("quota", "cores"), [("250000", [3]), ("-1", [])])
def test_a_quota_of_version_1(machine: Path, quota: str, cores: list[int]) -> None:
    put(machine / "proc/self/cgroup", "4:memory:/other\n2:cpu,cpuacct:/docker/one\n0::/\n")
    put(machine / "cgroup/cpu/docker/one/cpu.cfs_quota_us", f"{quota}\n")
    put(machine / "cgroup/cpu/docker/one/cpu.cfs_period_us", "100000\n")
    assert cgroups.read_core_limits() == cores


def test_the_groups_around_it_limit_it_too(machine: Path) -> None:
    put(machine / "proc/self/cgroup", "0::/user.slice/job\n")
    put(machine / "cgroup/user.slice/job/cpu.max", "max 100000\n")
    put(machine / "cgroup/user.slice/cpu.max", "300000 100000\n")
    assert cgroups.read_core_limits() == [3]


def test_a_container_that_sees_its_group_at_the_top(machine: Path) -> None:
    put(machine / "proc/self/cgroup", "0::/not/seen/from/here\n")
    put(machine / "cgroup/cpu.max", "400000 100000\n")
    assert cgroups.read_core_limits() == [4]


def test_a_group_of_any_name_is_no_error(machine: Path) -> None:
    (machine / "proc/self").mkdir(parents=True)
    (machine / "proc/self/cgroup").write_bytes(b"0::/a:\xff\n")
    assert cgroups.read_core_limits() == []


def test_a_run_keeps_no_more_cores_busy_than_the_quota(machine: Path) -> None:
    assert find_available_resources().cores == processor.count_usable_cores() == CORES
    put(machine / "proc/self/cgroup", "0::/job\n")
    put(machine / "cgroup/job/cpu.max", "100000 100000\n")
    assert find_available_resources().cores == processor.count_usable_cores() == 1
    assert find_available_resources(jobs=7).cores == 7
    put(machine / "cgroup/job/cpu.max", f"{100_000 * (CORES + 1)} 100000\n")
    assert processor.count_usable_cores() == CORES
