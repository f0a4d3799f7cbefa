"""The memory of this machine, and what its kernel does when there is none left."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from pathlib import Path

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")
PAGE = os.sysconf("SC_PAGE_SIZE")


def out_of_memory_kills() -> int:
    """How many processes the kernel has killed for want of memory: in this control group, or on this machine."""
    counter = _kill_counter(PROC, CGROUP)
    return counter() if counter else 0


@functools.lru_cache(maxsize=1)  # asked before and after each stage; the group of a process stays
def _kill_counter(proc: Path, _groups: Path) -> Callable[[], int] | None:
    for path in (*_control_group("memory.events"), *_control_group("memory.oom_control"), proc / "vmstat"):
        if _kills_in(str(path)) is not None:
            return lambda: _kills_in(str(path)) or 0
    return None


def _kills_in(path: str) -> int | None:
    """The count in a file of the kernel's; None where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        _, found, rest = b"\n".join([b"", os.read(descriptor, 1 << 16)]).partition(b"\noom_kill ")
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return int(rest.split(None, 1)[0]) if found else None


def memory_here() -> int:
    """Bytes of memory that this machine, or the control group that the process is in, has."""
    limits = [os.sysconf("SC_PHYS_PAGES") * PAGE]
    for limit in (*_control_group("memory.max"), *_control_group("memory.limit_in_bytes")):
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            limits.append(int(limit.read_text()))
    return min(limits)


def _control_group(name: str) -> list[Path]:
    """Where a file of this process's control group may be: version 2, version 1, and as seen inside a container."""
    found = [CGROUP / name, CGROUP / "memory" / name]
    with contextlib.suppress(OSError):
        for line in (PROC / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                found.insert(0, CGROUP / controllers / path.strip("/") / name)
    return found
