"""Snapshot of the user's project for other machines: what git tracks, what it does not ignore, and `ship:` paths.

A snapshot is a tree like any artifact. It holds one more file, `.git/orun-left-out`: the names of what stayed behind,
so that a machine can tell a file that is missing there from one that does not exist. The folder `.git` marks the top
of the project, as it does where the project was taken.
"""

# ruff: noqa: PTH112, PTH113, PTH114, PTH116  (strings: every file of the project passes here)

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from orun.core.machines import Snapshot
from orun.core.serialization import Record
from orun.environment.secret_variables import Secrets
from orun.errors import UsageError
from orun.executors import Mask
from orun.fs.os_errors import convert_os_errors, quoted
from orun.pipeline.model import Pipeline
from orun.remote.connection import FAILURES, Connection
from orun.remote.known_results import KnownObjects
from orun.remote.names import object_name
from orun.remote.settings import Settings
from orun.remote.transfers import Piece, Transfers
from orun.remote.validation import is_plain
from orun.store import Entry, Store
from orun.store.trees import encode
from orun.text.lists import first_few

LEFT_OUT = ".git/orun-left-out"  # a path a line, folders with a slash; then a tab and the reason if it is not ignored
PUT_INTO_PROJECT = "put the file or folder itself into the project, under a plain name"  # a hint
BYTECODE = "__pycache__"
GIT_SECONDS = 120  # for a list of files: on a disk of the network it may take a while
MOST_NAMED = 5  # files in an error
POLL_SECONDS = 1.0  # between two looks at a push, for signals


class ProjectFiles(Record, frozen=True):
    """Files of a project that travel, and those that stay.

    Attributes:
        paths: path of the content of each file that travels, by its posix path in the project.
        left_out: posix paths of what stays; folders end in a slash.
        odd: why those of `left_out` stay that git does not ignore, by their paths.
    """

    paths: dict[str, str]
    left_out: tuple[str, ...]
    odd: dict[str, str]


def project_files(project: Path, ship: Iterable[str] = (), excluded: Path | None = None) -> ProjectFiles:
    """Return the files of a project that travel to other machines.

    Args:
        project: the top folder of the user's code.
        ship: paths from there of files and folders that git ignores, and that travel nevertheless.
        excluded: a folder that does not travel, and is not named as left out: the store.

    Raises:
        UsageError: if git does not know the project, or nothing is at a path of `ship`.
    """
    ship = list(ship)
    names = dict.fromkeys(_listed(project, "-co"))
    for path in ship:
        names |= dict.fromkeys(_below(project, path))
    store = f"{os.path.relpath(excluded, project)}/" if excluded else "../"
    paths, odd = _contents(project, [name for name in names if not name.startswith(store)])
    shipped = [Path(os.path.normpath(path)).as_posix() for path in ship]
    ignored = (name for name in _listed(project, "-oi", "--directory") if BYTECODE not in name.split("/"))
    stays = (name for name in ignored if not f"{name}/".startswith(store))
    left_out = {name for entry in stays for name in _staying(entry, shipped, project) if name not in paths}
    return ProjectFiles(paths, tuple(sorted(left_out | odd.keys())), odd)


def _staying(entry: str, shipped: Sequence[str], project: Path) -> Iterator[str]:
    """Yield what stays of something that git ignores: all of it, or the rest of a folder of which some is shipped."""
    if entry.rstrip("/") in shipped:
        return
    if not (entry.endswith("/") and any(path.startswith(entry) for path in shipped)):
        yield entry
        return
    for child in sorted((project / entry).iterdir()):
        yield from _staying(f"{entry}{child.name}{'/' if child.is_dir() else ''}", shipped, project)


def _listed(folder: Path, *options: str) -> Iterator[str]:
    """Yield the files that `git ls-files` lists, those of repositories inside too."""
    for name in _git_files(folder, *options):
        if "-co" in options and os.path.isdir(folder / name) and not os.path.islink(folder / name):
            inner = name.rstrip("/")
            yield from (f"{inner}/{path}" for path in _listed(folder / inner, *options))
        else:
            yield name


def _git_files(folder: Path, *options: str) -> list[str]:
    command = ["git", "-C", str(folder), "ls-files", "-z", "--exclude-standard", *options]
    hint = f"git init {quoted(folder)}; git -C {quoted(folder)} add -A"
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


def _below(project: Path, path: str) -> Iterator[str]:
    """Yield the files of a shipped file or folder."""
    top = project / path
    if not os.path.lexists(top):
        raise UsageError(f"there is nothing at {path!r}, which `ship:` names", hint=f"ls {quoted(project)}")
    if not top.is_dir():
        yield Path(os.path.normpath(path)).as_posix()
        return
    for folder, folders, files in os.walk(top):
        links = [name for name in folders if os.path.islink(f"{folder}/{name}")]
        yield from ((Path(folder) / name).relative_to(project).as_posix() for name in (*files, *links))


def _contents(project: Path, names: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
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
            copies = _copies(name, os.path.realpath(path), top, names)
            paths |= copies
            if not copies:
                odd[name] = "it is a link that leads out of the project, or to nothing that travels"
        else:
            odd[name] = "it is neither a file nor a folder"
    return paths, odd


def _copies(name: str, target: str, top: str, names: Sequence[str]) -> dict[str, str]:
    """Return the contents of a link by their names; nothing if it leads out of the project, or nowhere."""
    if not target.startswith(f"{top}/"):
        return {}
    if os.path.isfile(target):
        return {name: target}
    inner = f"{target[len(top) + 1 :]}/"
    files = (path for path in names if path.startswith(inner) and os.path.isfile(f"{top}/{path}"))
    return {f"{name}/{path[len(inner) :]}": f"{top}/{path}" for path in files}


class SnapshotTree(Record, frozen=True):
    """Tree of a snapshot, whose files are still those of the project.

    Attributes:
        snapshot: what machines are told of it.
        pieces: its objects, to be pushed.
    """

    snapshot: Snapshot
    pieces: tuple[Piece, ...]


def take_snapshot(pipeline: Pipeline, store: Store) -> SnapshotTree:
    """Return the snapshot of a pipeline's project in its present state.

    Args:
        pipeline: the pipeline.
        store: knows the digests of files that it has seen before, and takes the list of files.

    Raises:
        UsageError: if git does not know the project, or the pipeline needs a file that does not travel.
    """
    project = pipeline.project
    ship = [Path(os.path.relpath(pipeline.root / path, project)).as_posix() for path in pipeline.ship]
    files = project_files(project, ship, store.root if store.root.is_relative_to(project) else None)
    _require_shipped(pipeline, files)
    objects = store.parts.objects
    with convert_os_errors("take a snapshot of the project", project):
        left_out = objects.from_bytes("".join(f"{_left_out_line(name, files)}\n" for name in files.left_out).encode())
        pieces = {left_out.digest: Piece(left_out.digest, left_out.size, objects.path(left_out.digest))}
        entries = [Entry(LEFT_OUT, left_out.size, left_out.digest)]
        for name, path in files.paths.items():
            status = os.stat(path)
            digest = store.files.digest_file(path)
            entries.append(Entry(name, status.st_size, digest, bool(status.st_mode & stat.S_IXUSR)))
            pieces[digest] = Piece(digest, status.st_size, path)
        tree = objects.from_bytes(encode(tuple(sorted(entries, key=lambda entry: entry.path))))
        objects.commit([left_out, tree])
        pieces[tree.digest] = Piece(tree.digest, tree.size, objects.path(tree.digest))
    store.flush()
    file = pipeline.file.relative_to(project).as_posix()
    return SnapshotTree(Snapshot(tree.digest, file, pipeline.overrides), tuple(pieces.values()))


def _left_out_line(name: str, files: ProjectFiles) -> str:
    """Return the line of `LEFT_OUT` for a name."""
    printable = "".join(character if is_plain(character) else "?" for character in name)
    return f"{printable}\t{files.odd[name]}" if name in files.odd else printable


def _require_shipped(pipeline: Pipeline, files: ProjectFiles) -> None:
    """Raise UsageError if the pipeline reads a file of the project that does not travel, or a source outside of it.

    A path outside of the project that a parameter names may be there on another machine, with the same content.
    """
    project = pipeline.project
    outside = sorted(path for path in pipeline.sources if not Path(path).is_relative_to(project))
    if outside:
        raise UsageError(
            f"the pipeline is partly outside of its project {project}, so that other machines do not get it",
            why="\n".join(outside[:MOST_NAMED]),
            hint=f"move it into the project, or make the folder around both one: git init {quoted(project.parent)}",
        )
    named = [pipeline.root / item.path for stage in pipeline.stages for item in stage.references]
    missing: dict[str, None] = {}
    for path in map(Path, (*pipeline.sources, *map(os.path.normpath, named))):
        if path.is_relative_to(project):
            name = path.relative_to(project).as_posix()
            if name in files.paths or _travels_in_part(name, files):
                continue
            if odd := [entry for entry in files.odd if is_in(entry, name) or is_in(name, entry)]:
                raise UsageError(
                    f"the pipeline needs {os.path.relpath(project / odd[0], pipeline.root)}, "
                    "which other machines cannot get",
                    why=files.odd[odd[0]],
                    hint=PUT_INTO_PROJECT,
                )
            missing[name] = None
    if missing:
        names = sorted(os.path.relpath(project / name, pipeline.root) for name in missing)
        raise UsageError(
            f"the pipeline needs {first_few(names, MOST_NAMED)}, which other machines would not get",
            why="git ignores it, and it is not listed in `ship:`",
            hint=f"list it in the pipeline file: ship: [{', '.join(names[:MOST_NAMED])}]",
        )


def _travels_in_part(folder: str, files: ProjectFiles) -> bool:
    """Return whether some of a folder travels, and nothing of it stays."""
    inner = "" if folder == "." else f"{folder}/"
    stays = any(name.startswith(inner) for name in files.left_out)
    return not stays and any(name.startswith(inner) for name in files.paths)


def is_in(name: str, folder: str) -> bool:
    """Return whether a path is that of a folder, or of something in it; all is in the folder `.`."""
    return folder == "." or f"{name}/".startswith(f"{folder}/")


def share(tree: SnapshotTree, store: Store, settings: Settings, *, repair: bool = False) -> None:
    """Push a snapshot to the remote; what is known to be there is not sent again.

    Args:
        tree: the snapshot.
        store: notes what is in the remote.
        settings: address of the remote.
        repair: write also what seems to be there: some of it did not arrive elsewhere.

    Raises:
        UsageError: if the remote does not take it.
    """
    known = KnownObjects(store.root, settings.url)
    new = [piece for piece in tree.pieces if piece.digest not in known]
    old = [piece for piece in tree.pieces if piece.digest in known]
    connection = Connection(settings, lambda _: None)
    try:
        pushed = connection.submit(lambda transfers: _push(transfers, new, old, repair=repair))
        while not pushed.done():
            connection.wait(POLL_SECONDS)
        if isinstance(error := pushed.exception(), FAILURES):
            raise UsageError(
                f"the project cannot be sent to other machines: the remote {settings.url} does not take it",
                why=Mask.of(Secrets()).text(str(error)),
                hint="see that it can be written, and that nobody edits the project meanwhile, and run again",
            ) from error
        pushed.result()
    finally:
        connection.close()
    known.add(piece.digest for piece in new)


def _push(transfers: Transfers, new: Sequence[Piece], old: Sequence[Piece], *, repair: bool) -> None:
    """Push pieces, the old ones too if the first of them is not there: somebody has emptied the remote."""
    if repair:
        transfers.upload([*new, *old], repair=True)
        return
    emptied = old and transfers.bucket.size(object_name(old[0].digest)) != old[0].size
    transfers.upload([*new, *old] if emptied else new)
