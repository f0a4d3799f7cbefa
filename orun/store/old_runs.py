"""Selection of the run folders that garbage collection removes."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from orun.store.inventory import Inventory

SETTLED = 3600.0  # seconds since the last change of a finished run's folder: reports may follow its end
UNFINISHED = 7 * 86400.0  # seconds for which the folder of a killed run stays


@dataclass(frozen=True)
class RemovedRun:
    """A run whose folder is removed: its id, and the bytes of its files."""

    run: str
    size: int


def old_runs(
    inventory: Inventory, last: int, age: float | None, trees: Collection[str], named: Collection[str]
) -> frozenset[str]:
    """Return the ids of the runs whose folders may be removed.

    Args:
        inventory: inventory of the store.
        last: number of last runs of each pipeline to keep.
        age: seconds; runs that began since then are kept. None for no such rule.
        trees: artifacts; the last run that built each is kept.
        named: ids of further runs to keep.
    """
    now = time.time()
    kept = {run.id for run in inventory.last_runs(last)} | set(named)
    builders = {tree: run.id for run in sorted(inventory.runs, key=lambda run: run.id) for tree in run.built}
    kept |= {builders[tree] for tree in trees if tree in builders}
    if age is not None:
        kept |= {run.id for run in inventory.runs if run.started_at >= now - age}
    kept |= {run.repeats for run in inventory.runs if run.id in kept}
    finished = {run.id for run in inventory.runs}
    return frozenset(
        folder.name
        for folder in inventory.store.runs()
        if folder.name not in kept
        and folder.stat().st_mtime < now - (SETTLED if folder.name in finished else UNFINISHED)
    )


def size_of(folder: Path) -> int:
    """Return the bytes of the files below a folder."""
    return sum(os.lstat(f"{root}/{name}").st_size for root, _, names in os.walk(folder) for name in names)
