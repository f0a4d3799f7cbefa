"""The face of the store: all that planner, runner and verbs do with it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Self

from orun.errors import StoreError
from orun.fs.locks import Lock, remove_free_locks
from orun.fs.os_errors import convert_os_errors
from orun.fs.traits import is_local, store_warning
from orun.store.gc_candidates import GcCandidates
from orun.store.integrity_snapshot import IntegritySnapshot, take_snapshot
from orun.store.layout import PRIVATE, VERSION_FILE, prepare, require_known, safe_name
from orun.store.parts import Parts, assemble
from orun.store.records import Action, Tree
from orun.store.session_directory import sweep
from orun.store.stat_cache import StatCache


class Store:
    """A content-addressed store of artifacts, what made them, and runs; shared by any number of processes.

    Nothing in it is trusted: an object counts as whole only as long as its signature is the one that it had when it was
    last read. Every method raises `StoreError` for what the operating system refuses. Not for several threads.

    Attributes:
        root: its folder.
        read_only: whether nothing of it changes, not even what is damaged in it.
        private: the paths of what only orun reads in it.
        files: digests of files outside it.
        notices: what was found damaged or foreign and what was done about it, one sentence each.
        parts: what it is made of; for the maintenance of a store.
    """

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self.root = root
        self.read_only = read_only
        self.private = tuple(f"{root}/{name}" for name in PRIVATE)
        self.notices: list[str] = []
        self.parts = assemble(root, self.notices, read_only=read_only)
        self.files = StatCache(self.parts.index, root)
        weakref.finalize(self, _let_go, self.parts)

    @classmethod
    def open(cls, root: Path, *, read_only: bool = False) -> Store:
        """The store at `root`, made when there is none, unless it is only to be read.

        Raises:
            StoreError: when it cannot be made or read, or has a layout of another version.
        """
        (require_known if read_only else prepare)(root.absolute())
        store = cls(root.absolute(), read_only=read_only)
        if warning := "" if read_only else store_warning(store.root):
            store.notices.append(warning)
        return store

    def close(self) -> None:
        """Remove everything temporary of this object, scratch folders included, and let go of the index.

        Happens by itself when nobody needs the object any more and when the process ends. It may be used again.
        """
        with self._os_errors("clean up"):
            _end(self.parts)

    def drain_notices(self) -> list[str]:
        """The notices since the last call; the store forgets them."""
        drained, self.notices[:] = list(self.notices), []
        return drained

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @cached_property
    def ignores_case(self) -> bool:
        """Whether its file system takes names that differ in case alone for one, as those of Windows and macOS do."""
        return os.path.lexists(self.root / VERSION_FILE.lower())

    # Objects and trees

    def add_file(self, path: Path) -> str:
        """Store a copy of a file and return its digest; it is on the disk when this returns."""
        with self._os_errors(f"store {path}"):
            incoming = self.parts.objects.from_copy(str(path))
            self.parts.objects.commit([incoming])
            return incoming.digest

    def add_tree(self, folder: Path) -> Tree:
        """Store a folder that nobody writes to any more; it is on the disk when this returns.

        Its files are moved out of the folder where nobody else can reach them. Empty folders are not kept.

        Raises:
            StoreError: also when it holds a link that leads out of it or to a folder, a pipe, socket or device, or a
                name that is not Unicode.
        """
        with self._os_errors(f"store {folder}"):
            return self.parts.trees.add(folder)

    @contextmanager
    def together(self) -> Iterator[None]:
        """A block at the end of which all that was stored in it is on the disk, and not before: quicker for several.

        What is stored in it may be seen by other processes at once.
        """
        with self.parts.index.holding(), self._os_errors("write to the disk"), self.parts.flushing.together():
            yield

    def pause(self, seconds: float) -> None:
        """Write down what is remembered of files so often and at `flush`, not at every change."""
        self.parts.index.pause = seconds

    def flush(self) -> None:
        """Write down what is remembered of files."""
        self.parts.index.flush()

    def describe(self, folder: Path) -> Tree:
        """The tree that `add_tree` would make of a folder; stores nothing.

        Raises:
            StoreError: as `add_tree` does.
        """
        with self._os_errors(f"read {folder}"):
            return self.parts.trees.describe(folder)

    def read(self, digest: str) -> bytes:
        """The content of an object, checked; StoreError when it is missing or damaged."""
        with self._os_errors("read from the store"):
            return self.parts.objects.read(digest)

    def tree(self, digest: str) -> Tree | None:
        """The tree of that digest, or None when the list of its files is missing or was damaged.

        Whether the files themselves are there says `check`.
        """
        with self._os_errors("read from the store"):
            return self.parts.trees.get(digest)

    def check(self, digest: str, *, quarantine: bool = True) -> tuple[str, ...]:
        """What is wrong with a tree and its files, one sentence each; nothing when all is there and intact.

        Files are read only when something has touched them. Damaged ones are put away and said in `notices`, unless
        they are to stay for who looks next.
        """
        with self._os_errors("read from the store"):
            problems = self.parts.trees.check(digest, quarantine=quarantine)
            self.parts.index.settle()
            return problems

    # Folders

    def materialize(self, digest: str, folder: Path) -> None:
        """Make `folder` with the files of a tree, all of it read-only: the input of a stage.

        To be removed by `discard`, which keeps hard-linked objects trusted.

        Raises:
            StoreError: also when a file of it is missing or damaged.
        """
        with self._os_errors(f"fill {folder}"):
            self.parts.materializer.materialize(self._whole(digest), str(folder), folder_mode=0o555, lasting=False)

    def checkout(self, digest: str, pipeline: str, stage: str) -> tuple[Path, bool]:
        """Let `out/<pipeline>/<stage>/` be a tree, and say whether it had to be made so.

        True for a new tree, and when a file there was missing, edited or added; what was edited or added is put away
        and said in `notices`. The folder changes as a whole.

        Raises:
            StoreError: also when a file of the tree is missing or damaged.
        """
        with self._os_errors(f"check out {pipeline}/{stage}"):
            result = self.parts.checkouts.restore(self._whole(digest), pipeline, stage)
            self.parts.index.settle()
            return result

    def checkout_names(self, pipeline: str) -> frozenset[str]:
        """Names of the folders in `out/<pipeline>/`."""
        with self._os_errors(f"list out/{pipeline}"):
            return self.parts.checkouts.names(pipeline)

    def withdraw(self, pipeline: str, stage: str) -> bool:
        """Remove `out/<pipeline>/<stage>/` if it holds what was done for the stage last, unedited; whether it did."""
        with self._os_errors(f"remove out/{pipeline}/{stage}"):
            latest = self.parts.actions.latest(pipeline, stage)
            tree = self.parts.trees.get(latest.tree) if latest else None
            return tree is not None and self.parts.checkouts.withdraw(tree, pipeline, stage)

    def make_session_folder(self, name: str) -> Path:
        """A new, empty folder on the file system of the store; it lives until `discard`, `close` or death."""
        with self._os_errors("make a scratch folder"):
            path = Path(self.parts.session.path(safe_name(name)))
            path.mkdir()
            return path

    def discard(self, path: Path) -> None:
        """Remove a scratch folder or a placed one, write-protected or not; nothing happens when it is not there."""
        with self._os_errors(f"remove {path}"):
            self.parts.materializer.discard(str(path))

    def sweep(self) -> None:
        """Remove what processes that died have left behind."""
        with self._os_errors("clean up"):
            sweep(self.root / "tmp", self.parts.materializer.discard)
            GcCandidates(self.root).sweep()
            remove_free_locks(self.root / "locks")

    # Records

    def actions(self, key: str) -> tuple[Action, ...]:
        """What was done for a key, the newest first; a damaged record is put away and does not count."""
        with self._os_errors("read from the store"):
            return self.parts.actions.find(key)

    def put_action(self, action: Action) -> None:
        """Store a record, the last step of a stage; it is on the disk when this returns.

        It takes the place of one with the same key and the same discovered inputs.
        """
        with self._os_errors("store a record"):
            self.parts.actions.put(action)

    def latest(self, pipeline: str, stage: str) -> Action | None:
        """What was last done for a stage, whatever its key was; None when nothing is known."""
        with self._os_errors("read from the store"):
            return self.parts.actions.latest(pipeline, stage)

    def set_latest(self, pipeline: str, stage: str, action: Action) -> None:
        """Note what was last done for a stage; costs one read when that is noted already."""
        with self._os_errors("store a record"):
            self.parts.actions.set_latest(pipeline, stage, action)

    def record_of(self, action: Action) -> Path:
        """Where a record lies, if it is stored."""
        return Path(self.parts.actions.path(action))

    def pointer_of(self, pipeline: str, stage: str) -> Path:
        """Where it lies what `set_latest` notes of a stage."""
        return Path(self.parts.actions.pointer(pipeline, stage))

    def take_snapshot(self, pipeline: str, artifacts: Mapping[str, str]) -> IntegritySnapshot | None:
        """Take an integrity snapshot of the results of stages; None if something is damaged.

        Args:
            pipeline: name of the pipeline.
            artifacts: digest of the tree of each stage, by id.
        """
        with self._os_errors("read from the store"):
            snapshot = take_snapshot(self.parts, pipeline, artifacts, folder_times=is_local(self.root))
            self.parts.index.settle()
            return snapshot

    # Runs and locks

    def new_run(self, pipeline: str) -> Path:
        """A new folder `runs/<id>/`; from now on `gc` spares what this object is asked for.

        What processes that died have left behind is removed.
        """
        with self._os_errors("begin a run"):
            self.parts.session.begin()
            self.sweep()
            folder = self.parts.runs.new(pipeline)
            self.parts.session.lease([folder.name])
            return folder

    def unmade_run(self, pipeline: str) -> Path:
        """Return the folder that a run would have that begins now, which leaves no trace."""
        with self._os_errors("read from the store"):
            return self.parts.runs.unmade(pipeline)

    def runs(self) -> tuple[Path, ...]:
        """The folders of all runs, the oldest first."""
        with self._os_errors("read from the store"):
            return self.parts.runs.all()

    def ended_runs(self, named: Callable[[str], bool] = bool) -> Iterator[Path]:
        """The folders of the runs that have a record, and such an id, the newest first."""
        with self._os_errors("read from the store"):
            yield from self.parts.runs.ended(named)

    def run(self, prefix: str, *, hold: bool = False) -> Path:
        """The folder of a run by its id or an unambiguous beginning of it; UsageError when there is not one.

        With `hold`, `gc` spares it as long as this object lives.
        """
        with self._os_errors("read from the store"):
            found = self.parts.runs.find(prefix)
            if hold:
                self.parts.session.lease([found.name])
                found = self.parts.runs.find(found.name)  # a collection that was waited for may have removed it
            return found

    def key_lock(self, key: str) -> Lock:
        """The lock of a key, not yet taken. Who has waited for it must look again whether the work is done."""
        return Lock(f"{self.root}/locks/{safe_name(key)}")

    def _whole(self, digest: str) -> Tree:
        tree = self.parts.trees.get(digest)
        if tree is None:
            raise StoreError(
                f"tree {digest} is not in the store",
                why="the list of its files is missing or was damaged",
                hint="Run the pipeline again: the stage that made it will be built again",
            )
        return tree

    def _os_errors(self, doing: str) -> AbstractContextManager[None]:
        return convert_os_errors(doing, self.root)


def _let_go(parts: Parts) -> None:
    """End, as far as may be: nobody hears what is refused, and the next run sweeps."""
    with suppress(OSError):
        _end(parts)


def _end(parts: Parts) -> None:
    try:
        parts.session.close(parts.materializer.discard)
    finally:
        parts.index.close()
