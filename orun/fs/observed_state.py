"""State around a stage that it can observe, as digests and short texts. Imported by every process, so kept light."""

from __future__ import annotations

import functools
import os
import stat
from pathlib import Path

from blake3 import blake3

from orun.fs.bounded_reads import CHUNK, NOTHING_THERE, require_regular

FILE, FOLDER = "file", "folder"
BYTES = " bytes"
LINK_TO, A_LINK, NO_LINK = "link to ", "a link: ", "no link: "
LINKS = (LINK_TO, A_LINK, NO_LINK)
FIRST, NOT_FIRST = "first on ", "not first on "  # followed by the name of a search path variable
PROGRAMS, LIBRARIES = "PATH", "LD_LIBRARY_PATH"
ABSENT = ""  # digest of a missing file, and of a variable that is not set


def find_project(folder: Path) -> Path:
    """Return the project of a folder: the nearest parent with `.git` or `pyproject.toml`, else the folder."""
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists() or (candidate / "pyproject.toml").exists():
            return candidate
    return folder


def digest_listing(folder: str | Path) -> str:
    """Return the digest of the sorted names in a folder, without Python's cache; `ABSENT` if it cannot be listed.

    Names of folders are marked, so that a folder that becomes a file changes the digest. Links are not followed.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name for entry in entries)
    except OSError:
        return ABSENT
    text = "\0".join(name for name in names if name != "__pycache__/")
    return blake3(text.encode(errors="surrogateescape")).hexdigest()


def observe_presence(path: str | Path) -> str:
    """Return `file`, `folder`, or `ABSENT` for a path, links followed."""
    try:
        return stat_presence(path)
    except (OSError, ValueError):
        return ABSENT


def stat_presence(path: str | Path) -> str:
    """Return the same as `observe_presence`, but raise an error that does not mean absence.

    `Path.exists` hides it from Python 3.14 on.

    Raises:
        OSError: if it is not known what is there.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        if error.errno in NOTHING_THERE:
            return ABSENT
        raise
    return FOLDER if stat.S_ISDIR(mode) else FILE


def observe_appearance(path: str | Path, *, size: bool = False, link: bool = False, target: bool = False) -> str:
    """Return `observe_presence` with details that a stage asked for: `no link: file of 12 bytes`, `link to v2: folder`.

    Args:
        path: the path.
        size: with the size of a file, links followed.
        link: with whether it is a link.
        target: with the target of a link.
    """
    state = observe_presence(path)
    try:
        if size and state == FILE:
            state = f"{FILE} of {os.stat(path).st_size}{BYTES}"
        if target and os.path.islink(path):
            return f"{LINK_TO}{os.readlink(path)}: {state}"
    except OSError:  # it was removed this moment
        return ABSENT
    return f"{A_LINK if os.path.islink(path) else NO_LINK}{state}" if link or target else state


def observe_same_details(recorded: str, path: str | Path) -> str:
    """Return the present `observe_appearance`, or `observe_path_order`, with the same details as a recorded one."""
    if recorded.startswith((FIRST, NOT_FIRST)):
        return observe_path_order(str(path))
    return observe_appearance(
        path,
        size=recorded.endswith(BYTES),
        link=recorded.startswith(LINKS),
        target=recorded.startswith(LINK_TO),
    )


def observe_path_order(file: str) -> str:
    """Return whether a program or library is the first of its name on its search path, as a text."""
    path, variable = os.path.abspath(file), _choose_variable(file)
    candidates = (os.path.join(folder, os.path.basename(path)) for folder in search_folders(path))
    access = os.X_OK if variable == PROGRAMS else os.R_OK
    first = next((path for path in candidates if os.access(path, access) and not os.path.isdir(path)), None)
    return f"{FIRST if path == first else NOT_FIRST}{variable}"


def search_folders(file: str) -> tuple[str, ...]:
    """Return the folders of the search path of a program or library, in order."""
    variable = _choose_variable(file)
    return _split(os.environ.get(variable, os.defpath if variable == PROGRAMS else ""))


def _choose_variable(file: str) -> str:
    return LIBRARIES if ".so" in file.rpartition("/")[2] else PROGRAMS


@functools.lru_cache(maxsize=2)
def _split(search_path: str) -> tuple[str, ...]:
    return tuple(map(os.path.abspath, search_path.split(os.pathsep))) if search_path else ()


def was_absent(state: str) -> bool:
    """Return whether a text of `observe_appearance` means that nothing was there."""
    return state in (ABSENT, NO_LINK)


def tells_more(state: str) -> bool:
    """Return whether a text of `observe_appearance` holds more than the content of the file shows."""
    return state.startswith((*LINKS, FIRST, NOT_FIRST))


def digest_file(path: str | Path) -> str:
    """Read a file and return its digest; `ABSENT` if it cannot be read or is not a regular file."""
    try:
        require_regular(path)
        hasher = blake3()
        with open(path, "rb", buffering=0) as file:
            while data := file.read(CHUNK):
                hasher.update(data)
        return hasher.hexdigest()
    except OSError:
        return ABSENT


def digest_value(name: str, value: str | None) -> str:
    """Return the digest of an environment variable's name and value; `ABSENT` if it is not set.

    A short value can be guessed from its digest. So digests of secrets are never stored, and those of variables that
    code looks up are never pushed to a remote.
    """
    if value is None:
        return ABSENT
    text = f"{name}={value}".encode(errors="surrogateescape")
    return blake3(text, derive_key_context="orun environment variable").hexdigest()


def to_portable_name(path: Path, root: Path, project: Path) -> str:
    """Return the path of a file relative to the pipeline's folder if it is in the project, else its absolute path."""
    if not path.is_relative_to(project):  # the project may be known by a path with links in it
        root, project = root.resolve(), project.resolve()
    return Path(os.path.relpath(path, root)).as_posix() if path.is_relative_to(project) else path.as_posix()
