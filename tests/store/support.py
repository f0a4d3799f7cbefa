"""What the tests of the store share: folders to store, records, faults, and how much was read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from orun.core.metrics import Metric
from orun.fs.os_errors import convert_os_errors
from orun.store import Action, ImplicitDependencies, Store
from tests.facts import components

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


def fill(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Make a folder with these files."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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


def action(key: str = "a" * 64, **changes: object) -> Action:
    """A record."""
    fields: dict[str, object] = {
        "key": key,
        "components": components({"kind": "quantize/dynamic", "parameter per_channel": "true"}),
        "implicit_deps": ImplicitDependencies(),
        "tree": "1" * 64,
        "size": 12,
        "metrics": {"nodes": Metric(3.0)},
        "log": "2" * 64,
        "pipeline": "bert",
        "stage": "int8",
        "host": {"cpu": "x"},
        "started_at": 100.0,
        "seconds": 1.5,
        "cpu_seconds": 1.25,
        "peak_memory": 1000,
        **changes,
    }
    return Action(**fields)  # type: ignore[arg-type]


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
