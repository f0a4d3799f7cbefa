"""Errors of the operating system in the user's words."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orun.errors import MORE_MEMORY, StoreError

_KEPT = "Nothing that was stored is lost."

# errno -> (what is the matter, how to mend it; {place} is where the store is, {path} the nearest that is there)
_REFUSALS = {
    errno.ENOSPC: ("the disk is full", f"{_KEPT} Free some space and run it again: df -h {{place}}"),
    errno.EDQUOT: ("the disk quota is used up", f"{_KEPT} Free some space and run it again: quota -s"),
    errno.ENOMEM: ("there is not enough memory", MORE_MEMORY),
    errno.EFBIG: ("a file is larger than this process may write", f"{_KEPT} Raise the limit: ulimit -f unlimited"),
    errno.EROFS: ("the file system is read-only", "Choose a place that can be written (--store DIR): ls -ld {path}"),
    errno.EACCES: ("permission denied", "See whose it is: ls -ld {path}"),
    errno.EPERM: ("permission denied", "See whose it is: ls -ld {path}"),
    errno.EMFILE: ("too many open files", "Raise the limit of this process: ulimit -n 4096"),
    errno.ENFILE: ("too many open files on this machine", "See the limit of the machine: cat /proc/sys/fs/file-max"),
    errno.EAGAIN: ("no more processes may be started", "Raise the limit of processes: ulimit -u 4096"),
    errno.ENAMETOOLONG: ("a name is too long", "Choose a place with a shorter path than {place}"),
    errno.EBUSY: ("another process writes to it", "Wait for that process; see which it is: fuser -v {path}"),
    errno.ELOOP: ("it leads back to itself", "Remove that link: ls -l {path}"),
    errno.ENOLCK: ("the file system has no locks", "Mount it with them, or choose another place: df -h {place}"),
    errno.EIO: ("the disk reports an error", "Look for its cause: dmesg"),
    errno.ESTALE: ("the server has another file there by now", "See that the file system is there: df -h {place}"),
}
_OTHER = "Look at what is there: ls -ld {path}"


def refusal(error: OSError, doing: str, path: str | Path, elsewhere: str = "") -> StoreError:
    """The `StoreError` for what the operating system said while the store was `doing` something at `path`.

    Where that is no place of the store's, `elsewhere` says what to do when nothing can be written there.
    """
    reason = error.strerror or str(error)
    where = error.filename if isinstance(error.filename, str) else path
    text, hint = _missing(error, where) or _REFUSALS.get(error.errno or 0, (reason.lower(), _OTHER))
    if elsewhere and error.errno == errno.EROFS:
        return StoreError(f"cannot {doing}: {text}", why=f"{where}: {reason}", hint=elsewhere)
    hint = hint.format(place=quoted(_existing(path)), path=quoted(_existing(where))) + _owner(error, _existing(where))
    return StoreError(f"cannot {doing}: {text}", why=f"{where}: {reason}", hint=hint)


def is_refusal(error: StoreError) -> bool:
    """Whether the operating system has refused something that is there, so that nothing is known of what it holds."""
    cause = error.__cause__
    return isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError | IsADirectoryError)


@contextmanager
def refusals(doing: str, path: str | Path, elsewhere: str = "") -> Iterator[None]:
    """Turn every OSError of the block into a `StoreError`; see `refusal`."""
    try:
        yield
    except OSError as error:
        raise refusal(error, doing, path, elsewhere) from error


def ensure_space(folder: str, size: int) -> None:
    """Raise OSError (ENOSPC) when a file of `size` bytes cannot fit, before anything is written."""
    free = os.statvfs(folder)
    if size > free.f_bavail * free.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)


def quoted(path: str | Path) -> str:
    """The path as a shell takes it; without `shlex`, which cannot be imported when no file can be opened any more."""
    text = str(path)
    plain = text.replace("/", "").translate({ord(character): "" for character in "._-+=@%:,"}).isalnum()
    return text if plain else "'" + text.replace("'", "'\"'\"'") + "'"


def _missing(error: OSError, path: str | Path) -> tuple[str, str] | None:
    """The words where a folder above a path is not there, as when the store was moved or deleted during a run."""
    path = Path(path)
    if error.errno != errno.ENOENT or os.path.lexists(path.parent):
        return None
    above = _existing(path)
    gone = above / path.parts[len(above.parts)]
    return f"there is no {gone} (any more)", "If it was moved, put it back, or say where it is, and run again"


def _owner(error: OSError, path: Path) -> str:
    """Of what another user owns and keeps to himself: who that is, and what he may do about it."""
    if error.errno not in (errno.EACCES, errno.EPERM) or (uid := path.lstat().st_uid) in (os.geteuid(), 0):
        return ""
    given = f"`chmod -R g+w {quoted(path)}`, and by `umask 002` from now on"
    return f". It is user {uid}'s, who lets the group write by {given}"


def _existing(path: str | Path) -> Path:
    """It, or the nearest folder above it that is there, for a command that the user types."""
    path = Path(path)
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return path
