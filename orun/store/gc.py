"""Removing what nobody needs any more, beside any number of running processes.

Kept is what named roots reach: the last runs of each pipeline, pins, what the caller names (accepted baselines,
releases), what running processes rely on; and then the most recently used up to a size and an age. The folders of runs
go by the same roots, see `old_runs`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from orun.fs.os_errors import convert_os_errors
from orun.store.gc_candidates import GcCandidates
from orun.store.inventory import Inventory, read_inventory
from orun.store.layout import note_path
from orun.store.materialize import move_folder
from orun.store.old_runs import RemovedRun, old_runs, size_of
from orun.store.pins import pins
from orun.store.session_directory import live_leases
from orun.store.store import Store

_WEEK = 7 * 86400.0  # seconds that what was put away is left to be looked at, and notes of runs to be of use


@dataclass(frozen=True)
class Keep:
    """What a collection keeps besides pins and what running processes rely on.

    Attributes:
        runs: of each pipeline, so many last runs with their artifacts.
        trees: digests of further artifacts.
        named_runs: ids of further runs whose folders stay.
        size: then the most recently used others, until all that is kept has so many bytes; None for any size if `age`
            is set, else for no others.
        age: only those others that were used in the last so many seconds; None for any age if `size` is set. The
            folders of runs that began in that time stay, too.
    """

    runs: int = 10
    trees: Collection[str] = ()
    named_runs: Collection[str] = ()
    size: int | None = None
    age: float | None = None


@dataclass(frozen=True)
class Removed:
    """An artifact that goes: where it was made, its bytes, and when (seconds since the epoch) it was last used."""

    tree: str
    pipeline: str
    stage: str
    size: int
    used_at: float


@dataclass(frozen=True)
class Collected:
    """What a collection does, or would do.

    Attributes:
        removed: artifacts with a record, the least recently used first.
        objects: how many objects go, those of no artifact included.
        size: their bytes.
        kept_objects: how many stay.
        kept_size: their bytes.
        runs: the runs whose folders go, the oldest first.
    """

    removed: tuple[Removed, ...]
    objects: int
    size: int
    kept_objects: int
    kept_size: int
    runs: tuple[RemovedRun, ...] = ()


def collect(store: Store, keep: Keep, *, dry_run: bool = False) -> Collected:
    """Remove what is not to be kept; with `dry_run` only say what that would be.

    A process that needs something of it meanwhile waits for the end and then makes it again. Another collection is
    waited for.

    Raises:
        StoreError: when the store cannot be written, or a pin was damaged.
    """
    with (
        Store.open(store.root) as own,
        convert_os_errors("collect garbage", store.root),
    ):  # whose session leases nothing
        own.sweep()
        candidates = GcCandidates(own.root)
        with candidates.lock() as lock:
            lock.acquire()
            choice = _choose(own, keep).sparing(live_leases(own.root / "tmp"))
            if dry_run:
                outcome = _outcome(choice)
            else:
                candidates.write(choice.candidates | choice.runs)
                try:
                    choice = choice.sparing(live_leases(own.root / "tmp"))
                    outcome = _outcome(choice)
                    _carry_out(own, choice)
                finally:
                    candidates.clear()
        store.notices += own.drain_notices()
    return outcome


@dataclass(frozen=True)
class _Choice:
    """What is to be removed: trees with their records, objects, folders of runs; and the sizes of all objects."""

    inventory: Inventory
    trees: frozenset[str]
    candidates: frozenset[str]
    runs: frozenset[str]
    sizes: Mapping[str, int]

    def sparing(self, leased: set[str]) -> _Choice:
        """The same without what running processes rely on."""
        return replace(self, trees=self.trees - leased, candidates=self.candidates - leased, runs=self.runs - leased)


def _choose(store: Store, keep: Keep) -> _Choice:
    found = read_inventory(store)
    sizes = {digest: status.st_size for digest, status in store.parts.objects.all()}
    used = found.last_used()
    roots = {pin.tree for pin in pins(store)} | set(keep.trees)
    runs = old_runs(found, keep.runs, keep.age, roots, keep.named_runs)
    kept = roots.union(*(run.trees for run in found.last_runs(keep.runs)))
    needed = {digest for tree in kept for digest in found.objects_of(tree)}
    total = sum(sizes.get(digest, 0) for digest in needed)
    others = sorted(used.keys() - kept, key=lambda tree: -used[tree])
    for tree in others if keep.size is not None or keep.age is not None else ():
        more = found.objects_of(tree) - needed
        total += sum(sizes.get(digest, 0) for digest in more)
        too_old = keep.age is not None and used[tree] < time.time() - keep.age
        if too_old or (keep.size is not None and total > keep.size):
            break
        needed |= more
        kept.add(tree)
    return _Choice(found, frozenset(used.keys() - kept), frozenset(sizes.keys() - needed), runs, sizes)


def _carry_out(store: Store, choice: _Choice) -> None:
    """Remove what people see first, then records, then what these name: a death in between leaves only garbage."""
    actions, by_path = store.parts.actions, {record.path: record for record in choice.inventory.records}
    for pipeline, stage, path in actions.pointers():
        tree = by_path[path].action.tree if path in by_path else ""
        if tree in choice.trees and (found := store.tree(tree)):
            store.parts.checkouts.withdraw(found, pipeline, stage)
        if not tree or tree in choice.trees:
            actions.remove_pointer(pipeline, stage)
    for record in choice.inventory.records:
        if record.action.tree in choice.trees:
            actions.remove(record.path, record.signature)
    for digest in choice.candidates:
        store.parts.objects.remove(digest)
    store.parts.index.forget(choice.candidates)
    for run in choice.runs:
        going = store.parts.session.path("run")  # nobody sees half a folder
        move_folder(str(store.root / "runs" / run), going)
        store.parts.materializer.discard(going)
    store.parts.quarantine.empty(older_than=_WEEK)
    for note in store.root.glob(str(note_path(Path(), "*"))):  # the next run makes it again
        if note.stat().st_mtime < time.time() - _WEEK:
            note.unlink()


def _outcome(choice: _Choice) -> Collected:
    used, size = choice.inventory.last_used(), choice.sizes
    removed = []
    for record in choice.inventory.records:
        action = record.action
        if action.tree in choice.trees:
            removed.append(Removed(action.tree, action.pipeline, action.stage, action.size, used[action.tree]))
    kept = size.keys() - choice.candidates
    return Collected(
        removed=tuple(sorted(removed, key=lambda one: (one.used_at, one.pipeline, one.stage))),
        objects=len(choice.candidates),
        size=sum(size[digest] for digest in choice.candidates),
        kept_objects=len(kept),
        kept_size=sum(size[digest] for digest in kept),
        runs=tuple(RemovedRun(run, size_of(choice.inventory.store.root / "runs" / run)) for run in sorted(choice.runs)),
    )
