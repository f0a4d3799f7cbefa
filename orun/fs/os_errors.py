"""Errors of the operating system as messages with a reason and a next command."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orun.errors import MORE_MEMORY, StoreError

_KEPT = "Nothing that was stored is lost."

# errno -> (problem, hint); {place} is the store, {path} the nearest existing path
_MESSAGES = {
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
# What a machine has run out of: disk space, memory, descriptors.
SHORTAGES = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def to_store_error(error: OSError, action: str, path: str | Path, read_only_hint: str = "") -> StoreError:
    """Return the `StoreError` for an OSError.

    `action` follows "cannot". `path` is where, if the error does not say; the last hint is for a path outside of the
    store.
    """
    reason = error.strerror or str(error)
    failed = error.filename if isinstance(error.filename, str) else path
    text, hint = _explain_missing(error, failed) or _MESSAGES.get(
        error.errno or 0, (reason[:1].lower() + reason[1:], _OTHER)
    )
    if read_only_hint and error.errno == errno.EROFS:
        return StoreError(f"cannot {action}: {text}", why=f"{failed}: {reason}", hint=read_only_hint)
    nearest = _find_existing(failed)
    hint = hint.format(place=quote(_find_existing(path)), path=quote(nearest)) + _name_owner(error, nearest)
    return StoreError(f"cannot {action}: {text}", why=f"{failed}: {reason}", hint=hint)


def explain_shortage(number: int, places: str) -> tuple[str, str]:
    """Return the problem and the hint for one of `SHORTAGES`; `places` are the arguments of a command that looks."""
    text, hint = _MESSAGES[number]
    return text, hint.format(place=places)


def is_os_error(error: StoreError) -> bool:
    """Return whether the system refused access to a file that exists, so that its content is not known."""
    cause = error.__cause__
    return isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError | IsADirectoryError)


@contextmanager
def convert_os_errors(action: str, path: str | Path, read_only_hint: str = "") -> Iterator[None]:
    """Turn every OSError of the block into a `StoreError`; arguments as for `to_store_error`."""
    try:
        yield
    except OSError as error:
        raise to_store_error(error, action, path, read_only_hint) from error


def ensure_space(folder: str, size: int) -> None:
    """Raise OSError (ENOSPC) if so many bytes do not fit, before anything is written."""
    free = os.statvfs(folder)
    if size > free.f_bavail * free.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)


def quote(path: str | Path) -> str:
    """Return a path quoted for a shell. Not by `shlex`: no module can be imported when too many files are open."""
    text = str(path)
    plain = text.replace("/", "").translate({ord(character): "" for character in "._-+=@%:,"}).isalnum()
    return text if plain else "'" + text.replace("'", "'\"'\"'") + "'"


def _explain_missing(error: OSError, path: str | Path) -> tuple[str, str] | None:
    """Return problem and hint if a parent folder is missing, as after the store was moved during a run."""
    path = Path(path)
    if error.errno != errno.ENOENT or os.path.lexists(path.parent):
        return None
    nearest = _find_existing(path)
    gone = nearest / path.parts[len(nearest.parts)]
    return f"there is no {gone} (any more)", "If it was moved, put it back, or say where it is, and run again"


def _name_owner(error: OSError, path: Path) -> str:
    """Return the end of a hint that names the owner of a path, if that is another user."""
    if error.errno not in (errno.EACCES, errno.EPERM):
        return ""
    uid = path.lstat().st_uid
    if uid == 0 or uid == os.geteuid():  # 0 is the administrator, and everybody on Windows, which has no `geteuid`
        return ""
    commands = f"`chmod -R g+w {quote(path)}`, and by `umask 002` from now on"
    return f". It is user {uid}'s, who lets the group write by {commands}"


def _find_existing(path: str | Path) -> Path:
    """Return a path, or its nearest parent that exists."""
    path = Path(path)
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return path
