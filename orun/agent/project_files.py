"""Files of a project that travel to other machines: what git tracks, what it does not ignore, and `ship:` paths."""

# ruff: noqa: PTH112, PTH113, PTH114  (strings: every file of the project passes here)

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from orun.core.serialization import Record
from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.remote.validation import is_plain

PUT_INTO_PROJECT = "put the file or folder itself into the project, under a plain name"  # a hint
BYTECODE = "__pycache__"
GIT_SECONDS = 120  # for a list of files: on a disk of the network it may take a while


class ProjectFiles(Record, frozen=True):
    """Files of a project that travel, and those that stay."""

    paths: dict[str, str]  # path of the content of each file that travels, by its posix path in the project
    left_out: tuple[str, ...]  # posix paths of what stays; folders end in a slash
    odd: dict[str, str]  # why those of `left_out` stay that git does not ignore, by their paths


def list_project_files(project: Path, ship: Iterable[str] = (), excluded: Path | None = None) -> ProjectFiles:
    """Return the files of a project that travel to other machines.

    Args:
        project: the top folder of the user's code.
        ship: paths from there of files and folders that git ignores, and that travel nevertheless.
        excluded: a folder that does not travel, and is not named as left out: the store.

    Raises:
        UsageError: if git does not know the project, or nothing is at a path of `ship`.
    """
    ship = list(ship)
    names = dict.fromkeys(_list_by_git(project, "-co"))
    for path in ship:
        names |= dict.fromkeys(_walk_shipped(project, path))
    store = f"{os.path.relpath(excluded, project)}/" if excluded else "../"
    paths, odd = _resolve_contents(project, [name for name in names if not name.startswith(store)])
    shipped = [Path(os.path.normpath(path)).as_posix() for path in ship]
    ignored = (name for name in _list_by_git(project, "-oi", "--directory") if BYTECODE not in name.split("/"))
    stays = (name for name in ignored if not f"{name}/".startswith(store))
    left_out = {name for entry in stays for name in _iter_staying(entry, shipped, project) if name not in paths}
    return ProjectFiles(paths, tuple(sorted(left_out | odd.keys())), odd)


def _iter_staying(entry: str, shipped: Sequence[str], project: Path) -> Iterator[str]:
    """Yield what stays of something that git ignores: all of it, or the rest of a folder of which some is shipped."""
    if entry.rstrip("/") in shipped:
        return
    if not (entry.endswith("/") and any(path.startswith(entry) for path in shipped)):
        yield entry
        return
    for child in sorted((project / entry).iterdir()):
        yield from _iter_staying(f"{entry}{child.name}{'/' if child.is_dir() else ''}", shipped, project)


def _list_by_git(folder: Path, *options: str) -> Iterator[str]:
    """Yield the files that `git ls-files` lists, those of repositories inside too."""
    for name in _list_git_files(folder, *options):
        if "-co" in options and os.path.isdir(folder / name) and not os.path.islink(folder / name):
            inner = name.rstrip("/")
            yield from (f"{inner}/{path}" for path in _list_by_git(folder / inner, *options))
        else:
            yield name


def _list_git_files(folder: Path, *options: str) -> list[str]:
    command = ["git", "-C", str(folder), "ls-files", "-z", "--exclude-standard", *options]
    hint = f"git init {quote(folder)}; git -C {quote(folder)} add -A"
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=GIT_SECONDS)
    except OSError as error:
        raise UsageError(
            "git is needed to send a project to other machines", why=str(error), hint="install git, or run without --on"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"git did not list the files of {folder} in {GIT_SECONDS} s") from error
    if done.returncode:
        raise UsageError(
            f"git does not know the project {folder}, so that orun cannot tell which files other machines need",
            why=done.stderr.decode(errors="replace").strip(),
            hint=hint,
        )
    return [name for name in os.fsdecode(done.stdout).split("\0") if name]


def _walk_shipped(project: Path, path: str) -> Iterator[str]:
    """Yield the files of a shipped file or folder."""
    top = project / path
    if not os.path.lexists(top):
        raise UsageError(f"there is nothing at {path!r}, which `ship:` names", hint=f"ls {quote(project)}")
    if not top.is_dir():
        yield Path(os.path.normpath(path)).as_posix()
        return
    for folder, folders, files in os.walk(top):
        links = [name for name in folders if os.path.islink(f"{folder}/{name}")]
        yield from ((Path(folder) / name).relative_to(project).as_posix() for name in (*files, *links))


def _resolve_contents(project: Path, names: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the path of each file's content, and why other names cannot travel.

    A link to a file or folder of the project becomes a copy of it. Files that git tracks and that were removed are
    left out.
    """
    top = os.path.realpath(project)
    paths: dict[str, str] = {}
    odd: dict[str, str] = {}
    for name in names:
        path = f"{project}/{name}"
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if BYTECODE in name.split("/"):
            continue
        if not is_plain(name):
            odd[name] = "its name has control characters, or is not Unicode"
        elif stat.S_ISREG(status.st_mode):
            paths[name] = path
        elif stat.S_ISLNK(status.st_mode):
            copies = _expand_link(name, os.path.realpath(path), top, names)
            paths |= copies
            if not copies:
                odd[name] = "it is a link that leads out of the project, or to nothing that travels"
        else:
            odd[name] = "it is neither a file nor a folder"
    return paths, odd


def _expand_link(name: str, target: str, top: str, names: Sequence[str]) -> dict[str, str]:
    """Return the contents of a link by their names; nothing if it leads out of the project, or nowhere."""
    if not target.startswith(f"{top}/"):
        return {}
    if os.path.isfile(target):
        return {name: target}
    inner = f"{target[len(top) + 1 :]}/"
    files = (path for path in names if path.startswith(inner) and os.path.isfile(f"{top}/{path}"))
    return {f"{name}/{path[len(inner) :]}": f"{top}/{path}" for path in files}


def is_in(name: str, folder: str) -> bool:
    """Return whether a path is that of a folder, or of something in it; all is in the folder `.`."""
    return folder == "." or f"{name}/".startswith(f"{folder}/")
