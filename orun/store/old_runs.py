"""Selection of the run folders that garbage collection removes."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from orun.store.inventory import Inventory, Run

SETTLED = 3600.0  # seconds since the last change of a finished run's folder: reports and findings may follow its end
UNFINISHED = 7 * 86400.0  # seconds that what a killed run has left stays to be looked at


@dataclass(frozen=True)
class RemovedRun:
    """The folder of a run that goes: the run's id, and the bytes of its files."""

    run: str
    size: int


def old_runs(
    found: Inventory, last: int, age: float | None, trees: Collection[str], named: Collection[str]
) -> frozenset[str]:
    """Ids of the runs whose folders may go.

    Args:
        found: what is in the store.
        last: of each pipeline, so many last runs stay.
        age: those that began in the last so many seconds stay; None when age keeps none.
        trees: of each of these artifacts, the run stays that made it last.
        named: ids of further runs that stay.
    """
    now = time.time()
    kept = {run.id for run in found.last_runs(last)} | set(named)
    kept |= _makers(found.runs, frozenset(trees))
    if age is not None:
        kept |= {run.id for run in found.runs if run.started_at >= now - age}
    kept |= {run.repeats for run in found.runs if run.id in kept}
    finished = {run.id for run in found.runs}
    return frozenset(
        folder.name
        for folder in found.store.runs()
        if folder.name not in kept
        and folder.stat().st_mtime < now - (SETTLED if folder.name in finished else UNFINISHED)
    )


def _makers(runs: Collection[Run], trees: frozenset[str]) -> set[str]:
    """The last run that built each of these artifacts."""
    makers = {tree: run.id for run in sorted(runs, key=lambda run: run.id) for tree in run.built & trees}
    return set(makers.values())


def size_of(folder: Path) -> int:
    """The bytes of the files below a folder."""
    return sum(os.lstat(f"{root}/{name}").st_size for root, _, names in os.walk(folder) for name in names)
