"""Garbage collection, safe beside any number of running processes.

It keeps what the roots reach: the last runs of each pipeline, pins, artifacts that the caller names (accepted
baselines, releases), and what running processes rely on. Of the rest it keeps the most recently used, up to a size and
an age.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from orun.fs.os_errors import convert_os_errors
from orun.store.gc_candidates import GcCandidates
from orun.store.inventory import Inventory, read_inventory
from orun.store.layout import locate_note
from orun.store.materialize import move_folder
from orun.store.pins import list_pins
from orun.store.session_directory import read_live_leases
from orun.store.store import Store

SETTLED = 3600.0  # seconds since the last change of a finished run's folder: reports may follow its end
_WEEK = 7 * 86400.0  # seconds for which files stay in quarantine, unused notes of runs, and folders of killed runs


@dataclass(frozen=True)
class Keep:
    """Rules of a collection, besides pins and what running processes rely on.

    Attributes:
        runs: number of last runs of each pipeline that are kept with their artifacts.
        trees: digests of further artifacts to keep.
        named_runs: ids of further runs whose folders are kept.
        size: bytes of all that is kept, up to which the most recently used other artifacts are kept; None for no limit
            if `age` is set, otherwise none of them is kept.
        age: seconds since their last use up to which other artifacts are kept; None for no limit if `size` is set.
            Folders of runs that began in that time are kept too.
    """

    runs: int = 10
    trees: Collection[str] = ()
    named_runs: Collection[str] = ()
    size: int | None = None
    age: float | None = None


@dataclass(frozen=True)
class Removed:
    """A removed artifact: where it was made, its bytes, and its last use (seconds since the epoch)."""

    tree: str
    pipeline: str
    stage: str
    size: int
    used_at: float


@dataclass(frozen=True)
class RemovedRun:
    """A run whose folder is removed: its id, and the bytes of its files."""

    run: str
    size: int


@dataclass(frozen=True)
class Collected:
    """Result of a collection, or of a dry run.

    Attributes:
        removed: removed artifacts with a record, the least recently used first.
        objects: number of removed objects, with those of no artifact.
        size: their bytes.
        kept_objects: number of objects that stay.
        kept_size: bytes of these.
        runs: runs whose folders are removed, the oldest first.
    """

    removed: tuple[Removed, ...]
    objects: int
    size: int
    kept_objects: int
    kept_size: int
    runs: tuple[RemovedRun, ...] = ()


def collect(store: Store, keep: Keep, *, dry_run: bool = False) -> Collected:
    """Remove what the rules do not keep; with `dry_run` only report it.

    A process that needs a removed artifact waits for the end and makes it again. A collection waits for another one.

    Raises:
        StoreError: if the store cannot be written, or a pin was damaged.
    """
    # A store of its own, because the session of `store` may lease what is to be removed.
    with Store.open(store.root) as own, convert_os_errors("collect garbage", store.root):
        own.sweep()
        candidates = GcCandidates(own.root)
        with candidates.build_lock() as lock:
            lock.acquire()
            choice = _choose(own, keep).spare(read_live_leases(own.root / "tmp"))
            if dry_run:
                outcome = _build_outcome(choice)
            else:
                # Old runs may name trees that are gone, and a running process may be making one of them again.
                candidates.write(choice.trees | choice.candidates | choice.runs)
                try:
                    leased = read_live_leases(own.root / "tmp")
                    # A process whose lease is gone by now has ended, and what it recorded can be read.
                    choice = choice.confirm(_choose(own, keep)).spare(leased)
                    outcome = _build_outcome(choice)
                    _carry_out(own, choice)
                finally:
                    candidates.clear()
        store.notices += dict.fromkeys(own.drain_notices())  # both inventories may tell of the same damage
    return outcome


@dataclass(frozen=True)
class _Choice:
    """Garbage to remove: trees with their records, objects, folders of runs; and the sizes of all objects."""

    inventory: Inventory
    trees: frozenset[str]
    candidates: frozenset[str]
    runs: frozenset[str]
    sizes: Mapping[str, int]

    def spare(self, leased: set[str]) -> _Choice:
        """Return the choice without what running processes rely on."""
        return replace(self, trees=self.trees - leased, candidates=self.candidates - leased, runs=self.runs - leased)

    def confirm(self, later: _Choice) -> _Choice:
        """Return of a later choice what this one had already."""
        return replace(
            later,
            trees=later.trees & self.trees,
            candidates=later.candidates & self.candidates,
            runs=later.runs & self.runs,
        )


def _choose(store: Store, keep: Keep) -> _Choice:
    inventory = read_inventory(store)
    sizes = {digest: status.st_size for digest, status in store.parts.objects.iter_all()}
    used = inventory.find_last_uses()
    roots = {pin.tree for pin in list_pins(store)} | set(keep.trees)
    runs = _find_old_runs(inventory, keep, roots)
    kept = roots.union(*(run.trees for run in inventory.list_last_runs(keep.runs)))
    needed = {digest for tree in kept for digest in inventory.list_objects(tree)}
    total = sum(sizes.get(digest, 0) for digest in needed)
    recent_first = sorted(used.keys() - kept, key=lambda tree: -used[tree])
    for tree in recent_first if keep.size is not None or keep.age is not None else ():
        more = inventory.list_objects(tree) - needed
        total += sum(sizes.get(digest, 0) for digest in more)
        too_old = keep.age is not None and used[tree] < time.time() - keep.age
        if too_old or (keep.size is not None and total > keep.size):
            break
        needed |= more
        kept.add(tree)
    return _Choice(inventory, frozenset(used.keys() - kept), frozenset(sizes.keys() - needed), runs, sizes)


def _find_old_runs(inventory: Inventory, keep: Keep, roots: set[str]) -> frozenset[str]:
    """Return the runs whose folders may be removed. Of each root, the last run that built it is kept."""
    now = time.time()
    kept = {run.id for run in inventory.list_last_runs(keep.runs)} | set(keep.named_runs)
    builders = {tree: run.id for run in sorted(inventory.runs, key=lambda run: run.id) for tree in run.built}
    kept |= {builders[tree] for tree in roots if tree in builders}
    if keep.age is not None:
        kept |= {run.id for run in inventory.runs if run.started_at >= now - keep.age}
    kept |= {run.repeats for run in inventory.runs if run.id in kept}
    finished = {run.id for run in inventory.runs}
    return frozenset(
        folder.name
        for folder in inventory.store.list_runs()
        if folder.name not in kept and folder.stat().st_mtime < now - (SETTLED if folder.name in finished else _WEEK)
    )


def _carry_out(store: Store, choice: _Choice) -> None:
    """Remove checkouts, then records, then the objects that these name: a death in between leaves only garbage."""
    actions, by_path = store.parts.actions, {record.path: record for record in choice.inventory.records}
    for pipeline, stage, path in actions.iter_pointers():
        tree = by_path[path].action.tree if path in by_path else ""
        if tree in choice.trees and (content := store.read_tree(tree)):
            store.parts.checkouts.withdraw(content, pipeline, stage)
        if tree in choice.trees or not os.path.lexists(path):  # a new record may be newer than the inventory
            actions.remove_pointer(pipeline, stage)
    for record in choice.inventory.records:
        if record.action.tree in choice.trees:
            actions.remove(record.path, record.signature)
    for digest in choice.candidates:
        store.parts.objects.remove(digest)
    store.parts.index.forget(choice.candidates)
    for run in choice.runs:
        temporary = store.parts.session.choose_path("run")  # so that nobody sees half a folder
        move_folder(str(store.root / "runs" / run), temporary)
        store.parts.materializer.discard(temporary)
    store.parts.quarantine.empty(older_than=_WEEK)
    for note in store.root.glob(str(locate_note(Path(), "*"))):  # the next run makes it again
        if note.stat().st_mtime < time.time() - _WEEK:
            note.unlink()


def _build_outcome(choice: _Choice) -> Collected:
    used, size = choice.inventory.find_last_uses(), choice.sizes
    removed = []
    for record in choice.inventory.records:
        action = record.action
        if action.tree in choice.trees:
            removed.append(Removed(action.tree, action.pipeline, action.stage, action.size, used[action.tree]))
    kept = size.keys() - choice.candidates
    return Collected(
        removed=tuple(sorted(removed, key=lambda item: (item.used_at, item.pipeline, item.stage))),
        objects=len(choice.candidates),
        size=sum(size[digest] for digest in choice.candidates),
        kept_objects=len(kept),
        kept_size=sum(size[digest] for digest in kept),
        runs=tuple(
            RemovedRun(run, _measure_folder(choice.inventory.store.root / "runs" / run)) for run in sorted(choice.runs)
        ),
    )


def _measure_folder(folder: Path) -> int:
    return sum(os.lstat(f"{root}/{name}").st_size for root, _, names in os.walk(folder) for name in names)
