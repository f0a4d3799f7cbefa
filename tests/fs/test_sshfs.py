"""A store over SFTP, which tells neither how many names a file has nor that two names are of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orun.store import Store
from tests.store.mounts import sshfs
from tests.store.support import add, content


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store on it."""
    with sshfs(tmp_path) as disk, Store.open(disk / "store") as store:
        yield store


def test_what_is_written_to_an_output_does_not_reach_the_store(store: Store) -> None:
    """A restored output had been what was written there: its object was the same file, and passed for whole."""
    tree = add(store, {"text": b"made"})
    out, _ = store.checkout(tree, "p", "s")
    (out / "text").chmod(0o644)
    (out / "text").write_bytes(b"by hand")
    assert store.checkout(tree, "p", "s") == (out, True)
    assert content(out) == {"text": b"made"}
    assert store.check(tree) == ()
