"""Snapshot of the user's project for other machines: the files that travel, as a tree like any artifact.

The tree holds one more file, `.git/orun-left-out`: the names of what stayed behind, so that a machine can tell a file
that is missing there from one that does not exist. The folder `.git` marks the top of the project, as it does where the
project was taken.
"""

# ruff: noqa: PTH116  (strings: every file of the project passes here)

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from orun.agent.project_files import PUT_INTO_PROJECT, ProjectFiles, is_in, list_project_files
from orun.core.machines import Snapshot
from orun.core.serialization import Record
from orun.environment.secret_variables import Secrets
from orun.errors import UsageError
from orun.executors import Mask
from orun.fs.os_errors import convert_os_errors, quote
from orun.pipeline.model import Pipeline
from orun.remote.connection import FAILURES, Connection
from orun.remote.known_results import KnownObjects
from orun.remote.names import name_object
from orun.remote.settings import Settings
from orun.remote.transfers import Piece, Transfers
from orun.remote.validation import is_plain
from orun.store import Entry, Store
from orun.store.trees import encode
from orun.text.lists import join_few

LEFT_OUT = ".git/orun-left-out"  # a path a line, folders with a slash; then a tab and the reason if it is not ignored
MOST_NAMED = 5  # files in an error
POLL_SECONDS = 1.0  # between two looks at a push, for signals


class SnapshotTree(Record, frozen=True):
    """Tree of a snapshot, whose files are still those of the project."""

    snapshot: Snapshot
    pieces: tuple[Piece, ...]  # its objects, to be pushed


def take_snapshot(pipeline: Pipeline, store: Store) -> SnapshotTree:
    """Return the snapshot of a pipeline's project in its present state. The store takes the list of its files.

    Raises:
        UsageError: if git does not know the project, or the pipeline needs a file that does not travel.
    """
    project = pipeline.project
    ship = [Path(os.path.relpath(pipeline.root / path, project)).as_posix() for path in pipeline.ship]
    files = list_project_files(project, ship, store.root if store.root.is_relative_to(project) else None)
    _require_shipped(pipeline, files)
    objects = store.parts.objects
    with convert_os_errors("take a snapshot of the project", project):
        left_out = objects.from_bytes("".join(f"{_format_left_out(name, files)}\n" for name in files.left_out).encode())
        pieces = {left_out.digest: Piece(left_out.digest, left_out.size, objects.locate(left_out.digest))}
        entries = [Entry(LEFT_OUT, left_out.size, left_out.digest)]
        for name, path in files.paths.items():
            status = os.stat(path)
            digest = store.files.digest_file(path)
            entries.append(Entry(name, status.st_size, digest, bool(status.st_mode & stat.S_IXUSR)))
            pieces[digest] = Piece(digest, status.st_size, path)
        tree = objects.from_bytes(encode(tuple(sorted(entries, key=lambda entry: entry.path))))
        objects.commit([left_out, tree])
        pieces[tree.digest] = Piece(tree.digest, tree.size, objects.locate(tree.digest))
    store.flush()
    file = pipeline.file.relative_to(project).as_posix()
    return SnapshotTree(Snapshot(tree.digest, file, pipeline.overrides), tuple(pieces.values()))


def _format_left_out(name: str, files: ProjectFiles) -> str:
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
            hint=f"move it into the project, or make one project of both: git init {quote(project.parent)}",
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
            f"the pipeline needs {join_few(names, MOST_NAMED)}, which other machines would not get",
            why="git ignores it, and it is not listed in `ship:`",
            hint=f"list it in the pipeline file: ship: [{', '.join(names[:MOST_NAMED])}]",
        )


def _travels_in_part(folder: str, files: ProjectFiles) -> bool:
    """Return whether some of a folder travels, and nothing of it stays."""
    inner = "" if folder == "." else f"{folder}/"
    stays = any(name.startswith(inner) for name in files.left_out)
    return not stays and any(name.startswith(inner) for name in files.paths)


def share(tree: SnapshotTree, store: Store, settings: Settings, *, repair: bool = False) -> None:
    """Push a snapshot to the remote; what is known to be there is sent again only if another machine lacked it.

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
                why=Mask.of(Secrets()).hide_in_text(str(error)),
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
    emptied = old and transfers.bucket.read_size(name_object(old[0].digest)) != old[0].size
    transfers.upload([*new, *old] if emptied else new)
