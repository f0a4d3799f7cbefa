"""Integrity snapshot of stored results: every file of theirs, and nothing where one is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from blake3 import blake3

from orun.fs import traits
from orun.fs.observed_state import digest_listing
from orun.fs.signatures import to_signature
from orun.store import Store, integrity_snapshot
from orun.store.checkouts import Checkouts
from orun.store.records import Tree
from tests.store.support import add, flip, object_path

FILES = {"a": b"one", "sub/b": b"two"}


def test_the_evidence_is_of_every_object_and_file_and_of_every_folder(store: Store) -> None:
    digest = add(store, FILES)
    out, _ = store.check_out(digest, "p", "s")
    objects = [
        object_path(store, object_digest)
        for object_digest in (digest, *(blake3(data).hexdigest() for data in FILES.values()))
    ]
    snapshot = store.take_snapshot("p", {"s": digest})
    assert snapshot is not None
    assert snapshot.files == {str(path): to_signature(path.stat()) for path in (*objects, out / "a", out / "sub/b")}
    assert snapshot.folders == {str(path): digest_listing(path) for path in (out, out / "sub")}


def test_a_folder_whose_names_are_not_new_is_known_by_its_times(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """To list it costs four times as much as to look at it."""
    digest = add(store, FILES)
    out, _ = store.check_out(digest, "p", "s")
    new = store.take_snapshot("p", {"s": digest})
    monkeypatch.setattr(integrity_snapshot, "CLOCK", 0)
    old = store.take_snapshot("p", {"s": digest})
    assert new is not None
    assert old is not None
    folders = {str(path): to_signature(path.stat()) for path in (out, out / "sub")}
    assert (old.files, old.folders) == ({**new.files, **folders}, {})
    assert folders.keys() == new.folders.keys()
    monkeypatch.setattr(traits, "read_filesystem_type", lambda _path: "fuse.s3fs")  # which makes up times of folders
    assert store.take_snapshot("p", {"s": digest}) == new


@pytest.mark.parametrize(
    "damage",
    [
        lambda objects, _: flip(objects[0]),
        lambda objects, _: flip(objects[1]),
        lambda objects, _: objects[1].unlink(),
        lambda _, out: flip(out / "sub/b"),
        lambda _, out: (out / "sub/b").unlink(),
        lambda _, out: (out / "more").touch(),
        lambda _, out: shutil.rmtree(out),
    ],
    ids=["tree", "object", "object gone", "output", "output gone", "another file", "no outputs"],
)
def test_there_is_none_of_what_is_not_whole(store: Store, damage: Callable[[list[Path], Path], None]) -> None:
    digest = add(store, FILES)
    out, _ = store.check_out(digest, "p", "s")
    for folder in (out, out / "sub"):
        folder.chmod(0o755)
    damage([object_path(store, object_digest) for object_digest in (digest, blake3(b"one").hexdigest())], out)
    assert store.take_snapshot("p", {"s": digest}) is None


def test_there_is_none_of_what_moves_meanwhile(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = add(store, FILES)
    out, _ = store.check_out(digest, "p", "s")
    holds = Checkouts.holds

    def touches(self: Checkouts, folder: str, tree: Tree) -> bool:
        held = holds(self, folder, tree)
        (out / "a").chmod(0o400)
        return held

    monkeypatch.setattr(Checkouts, "holds", touches)
    assert store.take_snapshot("p", {"s": digest}) is None
