"""Linux control groups: the cores and memory that a container or batch system leaves to this process."""

from __future__ import annotations

import os
from collections.abc import Iterator

PROC = "/proc"
GROUPS = "/sys/fs/cgroup"
LONGEST = 1 << 16  # bytes of what is read of a file of the kernel's


def files(controller: str, *names: str) -> list[str]:
    """Where files of this process's group may be, and those of the groups around it, which limit it too.

    Groups of version 2 are one tree, those of version 1 a tree for each controller; inside a container the group of the
    process may be the top of what is seen.

    Args:
        controller: of version 1, such as `memory`.
        names: of the files.

    Returns:
        Paths by name, with the nearest group first; there need be nothing.
    """
    tops = {GROUPS: None, f"{GROUPS}/{controller}": None}
    folders: dict[str, None] = {}
    for line in reversed(text(f"{PROC}/self/cgroup").splitlines()):
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            top = f"{GROUPS}/{controller}" if controllers else GROUPS
            folders |= dict.fromkeys(f"{top}{group}" for group in _upwards(path))
    return [f"{folder}/{name}" for name in names for folder in folders | tops]


def _upwards(path: str) -> Iterator[str]:
    """A group and those around it, without the slash at the end."""
    path = path.rstrip("/")
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""


def text(path: str) -> str:
    """What a file of the kernel's says; nothing where it is not there or cannot be read."""
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


def cores() -> list[int]:
    """How many cores this group and each of those around it may keep busy, rounded up; nothing where none is limited.

    They may be on any core: an affinity does not show it, as it does not in a container with a limit of CPU time.
    """
    shares = []
    for path in files("cpu", "cpu.max", "cpu.cfs_quota_us"):
        if quota := text(path):
            own = path.removesuffix("cfs_quota_us")  # of version 1, which has the period in a file of its own
            period = text(f"{own}cfs_period_us") if own != path else ""
            shares.append(f"{quota} {period}".split())
    known = [share for share in shares if share and all(map(str.isdigit, share))]  # not "max", nor -1
    return [-(-int(quota) // int(period)) for quota, period in known]
