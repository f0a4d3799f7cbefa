"""Materialization of trees as folders, and their removal.

An object that gets or loses a hard link gets a new ctime, which looks like a change of its content. Every link is
therefore made and removed here, where what was known of the object before is carried over to its new signature.
"""

from __future__ import annotations

import errno
import os
import stat

from orun.errors import StoreError
from orun.fs.copying import copy_file, link, reflink
from orun.fs.durable import READ_ONLY, set_mode
from orun.fs.signatures import is_settled, set_stamp, signature_of
from orun.store.index import Index
from orun.store.objects import Objects
from orun.store.records import Entry, Tree
from orun.store.trees import parents

EXECUTABLE = 0o555
FAR_DOWN = 700  # bytes of a path; systems take 4096, or 1024


class Materializer:
    """Puts the files of trees into folders and removes such folders."""

    def __init__(self, objects: Objects, index: Index) -> None:
        self._objects = objects
        self._index = index
        self._reflinks = True  # until the file system says no

    def materialize(self, tree: Tree, folder: str, *, folder_mode: int, lasting: bool) -> None:
        """Make `folder` and put the files of the tree into it.

        Args:
            tree: the tree.
            folder: where; must not be there.
            folder_mode: mode of the folder and those in it.
            lasting: whether it will be looked at again: then copies are flushed to the disk and remembered as intact,
                and others may write into the folders if the umask lets them.

        Raises:
            StoreError: when one of them is missing or damaged.
        """
        self._objects.lease(tree.objects)
        folders = sorted({parent for entry in tree.entries for parent in parents(entry.path)})
        os.makedirs(folder)
        try:
            for name in folders:
                os.mkdir(f"{folder}/{name}")
            alone = _alone(tree)
            for entry in tree.entries:
                self._put(entry, f"{folder}/{entry.path}", alone=entry.path in alone, lasting=lasting)
        except FileExistsError as error:
            raise _alike(tree, folder, error) from error
        for made in (*(f"{folder}/{name}" for name in reversed(folders)), folder):
            set_mode(made, folder_mode | (stat.S_IMODE(os.lstat(made).st_mode) if lasting else 0))
        self._index.settle()

    def discard(self, path: str) -> None:
        """Remove a file or a whole folder, write-protected or not; nothing happens when it is not there."""
        if not os.path.lexists(path):
            return
        if os.path.islink(path) or not os.path.isdir(path):
            self._unlink(path)
            return
        pending, folders = [path], []
        while pending:
            folders.append(pending.pop())
            open_up(folders[-1])
            with os.scandir(folders[-1]) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(_within_reach(entry.path, path))
                    else:
                        self._unlink(entry.path)
        for folder in reversed(folders):
            os.rmdir(folder)
        self._index.settle()

    def _put(self, entry: Entry, target: str, *, alone: bool, lasting: bool) -> None:
        source = self._objects.path(entry.digest)
        mode = EXECUTABLE if entry.executable else READ_ONLY
        if self._reflinks or not alone:
            if problem := self._objects.problem(entry.digest):
                raise _unusable(entry, problem)
            before = os.lstat(source)
            self._reflinks = self._reflinks and reflink(source, target, mode)
            if not self._reflinks and not alone and link(source, target):
                self._carry(source, before, entry.digest)
                return
        if not self._reflinks:
            self._copy(entry, target, mode, sync=lasting)
        set_stamp(target, os.lstat(source).st_mtime_ns)
        placed = os.lstat(target)
        if lasting and is_settled(placed):
            self._index.put(signature_of(placed), entry.digest)

    def _copy(self, entry: Entry, target: str, mode: int, *, sync: bool) -> None:
        source = self._objects.path(entry.digest)
        if not os.path.lexists(source):
            raise _unusable(entry, "missing")
        if copy_file(source, target, mode, sync=sync) != entry.digest:
            self._objects.problem(entry.digest)  # puts it away
            raise _unusable(entry, "damaged")

    def _unlink(self, path: str) -> None:
        status = os.lstat(path)
        digest = self._index.get(signature_of(status)) if status.st_nlink > 1 else None
        os.unlink(path)
        if digest is not None:
            self._carry(self._objects.path(digest), status, digest)

    def _carry(self, path: str, before: os.stat_result, digest: str) -> None:
        """Go on trusting an object of which only the number of links has changed."""
        try:
            after = os.lstat(path)
        except FileNotFoundError:
            return
        known = signature_of(before)
        if self._index.get(known) == digest and signature_of(after)[:4] == known[:4]:
            self._index.put(signature_of(after), digest)


def _within_reach(folder: str, top: str) -> str:
    """Where a folder is, so that all in it can be named: one far down, relative paths reach further, is moved up."""
    if len(os.fsencode(folder)) < FAR_DOWN:
        return folder
    open_up(folder)
    moved = f"{top}/{os.urandom(6).hex()}"
    os.rename(folder, moved)
    return moved


def move_folder(source: str, target: str) -> None:
    """Move a folder, or what is in its place; as a whole, but for one of an image that overlayfs shows from below."""
    if os.path.isdir(source) and not os.path.islink(source):
        open_up(source)  # a folder that is write-protected cannot be moved
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        os.mkdir(target)
        for name in os.listdir(source):
            move_folder(f"{source}/{name}", f"{target}/{name}")
        os.rmdir(source)


def open_up(folder: str) -> None:
    """Let this user move a folder and what is in it; nothing to do for another's that a group shares."""
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        os.chmod(folder, stat.S_IRWXU)


def _alone(tree: Tree) -> set[str]:
    """The files that must not share an inode with their object.

    An executable needs a mode of its own. The onnx package (from 1.21) refuses external data that is a symbolic link or
    has more than one hard link, so the files beside a proto are never hard-linked.
    """
    paths = [entry.path for entry in tree.entries]
    protos = {path for path in paths if path.endswith(".onnx")}
    beside = set(paths) - protos if protos else set()
    return beside | {entry.path for entry in tree.entries if entry.executable}


def _alike(tree: Tree, folder: str, error: FileExistsError) -> Exception:
    """The error where a folder that nobody else fills takes two names for one."""
    import unicodedata  # needed here alone

    names = {entry.path for entry in tree.entries}
    names |= {parent for name in names for parent in parents(name)}
    folded: dict[str, list[str]] = {}
    for name in sorted(names):
        folded.setdefault(unicodedata.normalize("NFC", name).casefold(), []).append(name)
    found = next((alike for alike in folded.values() if len(alike) > 1), None)
    if found is None:
        return error
    return StoreError(
        f"an artifact cannot be placed: {found[0]} and {found[1]} would be one file in {folder}",
        why="its file system takes names that differ in case or accents alone for one",
        hint="Keep results where such names differ: --store DIR",
    )


def _unusable(entry: Entry, problem: str) -> StoreError:
    return StoreError(
        f"{entry.path} cannot be taken from the store",
        why=f"its object {entry.digest} is {problem}",
        hint="Run the pipeline again: the stage that made it will be built again",
    )
