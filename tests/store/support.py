"""Parts of the tests of the store: folders to store, records, faults, and counts of reads."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from orun.fs.os_errors import convert_os_errors
from orun.store import Store
from tests.store.results import action as action  # noqa: PLC0414 - tests take it from here
from tests.store.results import content as content  # noqa: PLC0414
from tests.store.results import fill as fill  # noqa: PLC0414

NOBODY = 65534


def _acts_as_others() -> bool:
    """Whether this is root, and not that of a container without other users."""
    users = Path("/proc/self/uid_map")
    if os.geteuid() != 0 or not users.exists():
        return os.geteuid() == 0
    ranges = [tuple(map(int, line.split())) for line in users.read_text("ascii").splitlines()]
    return any(first < NOBODY < first + count for first, _, count in ranges)


needs_proc = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="bytes read are counted in /proc")
forks = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
needs_root = pytest.mark.skipif(not _acts_as_others(), reason="only root may mount a small disk or act as another user")


def add(store: Store, files: Mapping[str, bytes]) -> str:
    """Store a folder with these files; the digest of its tree."""
    return store.add_tree(fill(store.make_session_folder("output"), files)).digest


def add_bytes(store: Store, data: bytes) -> str:
    """Store bytes as an object, as lists of files are; their digest."""
    with convert_os_errors("store a file", store.root):
        incoming = store.parts.objects.from_bytes(data)
        store.parts.objects.commit([incoming])
        return incoming.digest


def has_reflinks(store: Store) -> bool:
    """Whether placed files have blocks, not an inode, in common with their objects."""
    digest = store.add_tree(fill(store.make_session_folder("probe"), {"probe": b"probe"})).digest
    folder = store.make_session_folder("probe") / "placed"
    store.materialize(digest, folder)
    return (folder / "probe").stat().st_nlink == 1


def object_path(store: Store, digest: str) -> Path:
    """Where an object is by the layout that `artifacts/README.md` documents."""
    return store.root / "objects" / digest[:2] / digest[2:]


def in_child(work: Callable[[], object], user: int | None = None) -> str:
    """What `work` returns or raises in a forked child, as another user if asked."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if user is not None:
                os.setuid(user)
            text = str(work())
        except BaseException as error:  # noqa: BLE001  (it must not run on as a second pytest)
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as output:
        text = output.read()
    os.waitpid(child, 0)
    return text


def bytes_read() -> int:
    """Bytes that this process has asked the kernel for so far."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(lines[0].removeprefix("rchar: "))


def flip(path: Path) -> None:
    """Flip one bit in the middle, as root or after making the file writable."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    overwrite(path, bytes(data))


def overwrite(path: Path, data: bytes) -> None:
    """Write to the same inode."""
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(0o444)


def truncate(path: Path) -> None:
    """Cut off the second half."""
    overwrite(path, path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    """Leave nothing, as a power cut may."""
    overwrite(path, b"")


def replace(path: Path) -> None:
    """Put another file of the same size and time in its place."""
    status = path.stat()
    data = bytes(byte ^ 1 for byte in path.read_bytes())
    path.unlink()
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def edit_and_restore_time(path: Path) -> None:
    """Edit it in place and set its mtime back."""
    status = path.stat()
    flip(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


DAMAGE: tuple[Callable[[Path], None], ...] = (flip, truncate, empty, replace, edit_and_restore_time)


def in_an_image(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Let folders that are there now refuse to be moved, as those of an image over which overlayfs lays a container."""
    below = {str(path) for path in root.rglob("*") if path.is_dir()}
    rename = os.rename

    def cross(source: str | Path, target: str | Path) -> None:
        if str(source) in below:
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(source))
        rename(source, target)

    monkeypatch.setattr(os, "rename", cross)
