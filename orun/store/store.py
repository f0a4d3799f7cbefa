"""Store: the interface that planner, runner and verbs use."""

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
from orun.store.layout import VERSION_FILE, list_private_paths, prepare, require_known, to_safe_name
from orun.store.parts import Parts, assemble
from orun.store.records import Action, Tree
from orun.store.session_directory import sweep
from orun.store.stat_cache import StatCache


class Store:
    """Content-addressed store of artifacts, actions and runs, shared by any number of processes.

    Nothing in it is trusted: an object counts as intact only while it has the signature of its last reading. Every
    method raises `StoreError` for errors of the operating system. For one thread at a time.
    """

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self.root = root
        self.read_only = read_only  # nothing changes in it, not even damaged files
        self.private = list_private_paths(root)  # paths that only orun reads
        self.notices: list[str] = []  # one sentence each
        self.parts = assemble(root, self.notices, read_only=read_only)
        self.files = StatCache(self.parts.index, root)  # digests of files outside of it
        weakref.finalize(self, _finalize, self.parts)

    @classmethod
    def open(cls, root: Path, *, read_only: bool = False) -> Store:
        """Open a store; create it if there is none, unless it is only to be read.

        Raises:
            StoreError: if it cannot be made or read, or has the layout of another version.
            UsageError: if the folder holds other files.
        """
        (require_known if read_only else prepare)(root.absolute())
        store = cls(root.absolute(), read_only=read_only)
        if warning := "" if read_only else store_warning(store.root):
            store.notices.append(warning)
        return store

    def close(self) -> None:
        """Remove the session folder and close the index. The object may be used again.

        Called automatically when the object is garbage and when the process ends.
        """
        with self._convert_os_errors("clean up"):
            _end(self.parts)

    def drain_notices(self) -> list[str]:
        """Return the notices since the last call and forget them."""
        drained, self.notices[:] = list(self.notices), []
        return drained

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @cached_property
    def ignores_case(self) -> bool:
        """Whether its file system ignores case in names, as those of Windows and macOS do."""
        return os.path.lexists(self.root / VERSION_FILE.lower())

    # Objects and trees

    def add_file(self, path: Path) -> str:
        """Store a copy of a file durably and return its digest."""
        with self._convert_os_errors(f"store {path}"):
            incoming = self.parts.objects.from_copy(str(path))
            self.parts.objects.commit([incoming])
            return incoming.digest

    def add_tree(self, folder: Path) -> Tree:
        """Store a folder durably to which nobody writes any more. Its files are moved if nobody else can reach them.

        Empty folders are not kept.

        Raises:
            StoreError: also if it holds anything but files and folders.
        """
        with self._convert_os_errors(f"store {folder}"):
            return self.parts.trees.add(folder)

    @contextmanager
    def flush_together(self) -> Iterator[None]:
        """Flush everything that is stored during a block at its end, which is quicker than one by one.

        Other processes may see it before.
        """
        with (
            self.parts.index.hold_writes(),
            self._convert_os_errors("write to the disk"),
            self.parts.flushing.flush_together(),
        ):
            yield

    def pause(self, seconds: float) -> None:
        """Write digests of files to the index at most so often, and at `flush`."""
        self.parts.index.pause = seconds

    def flush(self) -> None:
        """Write digests of files to the index."""
        self.parts.index.flush()

    def describe(self, folder: Path) -> Tree:
        """Return the tree that `add_tree` would make of a folder; stores nothing. Raises the errors of `add_tree`."""
        with self._convert_os_errors(f"read {folder}"):
            return self.parts.trees.describe(folder)

    def read(self, digest: str) -> bytes:
        """Return the content of an object, checked; StoreError if it is missing or damaged."""
        with self._convert_os_errors("read from the store"):
            return self.parts.objects.read(digest)

    def read_tree(self, digest: str) -> Tree | None:
        """Return a tree, or None if its list of files is missing or was damaged. For the files see `check`."""
        with self._convert_os_errors("read from the store"):
            return self.parts.trees.get(digest)

    def check(self, digest: str, *, quarantine: bool = True) -> tuple[str, ...]:
        """Return the problems of a tree and its files, one sentence each. Files are read only if they were touched.

        With `quarantine` damaged objects are moved there, with a notice.
        """
        with self._convert_os_errors("read from the store"):
            problems = self.parts.trees.check(digest, quarantine=quarantine)
            self.parts.index.settle()
            return problems

    # Folders

    def materialize(self, digest: str, folder: Path) -> None:
        """Make a read-only folder with the files of a tree, as input of a stage.

        It must be removed by `discard`, which keeps hard-linked objects trusted.

        Raises:
            StoreError: also if a file is missing or damaged.
        """
        with self._convert_os_errors(f"fill {folder}"):
            self.parts.materializer.materialize(self._require(digest), str(folder), folder_mode=0o555, lasting=False)

    def check_out(self, digest: str, pipeline: str, stage: str) -> tuple[Path, bool]:
        """Make `out/<pipeline>/<stage>/` equal to a tree; return its path and whether it had to be changed.

        The folder is replaced as a whole. Files there that were edited or added are moved to quarantine, with a notice.

        Raises:
            StoreError: also if a file of the tree is missing or damaged.
        """
        with self._convert_os_errors(f"check out {pipeline}/{stage}"):
            result = self.parts.checkouts.restore(self._require(digest), pipeline, stage)
            self.parts.index.settle()
            return result

    def list_checkouts(self, pipeline: str) -> frozenset[str]:
        """Return the names of the folders in `out/<pipeline>/`."""
        with self._convert_os_errors(f"list out/{pipeline}"):
            return self.parts.checkouts.list_names(pipeline)

    def withdraw(self, pipeline: str, stage: str) -> bool:
        """Remove `out/<pipeline>/<stage>/` if it holds the stage's last result, unedited; return whether it did."""
        with self._convert_os_errors(f"remove out/{pipeline}/{stage}"):
            latest = self.parts.actions.find_latest(pipeline, stage)
            tree = self.parts.trees.get(latest.tree) if latest else None
            return tree is not None and self.parts.checkouts.withdraw(tree, pipeline, stage)

    def make_session_folder(self, name: str) -> Path:
        """Make an empty folder on the file system of the store, to last until `discard`, `close` or death."""
        with self._convert_os_errors("make a session folder"):
            path = Path(self.parts.session.choose_path(to_safe_name(name)))
            path.mkdir()
            return path

    def discard(self, path: Path) -> None:
        """Remove a session folder or a materialized one, if it exists."""
        with self._convert_os_errors(f"remove {path}"):
            self.parts.materializer.discard(str(path))

    def sweep(self) -> None:
        """Remove the temporary files and locks of dead processes."""
        with self._convert_os_errors("clean up"):
            sweep(self.root / "tmp", self.parts.materializer.discard)
            GcCandidates(self.root).sweep()
            remove_free_locks(self.root / "locks")

    # Records

    def list_actions(self, key: str) -> tuple[Action, ...]:
        """Return the actions of a key, the newest first. Damaged records are moved to quarantine."""
        with self._convert_os_errors("read from the store"):
            return self.parts.actions.find(key)

    def put_action(self, action: Action) -> None:
        """Store a record durably, the last step of a stage, in place of one of the same key and dependencies."""
        with self._convert_os_errors("store a record"):
            self.parts.actions.put(action)

    def find_latest(self, pipeline: str, stage: str) -> Action | None:
        """Return the last action of a stage, whatever its key was; None if none is known."""
        with self._convert_os_errors("read from the store"):
            return self.parts.actions.find_latest(pipeline, stage)

    def set_latest(self, pipeline: str, stage: str, action: Action) -> None:
        """Note the last action of a stage. Costs one read if it is noted already."""
        with self._convert_os_errors("store a record"):
            self.parts.actions.set_latest(pipeline, stage, action)

    def locate_record(self, action: Action) -> Path:
        """Return the path of a record."""
        return Path(self.parts.actions.locate(action))

    def locate_pointer(self, pipeline: str, stage: str) -> Path:
        """Return the path of the pointer that `set_latest` writes."""
        return Path(self.parts.actions.locate_pointer(pipeline, stage))

    def take_snapshot(self, pipeline: str, artifacts: Mapping[str, str]) -> IntegritySnapshot | None:
        """Take an integrity snapshot of the artifacts of a pipeline's stages; None if something is damaged."""
        with self._convert_os_errors("read from the store"):
            snapshot = take_snapshot(self.parts, pipeline, artifacts, folder_times=is_local(self.root))
            self.parts.index.settle()
            return snapshot

    # Runs and locks

    def create_run(self, pipeline: str) -> Path:
        """Make a folder `runs/<id>/`. From now on garbage collection spares what this object uses.

        Also removes the temporary files of dead processes.
        """
        with self._convert_os_errors("begin a run"):
            self.parts.session.begin()
            self.sweep()
            folder = self.parts.runs.create(pipeline)
            self.parts.session.lease([folder.name])
            return folder

    def choose_next_run_folder(self, pipeline: str) -> Path:
        """Return the folder that a new run would have; makes nothing."""
        with self._convert_os_errors("read from the store"):
            return self.parts.runs.choose_next_folder(pipeline)

    def list_runs(self) -> tuple[Path, ...]:
        """Return the folders of all runs, the oldest first."""
        with self._convert_os_errors("read from the store"):
            return self.parts.runs.list_all()

    def iter_ended_runs(self, named: Callable[[str], bool] = bool) -> Iterator[Path]:
        """Yield the folders of ended runs whose ids `named` accepts, the newest first."""
        with self._convert_os_errors("read from the store"):
            yield from self.parts.runs.iter_ended(named)

    def run(self, prefix: str, *, hold: bool = False) -> Path:
        """Return the folder of a run by its id or an unambiguous prefix of it; UsageError if there is not exactly one.

        With `hold`, garbage collection spares it as long as this object lives.
        """
        with self._convert_os_errors("read from the store"):
            folder = self.parts.runs.find(prefix)
            if hold:
                self.parts.session.lease([folder.name])
                folder = self.parts.runs.find(folder.name)  # a collection may have removed it
            return folder

    def build_key_lock(self, key: str) -> Lock:
        """Return the lock of a key, not yet taken. After waiting for it, look again whether the work is done."""
        return Lock(f"{self.root}/locks/{to_safe_name(key)}")

    def _require(self, digest: str) -> Tree:
        tree = self.parts.trees.get(digest)
        if tree is None:
            raise StoreError(
                f"tree {digest} is not in the store",
                why="the list of its files is missing or was damaged",
                hint="Run the pipeline again: the stage that made it will be built again",
            )
        return tree

    def _convert_os_errors(self, action: str) -> AbstractContextManager[None]:
        return convert_os_errors(action, self.root)


def _finalize(parts: Parts) -> None:
    """Close the parts of a store. Errors reach nobody, and the next run sweeps."""
    with suppress(OSError):
        _end(parts)


def _end(parts: Parts) -> None:
    try:
        parts.session.close(parts.materializer.discard)
    finally:
        parts.index.close()
