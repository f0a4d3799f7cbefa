"""Integrity snapshot: objects and checkouts of results, comparable later without reading any file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping

from orun.core.serialization import Record
from orun.fs.observed_state import listing_digest
from orun.fs.signatures import CLOCK, Signature, signature_of
from orun.store.parts import Parts
from orun.store.records import Tree
from orun.store.trees import parents


class Evidence(Record, frozen=True):
    """Files that were intact when they had these signatures.

    Attributes:
        files: path -> signature of every object and checked-out file, and of every folder of a checkout in which no
            name was new: who puts one there changes its times.
        folders: path -> digest of the names in every other folder of a checkout.
    """

    files: Mapping[str, Signature]
    folders: Mapping[str, str]


class Witness(Record, frozen=True):
    """Collects evidence; signatures are taken before files are found intact and compared after."""

    parts: Parts
    timed: bool  # whether the times of a folder change with the names in it, which mounts of object stores may not know

    def collect(self, pipeline: str, artifacts: Mapping[str, str]) -> Evidence | None:
        """The evidence for the artifacts of stages, digests by id; None when something is not intact, or moves."""
        files: dict[str, Signature] = {}
        folders: dict[str, str] = {}
        for stage, digest in artifacts.items():
            tree = self.parts.trees.get(digest)
            if tree is None:
                return None
            out = self.parts.checkouts.path(pipeline, stage)
            try:
                before = {path: signature_of(os.stat(path)) for path in self._paths(tree, out)}
                below = _folders(tree, out)
                before |= self._settled(below)
                listed = {path: listing_digest(path) for path in below - before.keys()}
                intact = not self.parts.trees.check(digest) and self.parts.checkouts.holds(out, tree)
                after = {path: signature_of(os.stat(path)) for path in before}
            except OSError:
                return None
            if not intact or before != after:
                return None
            files |= before
            folders |= listed
        return Evidence(files, folders)

    def _settled(self, folders: Iterable[str]) -> dict[str, Signature]:
        """The signatures of those in which no name is so new that another one could come without a trace."""
        if not self.timed:
            return {}
        seen, old = {path: signature_of(os.stat(path)) for path in folders}, time.time_ns() - CLOCK
        return {path: one for path, one in seen.items() if max(one[3:]) < old}

    def _paths(self, tree: Tree, out: str) -> Iterator[str]:
        yield self.parts.objects.path(tree.digest)
        for entry in tree.entries:
            yield self.parts.objects.path(entry.digest)
            yield f"{out}/{entry.path}"


def _folders(tree: Tree, out: str) -> set[str]:
    return {out, *(f"{out}/{parent}" for entry in tree.entries for parent in parents(entry.path))}
