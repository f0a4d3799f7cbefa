"""Durable writes, all or nothing even after a power cut: temporary file, fsync, rename, fsync of the folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

READ_ONLY = 0o444
_NO_MODES = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)
_NO_SYNC = (errno.EINVAL, *_NO_MODES)  # of folders on SMB, and on shared folders of virtual machines


def write_file(path: str, data: bytes, mode: int | None = 0o644, *, sync: bool = True) -> None:
    """Write a new file. With `sync` its content is on the disk afterwards; for its name see `sync_folders`."""
    with create_file(path, mode, sync=sync) as descriptor:
        write_all(descriptor, data)


@contextmanager
def create_file(path: str, mode: int | None, *, sync: bool = True) -> Iterator[int]:
    """Create a file and yield its descriptor; the file is removed if the block fails.

    Args:
        path: of the file, which must not exist.
        mode: of the file; that of the umask if None.
        sync: have the content on the disk when the block ends.
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
            os.close(descriptor)  # may fail on network file systems
    except BaseException:
        os.unlink(path)
        raise


def make_database(path: str) -> None:
    """Create an empty file for SQLite with the mode of the umask: SQLite itself would exclude the group.

    An existing file of this user is made writable.
    """
    with suppress(OSError):  # SQLite reports what is wrong
        with suppress(PermissionError):
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o666))
        if not os.access(path, os.R_OK | os.W_OK):
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_IRUSR | stat.S_IWUSR)


def set_mode(file: int | str, mode: int) -> None:
    """Set the mode of a file of our own. Does nothing on a file system without modes: they only prevent accidents."""
    try:
        os.chmod(file, mode)
    except OSError as error:
        if error.errno not in _NO_MODES:
            raise


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of the data."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def replace_file(path: str, data: bytes, temporary: str, mode: int | None = 0o644, *, sync: bool = True) -> list[str]:
    """Replace the content of a file; readers see the old content or the new one.

    Args:
        path: of the file.
        data: its content.
        temporary: an unused path on the same file system.
        mode: of the file; that of the umask if None.
        sync: have the new content on the disk afterwards. Otherwise a power cut may leave old, new or no content.

    Returns:
        The folders in which a name is new.
    """
    write_file(temporary, data, mode, sync=sync)
    folder = os.path.dirname(path)
    try:
        changed = make_folder(folder)
        try:
            os.rename(temporary, path)
        except FileNotFoundError:  # garbage collection has just removed the empty folder
            changed = make_folder(folder)
            os.rename(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if sync:
        sync_folders([folder, *changed])
    return [folder, *changed]


def write_if_absent(path: str, data: bytes) -> None:
    """Write a file durably unless it exists."""
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
    """Make a folder with its missing parents; return the folders in which a name is new."""
    missing = path
    changed: list[str] = []
    while not os.path.isdir(missing):
        missing = os.path.dirname(missing)
        changed.append(missing)
    if changed:
        os.makedirs(path, exist_ok=True)
    return changed


def sync_folders(folders: Iterable[str]) -> None:
    """Flush the names in these folders to the disk."""
    for folder in sorted(set(folders)):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise
        finally:
            os.close(descriptor)
