"""Places that share blocks with their objects, on file systems that can, made in files for the purpose."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from orun.store import Store
from tests.store.support import add, bytes_read, content, flip, needs_proc, object_path

SIZE = 512 << 20  # of the file system: XFS wants 300 MB; the file is sparse
BIG = os.urandom(8 << 20)


@pytest.fixture(params=["xfs", "btrfs"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store on a file system with reflinks."""
    make, image, disk = f"mkfs.{request.param}", tmp_path / "image", tmp_path / "disk"
    if os.geteuid() != 0 or shutil.which(make) is None:
        pytest.skip(f"needs root and {make}")
    image.touch()
    os.truncate(image, SIZE)
    disk.mkdir()
    subprocess.run([make, "-q", str(image)], capture_output=True, check=True)
    mount = ["mount", "-o", "loop", str(image), str(disk)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount {request.param} here: {mounted.stderr.strip()}")
    with Store.open(disk / "store") as store:
        yield store
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def used(store: Store) -> int:
    """Bytes of the file system that are taken."""
    subprocess.run(["sync", "--file-system", str(store.root)], check=True)
    status = os.statvfs(store.root)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def test_a_place_takes_no_room_and_leaves_its_object_alone(shared: Store) -> None:
    digest = add(shared, {"big": BIG})
    source = object_path(shared, blake3(BIG).hexdigest())
    before, used_before = source.stat(), used(shared)
    checkout, _ = shared.check_out(digest, "p", "s")
    shared.materialize(digest, shared.make_session_folder("inputs") / "model")
    assert used(shared) - used_before < len(BIG) // 2
    placed = (checkout / "big").stat()
    assert (placed.st_nlink, placed.st_mtime_ns) == (1, before.st_mtime_ns)
    assert placed.st_ino != before.st_ino
    assert source.stat() == before
    assert content(checkout) == {"big": BIG}


@needs_proc
def test_a_deleted_checkout_comes_back_unread(shared: Store) -> None:
    digest = add(shared, {"big": BIG})
    checkout, _ = shared.check_out(digest, "p", "s")
    shutil.rmtree(checkout)
    start = bytes_read()
    assert shared.check_out(digest, "p", "s") == (checkout, True)
    assert bytes_read() - start < len(BIG) // 2
    assert content(checkout) == {"big": BIG}


def test_a_checkout_that_is_written_to_is_no_danger_to_its_object(shared: Store) -> None:
    digest = add(shared, {"big": BIG})
    checkout, _ = shared.check_out(digest, "p", "s")
    flip(checkout / "big")
    assert shared.check(digest) == ()
    assert shared.check_out(digest, "p", "s") == (checkout, True)
    assert content(checkout) == {"big": BIG}
    (notice,) = shared.drain_notices()
    assert notice.startswith("out/p/s/big no longer matches its stored result; moved to quarantine as ")


def test_a_damaged_object_is_not_shared(shared: Store) -> None:
    digest = add(shared, {"big": BIG})
    shared.check_out(digest, "p", "s")
    flip(object_path(shared, blake3(BIG).hexdigest()))
    assert shared.check(digest) == ("big was damaged in the store",)
