"""Trees: folders by content, each a canonical list of files that is an object like any other.

    {"files":[{"digest":"...","executable":false,"path":"model.onnx","size":12}],"hash":"blake3","tree":1}

Empty folders are not kept.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from orun.errors import StoreError
from orun.fs.digests import ALGORITHM, digest_bytes, digest_descriptor, is_digest
from orun.store.checksummed_json import encode_canonical
from orun.store.objects import Objects
from orun.store.records import Entry, Tree
from orun.store.session_directory import Session

_FORMAT = 1
MOST_LOADED = 1000  # trees in memory


class Trees:
    """The trees of a store."""

    def __init__(self, objects: Objects, session: Session) -> None:
        self._objects = objects
        self._session = session
        self._loaded: dict[str, Tree] = {}

    def add(self, folder: Path) -> Tree:
        """Store a folder to which nobody writes any more. Its files are moved if possible, otherwise copied.

        Raises:
            StoreError: if it holds a link, pipe, socket or device.
        """
        files = _scan(folder)
        incoming = [self._objects.from_output(f"{folder}/{name}") for name in files]
        entries = tuple(
            Entry(name, content.size, content.digest, executable)
            for (name, executable), content in zip(files.items(), incoming, strict=True)
        )
        manifest = self._objects.from_bytes(encode(entries))
        self._objects.commit([*incoming, manifest])
        return self._keep(Tree(manifest.digest, entries))

    def describe(self, folder: Path) -> Tree:
        """Return the tree that `add` would make of a folder; stores nothing."""
        entries = tuple(_describe(folder, *file) for file in _scan(folder).items())
        return Tree(digest_bytes(encode(entries)), entries)

    def get(self, digest: str) -> Tree | None:
        """Return a tree, or None if its list of files is missing or damaged. Does not look at the files."""
        return self._loaded.get(digest) or self._load(digest)

    def check(self, digest: str, *, quarantine: bool = True) -> tuple[str, ...]:
        """Return the problems of a tree and its files, one sentence each.

        With `quarantine` damaged objects are moved there.
        """
        tree = None if self._objects.find_problem(digest, quarantine=quarantine) else self.get(digest)
        if tree is None:
            return ("its list of files is missing or was damaged",)
        if self._session.active:
            self._session.lease(tree.objects)
        problems = (
            (entry.path, self._objects.find_problem(entry.digest, quarantine=quarantine)) for entry in tree.entries
        )
        texts = {"missing": "is missing from the store", "damaged": "was damaged in the store"}
        return tuple(f"{path} {texts[problem]}" for path, problem in problems if problem)

    def _load(self, digest: str) -> Tree | None:
        data = self._objects.find(digest)
        if data is None:
            return None
        try:
            tree = Tree(digest, decode(data))
        except ValueError as error:
            raise StoreError(
                f"object {digest} is not a tree",
                why=str(error),
                hint="Name the digest of an artifact, not of one of its files: orun explain STAGE",
            ) from error
        return self._keep(tree)

    def _keep(self, tree: Tree) -> Tree:
        """Keep a tree in memory for a while."""
        if len(self._loaded) >= MOST_LOADED:
            del self._loaded[next(iter(self._loaded))]
        self._loaded[tree.digest] = tree
        return tree


def encode(entries: tuple[Entry, ...]) -> bytes:
    """Return the canonical list of the files of a tree, which must be sorted by path."""
    files = [
        {"path": entry.path, "size": entry.size, "digest": entry.digest, "executable": entry.executable}
        for entry in entries
    ]
    return encode_canonical({"tree": _FORMAT, "hash": ALGORITHM, "files": files})


def decode(data: bytes) -> tuple[Entry, ...]:
    """Return the files of a tree.

    Raises:
        ValueError: if the bytes are not a canonical list of files, or name a path outside of their folder.
    """
    try:
        content = json.loads(data)
        entries = tuple(_parse_entry(item) for item in content["files"])
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError("it is not a list of files") from error
    if encode(entries) != data:
        raise ValueError("the list of files is not in its canonical form")
    paths = [entry.path for entry in entries]
    if paths != sorted(set(paths)):
        raise ValueError("the list of files is not sorted, or names one twice")
    folders = {folder for path in paths for folder in list_parents(path)}
    if not folders.isdisjoint(paths):
        raise ValueError("the list of files names one as a folder too")
    return entries


def list_parents(path: str) -> list[str]:
    """Return the folders of a tree that a file of it is in, the outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _scan(folder: Path) -> dict[str, bool]:
    """Return whether each file below a folder is executable, by its path in the folder, sorted.

    Raises:
        StoreError: for a link, pipe, socket or device. `stages/ensure.py` refuses it too, but it may have come later.
    """
    root, files = str(folder), dict[str, bool]()
    folders = [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                name = entry.path[len(root) + 1 :]
                if not entry.is_file(follow_symlinks=False):
                    hint = "Leave only files and folders in the output folder"
                    raise StoreError(f"{name!r} cannot be stored", why="it is neither a file nor a folder", hint=hint)
                files[name] = bool(entry.stat(follow_symlinks=False).st_mode & stat.S_IXUSR)
    return dict(sorted(files.items()))


def _describe(folder: Path, name: str, executable: bool) -> Entry:
    with open(folder / name, "rb", buffering=0) as content:
        size, digest = os.fstat(content.fileno()).st_size, digest_descriptor(content.fileno())
    return Entry(name, size, digest, executable)


def _parse_entry(item: Any) -> Entry:
    path, size, digest, executable = item["path"], item["size"], item["digest"], item["executable"]
    if not (isinstance(path, str) and isinstance(size, int) and isinstance(executable, bool) and is_digest(digest)):
        raise ValueError("the list of files holds a value of another type")
    if path != os.path.normpath(path) or path.startswith(("/", "../")) or path in {"", ".", ".."} or "\0" in path:
        raise ValueError(f"the list of files names {path!r}, which is not a path inside a folder")
    return Entry(path, size, digest, executable)
