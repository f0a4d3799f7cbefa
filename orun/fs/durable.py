"""Files that are there whole or not at all, also after a power cut: temp, fsync, rename, fsync of the folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

READ_ONLY = 0o444
_NO_MODES = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)
_NO_SYNC = (errno.EINVAL, *_NO_MODES)  # of folders: SMB, and shared folders of virtual machines


def write_file(path: str, data: bytes, mode: int | None = 0o644, *, sync: bool = True) -> None:
    """Write a new file; with `sync`, the disk has it by then, though its name may be lost (see `sync_folders`)."""
    with new_file(path, mode, sync=sync) as descriptor:
        write_all(descriptor, data)


@contextmanager
def new_file(path: str, mode: int | None, *, sync: bool = True) -> Iterator[int]:
    """The descriptor of a file that is made; on the disk when the block ends if `sync`, removed when it fails.

    Without a mode it gets the one of the umask.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
    try:
        try:
            yield descriptor
            if mode is not None:
                set_mode(descriptor, mode)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)  # which network file systems may be the first to refuse
    except BaseException:
        os.unlink(path)
        raise


def make_database(path: str) -> None:
    """Make an empty file for SQLite, if there is none: it would keep the group out whatever the umask.

    One of this user's that may not be written to, as one that was restored from elsewhere, is put right.
    """
    with suppress(OSError):  # SQLite is to say what is wrong with it
        with suppress(PermissionError):
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o666))
        if not os.access(path, os.R_OK | os.W_OK):
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_IRUSR | stat.S_IWUSR)


def set_mode(file: int | str, mode: int) -> None:
    """Give a file of our own a mode, where its file system has any: what it protects from are accidents."""
    try:
        os.chmod(file, mode)
    except OSError as error:
        if error.errno not in _NO_MODES:
            raise


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write until nothing is left."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def replace_file(path: str, data: bytes, temporary: str, mode: int | None = 0o644, *, sync: bool = True) -> list[str]:
    """Give a file a new content; whoever opens it sees the old one or the new one.

    Args:
        path: the file.
        data: its content.
        temporary: a path on the same file system where nothing is, nor will be.
        mode: of the file; that of the umask when None.
        sync: whether the new content must outlive a power cut from now on; else either may be there then, or neither.

    Returns:
        The folders that got a new name in them.
    """
    write_file(temporary, data, mode, sync=sync)
    folder = os.path.dirname(path)
    try:
        changed = make_folder(folder)
        try:
            os.rename(temporary, path)
        except FileNotFoundError:  # a collection has just removed the empty folder
            changed = make_folder(folder)
            os.rename(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if sync:
        sync_folders([folder, *changed])
    return [folder, *changed]


def write_anew(path: str, data: bytes) -> None:
    """Write a file unless it is there; it is for good when this returns."""
    temporary = f"{path}.{os.getpid()}-{os.urandom(6).hex()}"
    write_file(temporary, data)
    try:
        if not os.path.exists(path):
            os.rename(temporary, path)
            sync_folders([os.path.dirname(path)])
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def make_folder(path: str) -> list[str]:
    """Make a folder and those above it that are missing; returns the folders that got a new name in them."""
    missing = path
    changed: list[str] = []
    while not os.path.isdir(missing):
        missing = os.path.dirname(missing)
        changed.append(missing)
    if changed:
        os.makedirs(path, exist_ok=True)
    return changed


def sync_folders(folders: Iterable[str]) -> None:
    """Wait until the disk has the names in these folders."""
    for folder in sorted(set(folders)):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise
        finally:
            os.close(descriptor)
