"""Output checkouts `out/<pipeline>/<stage>/`: the artifacts as people open them, always equal to the stored ones."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from orun.fs.durable import READ_ONLY, set_mode
from orun.fs.locks import Lock
from orun.fs.signatures import Signature, is_settled, read_steadily, to_signature
from orun.store.index import Index
from orun.store.layout import to_safe_name
from orun.store.materialize import EXECUTABLE, Materializer, make_writable, move_folder
from orun.store.objects import Objects
from orun.store.quarantine import Quarantine
from orun.store.records import Entry, Tree
from orun.store.session_directory import Session
from orun.store.trees import list_parents


class Checkouts:
    """The folder `out/` of a store."""

    def __init__(
        self,
        root: Path,
        objects: Objects,
        index: Index,
        materializer: Materializer,
        session: Session,
        quarantine: Quarantine,
    ) -> None:
        self._root = str(root)
        self._objects = objects
        self._index = index
        self._materializer = materializer
        self._session = session
        self._quarantine = quarantine

    def restore(self, tree: Tree, pipeline: str, stage: str) -> tuple[Path, bool]:
        """Make the checkout of a stage equal to a tree; return its path and whether it had to be changed.

        The folder is replaced as a whole. Files that are not part of a stored result are moved to quarantine.
        """
        target = self.locate(pipeline, stage)
        if self.holds(target, tree):
            return Path(target), False
        self._objects.lease(tree.objects)  # before the lock: garbage collection, which it may wait for, takes the lock
        with self._lock(pipeline, stage):
            if self.holds(target, tree):  # another process has done it
                return Path(target), False
            self._replace(target, tree, f"out/{pipeline}/{stage}")
        return Path(target), True

    def withdraw(self, tree: Tree, pipeline: str, stage: str) -> bool:
        """Remove the checkout of a stage if it is equal to a tree; return whether it was."""
        target = self.locate(pipeline, stage)
        if not self.holds(target, tree):
            return False
        with self._lock(pipeline, stage):
            held = self.holds(target, tree)
            if held:
                self._materializer.discard(target)
        return held

    def list_names(self, pipeline: str) -> frozenset[str]:
        """Return the names of the checkouts of a pipeline."""
        with suppress(FileNotFoundError), os.scandir(f"{self._root}/out/{to_safe_name(pipeline)}") as entries:
            return frozenset(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return frozenset()

    def locate(self, pipeline: str, stage: str) -> str:
        """Return the path of the checkout of a stage."""
        return f"{self._root}/out/{to_safe_name(pipeline)}/{to_safe_name(stage)}"

    def holds(self, target: str, tree: Tree) -> bool:
        """Return whether a folder holds the files of a tree and nothing else."""
        expected = {entry.path: entry for entry in tree.entries}
        folders = {parent for path in expected for parent in list_parents(path)}
        pending = [""]
        try:
            if os.path.islink(target):
                return False
            while pending:
                prefix = pending.pop()
                with os.scandir(f"{target}/{prefix}") as items:
                    for item in items:
                        name = prefix + item.name
                        if item.is_dir(follow_symlinks=False) and name in folders:
                            pending.append(f"{name}/")
                        elif name not in expected or not self._matches(item.path, expected.pop(name)):
                            return False
        except (FileNotFoundError, NotADirectoryError):
            return False
        return not expected

    def _matches(self, path: str, entry: Entry) -> bool:
        """Return whether a file has the content of an entry; correct its mode."""
        status = os.lstat(path)
        mode = EXECUTABLE if entry.executable else READ_ONLY
        if not stat.S_ISREG(status.st_mode):
            return False
        if stat.S_IMODE(status.st_mode) != mode and not self._session.read_only:
            set_mode(path, mode)
            status = os.lstat(path)
        if self._index.get(to_signature(status)) == entry.digest:
            return True
        if status.st_size != entry.size:
            return False
        reading = read_steadily(path)
        if reading.digest == entry.digest and reading.steady and is_settled(reading.status):
            self._index.put(to_signature(reading.status), reading.digest)
        return reading.digest == entry.digest

    def _lock(self, pipeline: str, stage: str) -> Lock:
        lock = Lock(f"{self._root}/locks/{to_safe_name(f'out {to_safe_name(pipeline)} {to_safe_name(stage)}')}")
        lock.acquire()
        return lock

    def _replace(self, target: str, tree: Tree, name: str) -> None:
        fresh, old = self._session.choose_path("checkout"), self._session.choose_path("old")
        self._materializer.materialize(tree, fresh, folder_mode=0o755, lasting=True)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        expected = {entry.path for entry in tree.entries}
        stored = self._quarantine_foreign(target, name, expected)
        if os.path.lexists(target):
            move_folder(target, old)
        os.rename(fresh, target)
        self._quarantine_foreign(old, name, expected, stored)  # files that were added meanwhile
        self._materializer.discard(old)

    def _quarantine_foreign(
        self, folder: str, name: str, expected: Collection[str], known: Collection[Signature] = ()
    ) -> set[Signature]:
        """Move files below a folder that are not in the store to quarantine; OSError if that is impossible.

        A file may have been edited, or the object that shares its blocks was damaged: that is not known.

        Returns:
            The signatures of the files that are in the store, for the next call.
        """
        stored = set(known)
        for path in _list_files(folder):
            with suppress(FileNotFoundError):  # another process has removed it
                signature = to_signature(os.lstat(path))
                if signature in stored or self._is_stored(path):
                    stored.add(signature)
                else:
                    below = path[len(folder) + 1 :]
                    verb = "no longer matches" if below in expected or not below else "is not part of"
                    full = f"{name}/{below}" if below else name
                    make_writable(os.path.dirname(path))
                    self._quarantine.save(path, f"{full} {verb} its stored result", name=full)
        return stored

    def _is_stored(self, path: str) -> bool:
        """Return whether the content of a file is in the store."""
        status = os.lstat(path)
        if self._index.get(to_signature(status)) is not None:
            return True
        return stat.S_ISREG(status.st_mode) and os.path.exists(self._objects.locate(read_steadily(path).digest))


def _list_files(path: str) -> list[str]:
    """Return everything at or below a path that is not a folder."""
    if os.path.islink(path) or not os.path.isdir(path):
        return [path] if os.path.lexists(path) else []
    return [
        f"{folder}/{name}"
        for folder, below, files in os.walk(path)
        for name in [*below, *files]
        if os.path.islink(f"{folder}/{name}") or not os.path.isdir(f"{folder}/{name}")
    ]
