"""Materialization of trees as folders, and their removal.

An object that gets or loses a hard link gets a new ctime, which looks like a change of its content. So every link is
made and removed here, and what was known of the object is carried over to its new signature.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import cached_property

from orun.errors import ArtifactDamaged, StoreError
from orun.fs.copying import copy_file, link, reflink
from orun.fs.durable import READ_ONLY, set_mode
from orun.fs.signatures import is_settled, set_stamp, to_signature
from orun.fs.traits import FilesystemTraits, probe
from orun.store.index import Index
from orun.store.objects import Objects
from orun.store.records import Entry, Tree
from orun.store.session_directory import Session
from orun.store.trees import list_parents

EXECUTABLE = 0o555
LONG_PATH = 700  # bytes; systems allow 4096, or 1024


class Materializer:
    """Puts the files of trees into folders, and removes such folders."""

    def __init__(self, objects: Objects, index: Index, session: Session) -> None:
        self._objects = objects
        self._index = index
        self._session = session

    @cached_property
    def _traits(self) -> FilesystemTraits:
        return probe(self._session.folder)

    def materialize(self, tree: Tree, folder: str, *, folder_mode: int, lasting: bool) -> None:
        """Make a folder with the files of a tree.

        Args:
            tree: the tree.
            folder: path of the folder, which must not exist.
            folder_mode: mode of the folder and its subfolders.
            lasting: the folder will be checked later. Copies are flushed to the disk and remembered as intact, and the
                umask decides who may write into the folders.

        Raises:
            StoreError: if a file is missing or damaged.
        """
        self._objects.lease(tree.objects)
        folders = sorted({parent for entry in tree.entries for parent in list_parents(entry.path)})
        os.makedirs(folder)
        try:
            for name in folders:
                os.mkdir(f"{folder}/{name}")
            unlinkable = _list_unlinkable(tree)
            for entry in tree.entries:
                self._put(entry, f"{folder}/{entry.path}", linkable=entry.path not in unlinkable, lasting=lasting)
        except FileExistsError as error:  # nobody else writes to this folder
            raise StoreError(
                f"an artifact cannot be placed: {os.path.relpath(error.filename, folder)} is there twice in {folder}",
                why="its file system takes names that differ in case or accents alone for one",
                hint="Keep results where such names differ: --store DIR",
            ) from error
        for path in (*(f"{folder}/{name}" for name in reversed(folders)), folder):
            set_mode(path, folder_mode | (stat.S_IMODE(os.lstat(path).st_mode) if lasting else 0))
        self._index.settle()

    def discard(self, path: str) -> None:
        """Remove a file or a folder, write-protected or not. Does nothing if it does not exist."""
        if not os.path.lexists(path):
            return
        if os.path.islink(path) or not os.path.isdir(path):
            self._unlink(path)
            return
        pending, folders = [path], []
        while pending:
            folders.append(pending.pop())
            make_writable(folders[-1])
            with os.scandir(folders[-1]) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(_shorten(entry.path, path))
                    else:
                        self._unlink(entry.path)
        for folder in reversed(folders):
            os.rmdir(folder)
        self._index.settle()

    def _put(self, entry: Entry, target: str, *, linkable: bool, lasting: bool) -> None:
        source = self._objects.locate(entry.digest)
        mode = EXECUTABLE if entry.executable else READ_ONLY
        linkable = linkable and self._traits.hardlink
        shared = False
        if self._traits.reflink or linkable:
            if problem := self._objects.find_problem(entry.digest):
                raise _build_unusable_error(entry, problem)
            before = os.lstat(source)
            shared = self._traits.reflink and reflink(source, target, mode)
            if not shared and linkable and link(source, target):
                self._carry(source, before, entry.digest)
                return
        if not shared:
            self._copy(entry, target, mode, sync=lasting)
        set_stamp(target, os.lstat(source).st_mtime_ns)
        status = os.lstat(target)
        if lasting and is_settled(status):
            self._index.put(to_signature(status), entry.digest)

    def _copy(self, entry: Entry, target: str, mode: int, *, sync: bool) -> None:
        source = self._objects.locate(entry.digest)
        if not os.path.lexists(source):
            raise _build_unusable_error(entry, "missing")
        if copy_file(source, target, mode, sync=sync) != entry.digest:
            self._objects.find_problem(entry.digest)  # moves it to quarantine
            raise _build_unusable_error(entry, "damaged")

    def _unlink(self, path: str) -> None:
        status = os.lstat(path)
        digest = self._index.get(to_signature(status)) if status.st_nlink > 1 else None
        os.unlink(path)
        if digest is not None:
            self._carry(self._objects.locate(digest), status, digest)

    def _carry(self, path: str, before: os.stat_result, digest: str) -> None:
        """Keep trusting an object of which only the number of links has changed."""
        try:
            after = os.lstat(path)
        except FileNotFoundError:
            return
        known = to_signature(before)
        if self._index.get(known) == digest and to_signature(after)[:4] == known[:4]:
            self._index.put(to_signature(after), digest)


def _shorten(folder: str, top: str) -> str:
    """Move a deep folder up so that paths below it stay under PATH_MAX; return its path."""
    if len(os.fsencode(folder)) < LONG_PATH:
        return folder
    make_writable(folder)
    moved = f"{top}/{os.urandom(6).hex()}"
    os.rename(folder, moved)
    return moved


def move_folder(source: str, target: str) -> None:
    """Move a file or folder. A folder in a lower layer of overlayfs, which cannot be moved, is moved file by file."""
    if os.path.isdir(source) and not os.path.islink(source):
        make_writable(source)  # a write-protected folder cannot be moved
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        os.mkdir(target)
        for name in os.listdir(source):
            move_folder(f"{source}/{name}", f"{target}/{name}")
        os.rmdir(source)


def make_writable(folder: str) -> None:
    """Let this user change a folder, unless a group shares it already."""
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        os.chmod(folder, stat.S_IRWXU)


def _list_unlinkable(tree: Tree) -> set[str]:
    """Return the files that must not share an inode with their object.

    An executable needs its own mode. The onnx package (from 1.21) refuses external data with more than one hard link,
    so files beside a proto are never hard-linked.
    """
    paths = [entry.path for entry in tree.entries]
    protos = {path for path in paths if path.endswith(".onnx")}
    external_data = set(paths) - protos if protos else set()
    return external_data | {entry.path for entry in tree.entries if entry.executable}


def _build_unusable_error(entry: Entry, problem: str) -> ArtifactDamaged:
    return ArtifactDamaged(
        f"{entry.path} cannot be taken from the store",
        why=f"its object {entry.digest} is {problem}",
        hint="Run the pipeline again: the stage that made it will be built again",
    )
