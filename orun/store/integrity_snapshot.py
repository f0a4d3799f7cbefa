"""Integrity snapshot: signatures of results and their checkouts, comparable later without reading a file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping

from orun.core.serialization import Record
from orun.fs.observed_state import digest_listing
from orun.fs.signatures import CLOCK, Signature, to_signature
from orun.store.parts import Parts
from orun.store.records import Tree
from orun.store.trees import list_parents


class IntegritySnapshot(Record, frozen=True):
    """Files that were intact when they had these signatures.

    Attributes:
        files: path -> signature of every object and checked-out file, and of every checkout folder whose times show
            that no name was added lately.
        folders: path -> digest of the names in every other folder of a checkout.
    """

    files: Mapping[str, Signature]
    folders: Mapping[str, str]


def take_snapshot(
    parts: Parts, pipeline: str, artifacts: Mapping[str, str], *, folder_times: bool
) -> IntegritySnapshot | None:
    """Take a snapshot of the results of stages; None if something is damaged or changes meanwhile.

    Signatures are taken before the files are checked, and compared afterwards.

    `folder_times` says whether the times of a folder change with its names, which is not sure on network file systems.
    """
    files: dict[str, Signature] = {}
    folders: dict[str, str] = {}
    for stage, digest in artifacts.items():
        tree = parts.trees.get(digest)
        if tree is None:
            return None
        checkout = parts.checkouts.locate(pipeline, stage)
        try:
            before = {path: to_signature(os.stat(path)) for path in _iter_paths(parts, tree, checkout)}
            below = {checkout, *(f"{checkout}/{name}" for entry in tree.entries for name in list_parents(entry.path))}
            before |= _read_settled(below) if folder_times else {}
            listed = {path: digest_listing(path) for path in below - before.keys()}
            intact = not parts.trees.check(digest) and parts.checkouts.holds(checkout, tree)
            after = {path: to_signature(os.stat(path)) for path in before}
        except OSError:
            return None
        if not intact or before != after:
            return None
        files |= before
        folders |= listed
    return IntegritySnapshot(files, folders)


def _read_settled(folders: Iterable[str]) -> dict[str, Signature]:
    """Return the signatures of folders that are so old that a new name must change them."""
    signatures, limit = {path: to_signature(os.stat(path)) for path in folders}, time.time_ns() - CLOCK
    return {path: signature for path, signature in signatures.items() if max(signature[3:]) < limit}


def _iter_paths(parts: Parts, tree: Tree, checkout: str) -> Iterator[str]:
    yield parts.objects.locate(tree.digest)
    for entry in tree.entries:
        yield parts.objects.locate(entry.digest)
        yield f"{checkout}/{entry.path}"
