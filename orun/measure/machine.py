"""Cores of this machine: which are the quietest, and how to stay on them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

TOPOLOGY = Path("/sys/devices/system/cpu")
LOOK_SECONDS = 0.1  # how long the cores are watched; the kernel counts in hundredths of a second


def quiet_cores() -> list[int]:
    """The usable cores, first those that were idle most of the last moment; none where the system does not tell or pin.

    To be called while nothing of ours runs.
    """
    if not hasattr(os, "sched_setaffinity") or not Path("/proc/stat").exists():
        return []
    before = _idle()
    time.sleep(LOOK_SECONDS)
    after = _idle()
    usable = sorted(os.sched_getaffinity(0) & after.keys())
    return sorted(usable, key=lambda core: before.get(core, 0) - after[core])


def pin(core: int) -> None:
    """Keep the calling thread on a core."""
    os.sched_setaffinity(0, {core})


def spread(threads: Sequence[int], cores: Sequence[int]) -> None:
    """Keep each thread on a core of its own; nothing is done where there are more threads than cores.

    Args:
        threads: their native ids.
        cores: the cores, best first.
    """
    if len(threads) > len(cores):
        return
    for thread, core in zip(threads, apart(cores), strict=False):
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setaffinity(thread, {core})


def apart(cores: Sequence[int]) -> list[int]:
    """The same cores, first one of each physical core: two hardware threads of one share its units."""
    firsts: dict[str, int] = {}
    for core in cores:
        firsts.setdefault(_physical(core), core)
    return [*firsts.values(), *(core for core in cores if core not in firsts.values())]


def _physical(core: int) -> str:
    """What names the physical core that a core is of; its own number where the system does not tell."""
    with suppress(OSError):
        return (TOPOLOGY / f"cpu{core}/topology/thread_siblings_list").read_text(encoding="ascii").strip()
    return str(core)


def _idle() -> dict[int, int]:
    """Idle ticks of each core since boot."""
    lines = Path("/proc/stat").read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if line.startswith("cpu") and line[3].isdigit())
    return {int(row[0][3:]): int(row[4]) for row in rows}
