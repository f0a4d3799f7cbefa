"""State that a stage can observe around it, as digests and names; light enough for every process."""

from __future__ import annotations

import errno
import functools
import os
import stat
from pathlib import Path

from blake3 import blake3

FILE, FOLDER = "file", "folder"
BYTES = " bytes"
LINK_TO, A_LINK, NO_LINK = "link to ", "a link: ", "no link: "
LINKS = (LINK_TO, A_LINK, NO_LINK)
FIRST, NOT_FIRST = "first on ", "not first on "  # the variable that says where programs, or libraries, are looked for
PROGRAMS, LIBRARIES = "PATH", "LD_LIBRARY_PATH"
CHUNK = 1 << 20  # bytes that are read at a time
TEXT_LIMIT = 4 << 20  # bytes of a text that people write: a pipeline, a project's settings, requirements, code
RECORD_LIMIT = 64 << 20  # bytes of a document that programs write: a record, a manifest, a baseline
LOG_LIMIT = 256 << 20  # bytes of an event log
NOTHING_THERE = {errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP}
NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # Windows has no named pipes among its files
ABSENT = ""  # the digest of a file that was looked for and not there, and of a variable that was not set


def project_of(folder: Path) -> Path:
    """The top of the project around a folder: the nearest that holds `.git` or `pyproject.toml`, else the folder."""
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists() or (candidate / "pyproject.toml").exists():
            return candidate
    return folder


def listing_digest(folder: str | Path) -> str:
    """Digest of the sorted names in a folder, but for Python's cache; `ABSENT` when it cannot be listed.

    Those of folders are marked, links not followed: one that becomes a file of its name is another.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name for entry in entries)
    except OSError:
        return ABSENT
    text = "\0".join(name for name in names if name != "__pycache__/")
    return blake3(text.encode(errors="surrogateescape")).hexdigest()


def presence(path: str | Path) -> str:
    """What is at a path, links followed: `file`, `folder`, or `ABSENT`."""
    try:
        return seen_at(path)
    except (OSError, ValueError):
        return ABSENT


def seen_at(path: str | Path) -> str:
    """`presence`, for who must not take for absent what cannot be told.

    `Path.exists` and its like do from Python 3.14 on, whatever the error.

    Raises:
        OSError: when it cannot be told.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        if error.errno in NOTHING_THERE:
            return ABSENT
        raise
    return FOLDER if stat.S_ISDIR(mode) else FILE


def is_special(path: str | Path) -> bool:
    """Whether there is something at a path that is neither file nor folder, links followed."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def appearance(path: str | Path, *, size: bool = False, link: bool = False, target: bool = False) -> str:
    """`presence`, with more of it where that was asked for: `no link: file of 12 bytes`, `link to v2: folder`.

    Args:
        path: where.
        size: tell the bytes of a file, links followed.
        link: tell whether it is a link.
        target: tell where a link leads.
    """
    found = presence(path)
    try:
        if size and found == FILE:
            found = f"{FILE} of {os.stat(path).st_size}{BYTES}"
        if target and os.path.islink(path):
            return f"{LINK_TO}{os.readlink(path)}: {found}"
    except OSError:  # it went this moment
        return ABSENT
    return f"{A_LINK if os.path.islink(path) else NO_LINK}{found}" if link or target else found


def appearance_as(told: str, path: str | Path) -> str:
    """`appearance` now, with as much of it as `told` holds; or `place_on_path`, if that is told."""
    if told.startswith((FIRST, NOT_FIRST)):
        return place_on_path(str(path))
    return appearance(path, size=told.endswith(BYTES), link=told.startswith(LINKS), target=told.startswith(LINK_TO))


def place_on_path(file: str) -> str:
    """Whether a program or library is the one that its name leads to: the first in the folders of a variable."""
    path, variable = os.path.abspath(file), _variable(file)
    named = (os.path.join(folder, os.path.basename(path)) for folder in search_folders(path))
    able = os.X_OK if variable == PROGRAMS else os.R_OK
    first = next((one for one in named if os.access(one, able) and not os.path.isdir(one)), None)
    return f"{FIRST if path == first else NOT_FIRST}{variable}"


def search_folders(file: str) -> tuple[str, ...]:
    """The folders in which a program or library of its name is looked for, in their order."""
    variable = _variable(file)
    return _folders(os.environ.get(variable, os.defpath if variable == PROGRAMS else ""))


def _variable(file: str) -> str:
    return LIBRARIES if ".so" in file.rpartition("/")[2] else PROGRAMS


@functools.lru_cache(maxsize=2)
def _folders(said: str) -> tuple[str, ...]:
    return tuple(map(os.path.abspath, said.split(os.pathsep))) if said else ()


def was_absent(told: str) -> bool:
    """Whether an `appearance` is of nothing."""
    return told in (ABSENT, NO_LINK)


def tells_more(told: str) -> bool:
    """Whether an `appearance` holds more than what the content of the file could tell."""
    return told.startswith((*LINKS, FIRST, NOT_FIRST))


def require_regular(path: str | Path) -> os.stat_result:
    """The state of a regular file, or what a link leads to, for who is to open it.

    Raises:
        OSError: when it is not there, a folder, or a pipe, socket or device: to read one could wait or go on for ever.
    """
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return status


def unreachable(path: Path, written: str, noun: str) -> str:
    """Why a path that was written somewhere cannot be read: nothing is there, or what the system says of it.

    Args:
        path: where it leads.
        written: how it was written.
        noun: what was expected there, such as `code file`.
    """
    if not os.path.lexists(path):
        return f"there is no {noun} {written!r}"
    try:
        require_regular(path)
    except OSError as error:
        if path.is_symlink() and error.errno in NOTHING_THERE:
            return f"{written!r} is a link to {str(path.readlink())!r}, which leads nowhere"
        return f"cannot read {written!r}: {error.strerror}"
    return f"cannot read {written!r}"


def read_bounded(path: str | Path, limit: int) -> bytes:
    """Read a file that somebody else may have written; its kind and size are looked at before anything is read.

    Args:
        path: where it is; links are followed.
        limit: bytes that it may have.

    Raises:
        OSError: when it cannot be read, is no regular file, or is larger.
    """
    require_regular(path)
    descriptor = os.open(path, os.O_RDONLY | NO_WAIT)  # a pipe that has just come does not wait
    with open(descriptor, "rb", buffering=0) as file:
        size = os.fstat(descriptor).st_size
        content = file.read(max(size, CHUNK) + 1) if size <= limit else b""
    if max(size, len(content)) > limit:
        raise OSError(errno.EFBIG, f"File too large: more than {limit >> 20} MiB", str(path))
    return content


def digest_file(path: str | Path) -> str:
    """Digest of the content of a file, read now; `ABSENT` when it cannot be read, or is a pipe or the like."""
    try:
        require_regular(path)
        hasher = blake3()
        with open(path, "rb", buffering=0) as file:
            while data := file.read(CHUNK):
                hasher.update(data)
        return hasher.hexdigest()
    except OSError:
        return ABSENT


def value_digest(name: str, value: str | None) -> str:
    """Return the digest of an environment variable's value, its name included; `ABSENT` if it is not set.

    A short value can be guessed from its digest: those of secrets are kept nowhere, and those of variables that code
    looks up are not pushed to a remote store.
    """
    if value is None:
        return ABSENT
    text = f"{name}={value}".encode(errors="surrogateescape")
    return blake3(text, derive_key_context="orun environment variable").hexdigest()


def portable_name(path: Path, root: Path, project: Path) -> str:
    """The name of a file below the project relative to the pipeline's folder, else its absolute path.

    A project may be known by a path with links in it, and its files by another.
    """
    if not path.is_relative_to(project):
        root, project = root.resolve(), project.resolve()
    return Path(os.path.relpath(path, root)).as_posix() if path.is_relative_to(project) else path.as_posix()
