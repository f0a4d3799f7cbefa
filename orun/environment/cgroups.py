"""Linux control groups: limits of cores and memory by a container or batch system."""

from __future__ import annotations

import os
from collections.abc import Iterator

PROC = "/proc"
GROUPS = "/sys/fs/cgroup"
LONGEST = 1 << 16  # bytes read from a file of the kernel


def list_files(controller: str, *names: str) -> list[str]:
    """Return the possible paths of the files of this process's group and its parent groups, which all limit it.

    Version 2 has one tree of groups, version 1 a tree for each controller. In a container, the process's group may be
    the top of the visible tree.

    Args:
        controller: the controller of version 1, such as `memory`.
        names: names of the files.

    Returns:
        Paths by name, with the nearest group first; they need not exist.
    """
    tops = {GROUPS: None, f"{GROUPS}/{controller}": None}
    folders: dict[str, None] = {}
    for line in reversed(read_text(f"{PROC}/self/cgroup").splitlines()):
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            top = f"{GROUPS}/{controller}" if controllers else GROUPS
            folders |= dict.fromkeys(f"{top}{group}" for group in _iter_parents(path))
    return [f"{folder}/{name}" for name in names for folder in folders | tops]


def _iter_parents(path: str) -> Iterator[str]:
    """Yield a group and its parents, without the slash at the end."""
    path = path.rstrip("/")
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""


def read_text(path: str) -> str:
    """Read a file of the kernel; empty if it is missing or cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.fsdecode(os.read(descriptor, LONGEST))
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def read_core_limits() -> list[int]:
    """Return the core limits of this group and its parents, rounded up; empty if there is no limit.

    A limit of CPU time holds on any core, so CPU affinity does not show it.
    """
    shares = []
    for path in list_files("cpu", "cpu.max", "cpu.cfs_quota_us"):
        if quota := read_text(path):
            own = path.removesuffix("cfs_quota_us")  # version 1 has the period in a separate file
            period = read_text(f"{own}cfs_period_us") if own != path else ""
            shares.append(f"{quota} {period}".split())
    known = [share for share in shares if share and all(map(str.isdigit, share))]  # "max" and -1 mean no limit
    return [-(-int(quota) // int(period)) for quota, period in known]
