"""Resource limits of a run: cores, memory, GPUs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orun.core.serialization import Record
from orun.environment.call_cache import cache_calls
from orun.environment.processor import count_usable_cores

if TYPE_CHECKING:
    from orun.core.machines import Machine

NVIDIA = Path("/proc/driver/nvidia/gpus")  # holds a folder for each GPU


class Resources(Record, frozen=True):
    """Cores, bytes of memory (None if nobody needs it) and GPUs."""

    cores: int
    memory: int | None = None
    gpus: int = 0


def find_available_resources(jobs: int | None = None, gpus: int | None = None, *, memory: bool = False) -> Resources:
    """Return the resources that a run may use.

    Args:
        jobs: cores to keep busy; all that this process may use when None.
        gpus: GPUs to use; all that this process sees when None.
        memory: whether to read the size of the memory.
    """
    size = None
    if memory and hasattr(os, "sysconf"):  # Windows lacks it
        from orun.environment.physical_memory import measure_memory

        size = measure_memory()
    return Resources(jobs or count_usable_cores(), size, count_visible_gpus() if gpus is None else gpus)


def to_resources(machine: Machine) -> Resources:
    """Return what stages may use of a machine of a fleet. One GPU at least: a driver may hide it."""
    return Resources(machine.cores, machine.memory, max(machine.gpus, 1))


@cache_calls
def count_visible_gpus() -> int:
    """Return the number of NVIDIA GPUs that this process may use; `CUDA_VISIBLE_DEVICES` may hide some."""
    try:
        there = len(os.listdir(NVIDIA))  # noqa: PTH208 - names alone
    except OSError:  # no NVIDIA driver
        return 0
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return there if chosen is None else min(there, _count_visible(chosen.split(",")))


def _count_visible(names: Sequence[str]) -> int:
    """Return the number of devices in a list; CUDA ignores everything from the first invalid name on."""
    kept = [name.strip() for name in names]
    ends = next((place for place, name in enumerate(kept) if not name or name.startswith("-")), len(kept))
    return len(set(kept[:ends]))
