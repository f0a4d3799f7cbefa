"""Output files of a command, at a path that the user gave."""

from __future__ import annotations

import errno
import os
import re
import select
import stat
from contextlib import suppress
from pathlib import Path
from typing import Self

from orun.fs.durable import make_folder, replace_file, write_all

with suppress(ModuleNotFoundError):  # Windows
    import fcntl

LINKS = 40  # followed one after the other, as Linux does


class OutputFile:
    """An output file: checked before the work, and written once after it.

    | at the path | how it is written |
    |---|---|
    | nothing, a file | to a temporary file that is renamed, so that old or new content is there |
    | a link | the link stays; its target is replaced |
    | a file with other names (hard links) | this name gets the new content, the others keep the old one |
    | a pipe, a character device, an open descriptor (`/dev/stdout`, `/dev/fd/3`) | directly |
    | a folder, a block device, a socket | refused |

    A pipe or device is opened at once and held until `close`, so that a waiting reader sees its end in any case.

    Attributes:
        path: as the user gave it.
        is_stream: whether it is written to directly.

    Args:
        path: as the user gave it.
        append: add to the content instead of replacing it.

    Raises:
        OSError: if it cannot be written, as far as that is known before.
    """

    def __init__(self, path: Path, *, append: bool = False) -> None:
        self.path = path
        self._append = append
        self._stream = _open_stream(os.fspath(path))
        self.is_stream = self._stream is not None
        if not self.is_stream:
            _require_replaceable(os.path.realpath(path))

    def write(self, data: bytes) -> None:
        """Write the content; the old content stays if that fails.

        Raises:
            OSError: if it cannot be written.
        """
        if self._stream is not None:
            _write_stream(self._stream, data)
            return
        target = os.path.realpath(self.path)  # a link may have another target by now
        status = _require_replaceable(target)
        folder = os.path.dirname(target)
        make_folder(folder)
        if self._append:
            _append(target, data)
            return
        mode = stat.S_IMODE(status.st_mode) if status else None
        try:
            replace_file(target, data, f"{folder}/.orun-{os.urandom(8).hex()}", mode)
        except OSError as error:  # it names the temporary file
            raise OSError(error.errno, error.strerror, target) from error

    def close(self) -> None:
        """Close a pipe or device."""
        if self._stream is not None:
            os.close(self._stream)
            self._stream = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _open_stream(path: str) -> int | None:
    """Open a pipe, device or descriptor; None for a file or if nothing is there."""
    if (number := _find_own_descriptor(path)) is not None:
        try:
            flags = fcntl.fcntl(number, fcntl.F_GETFL)
        except OSError as error:
            raise OSError(error.errno, f"descriptor {number} is not open", path) from error
        if flags & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, f"descriptor {number} is open for reading only", path)
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 0)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        return None
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO and stat.S_ISFIFO(mode):
            raise OSError(errno.ENXIO, "no process reads from this pipe", path) from error
        raise


def _find_own_descriptor(path: str) -> int | None:
    """Return the descriptor of this process that a path means: 1 for `/dev/stdout`, 3 for `/dev/fd/3`."""
    own = re.compile(rf"/dev/fd|/proc/{os.getpid()}(/task/\d+)?/fd")
    for _ in range(LINKS):
        folder, name = os.path.split(path)
        folder = os.path.realpath(folder)
        if name.isdecimal() and own.fullmatch(folder):
            return int(name)
        if not os.path.islink(f"{folder}/{name}"):
            return None
        path = os.path.join(folder, os.readlink(f"{folder}/{name}"))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _require_replaceable(target: str) -> os.stat_result | None:
    """Return the state of the file at a path without links, None if there is none; OSError if it cannot be replaced."""
    status = None
    with suppress(FileNotFoundError):
        status = os.stat(target)
    if status and stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", target)
    if status and not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is neither a file nor a pipe", target)
    folder = os.path.dirname(target)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    for path, access in ((target, os.W_OK), (folder, os.W_OK | os.X_OK)) if status else ((folder, os.W_OK | os.X_OK),):
        if not os.access(path, access):
            reason = errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES
            raise OSError(reason, os.strerror(reason), path)
    return status


def _append(target: str, data: bytes) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def _write_stream(descriptor: int, data: bytes) -> None:
    """Write all of the data at the pace of the reader, even if the descriptor does not block."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            poll.poll()
