"""Refusal of files of the user's choice that would replace what a run reads, or what only orun writes."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from orun.environment.python_path import PACKAGE
from orun.errors import StoreError, UsageError
from orun.fs.observed_state import find_project, stat_presence
from orun.noop.check import NoopRecord, Request
from orun.remote.options import Remote, locate_config
from orun.store.layout import VERSION_FILE, list_private_paths, locate_default_store
from orun.text.suggestions import show_path

if TYPE_CHECKING:
    from orun.core.run_record import RunResult
    from orun.pipeline.model import Pipeline
    from orun.planning.plan import Plan
    from orun.planning.planner import Planner

ANOTHER = "name another file"


def refuse(reports: Collection[Path], read: Iterable[Path]) -> None:
    """Refuse reports that would replace a file, or land in a folder, that is read.

    Raises:
        UsageError: for the first of them.
    """
    conflict = _find(reports, read)
    if conflict is None:
        return
    report, path = conflict
    name = show_path(str(path))
    is_below = Path(os.path.realpath(path)) in Path(os.path.realpath(report)).parents
    target = "it" if name == show_path(str(report)) else f"the folder {name}" if is_below else f"this file, as {name}"
    raise UsageError(f"{report} cannot be written", why=f"a run reads {target}", hint=ANOTHER)


def refuse_in_store(reports: Collection[Path], root: Path) -> None:
    """Refuse reports that would replace what only orun writes: a store, and the history of measurements.

    Raises:
        UsageError: for the first of them.
    """
    if conflict := _find(reports, _walk_kept(root)):
        why = f"only orun writes to {show_path(str(conflict[1]))}"
        raise UsageError(f"{conflict[0]} cannot be written", why=why, hint=ANOTHER)


def refuse_before_planning(reports: Collection[Path], pipeline: Pipeline, remote: Remote, root: Path) -> None:
    """Refuse reports of a run that would replace what its file names, a remote or a store; stages may read more.

    Raises:
        UsageError: for the first of them.
    """
    refuse(reports, list_pipeline_files(pipeline))
    refuse(reports, list_remote_folders(remote, pipeline.project))
    refuse_in_store(reports, root)


def refuse_here(files: Collection[Path]) -> None:
    """Refuse files that any verb in the working folder must leave alone: those of every run, and of its store.

    Raises:
        UsageError: for the first of them.
    """
    refuse_in_store(files, locate_default_store(Path.cwd()))
    refuse(files, list_common_files(Path.cwd()))


def refuse_in_records(files: Collection[Path], root: Path) -> None:
    """Refuse files that belong to a store, or that a run recorded in it has read.

    Raises:
        UsageError: for the first of them.
    """
    refuse_in_store(files, root)
    if present := [file for file in files if file.is_file()]:
        refuse(present, _list_recorded_files(root))


def may_concern(reports: Collection[Path], record: NoopRecord, request: Request) -> bool:
    """Return whether reports may replace an input of a recorded result; the planner knows for sure."""
    noted, folder = record.data["read"], request.file.parent
    read = chain(noted["files"], record.data["contents"], noted["folders"])
    remote = list_remote_folders(request.remote or Remote(), find_project(folder))
    return _find(reports, chain(read, list_common_files(folder), remote, _walk_kept(request.store))) is not None


def list_pipeline_files(pipeline: Pipeline) -> Iterator[Path]:
    """Yield every file and folder that a pipeline names."""
    from orun.gates.baseline_file import locate_baseline

    yield from map(Path, pipeline.sources)
    yield from (pipeline.root / reference.path for stage in pipeline.stages for reference in stage.references)
    yield locate_baseline(pipeline.file)
    yield from list_common_files(pipeline.root)


def list_common_files(folder: Path) -> Iterator[Path]:
    """Yield what any run in a folder reads: settings of the project, keys, remote, git's files, Python, packages."""
    from orun.remote.settings import list_key_files

    project = find_project(folder)
    yield locate_config(project)
    yield from list_key_files(project)
    yield from list_remote_folders(Remote(), project)
    yield from (top / ".git" for top in (folder, *folder.parents))
    yield from (PACKAGE, Path(os.__file__).parent)
    yield from (Path(sys.prefix) / name for name in ("pyvenv.cfg", "bin"))
    yield from (Path(place) for place in sys.path if place.endswith(("site-packages", "dist-packages")))


def list_remote_folders(remote: Remote, project: Path) -> Iterator[Path]:
    """Yield the folder of the remote that a run of a project uses, if it is one."""
    from orun.remote.settings import read_remote_url

    scheme, _, path = read_remote_url(remote, project).partition("://")
    if scheme == "file" and path.startswith("/"):
        yield Path(unquote(path))


def list_stage_files(planner: Planner, plan: Plan) -> Iterator[Path]:
    """Yield every file that stages read when they ran last."""
    for step in plan.steps:
        if action := step.cached_action or planner.store.find_latest(planner.pipeline.name, step.stage.id):
            yield from (planner.pipeline.root / name for name in action.implicit_deps.files)


def list_run_files(result: RunResult) -> Iterator[Path]:
    """Yield every file that a run has read, by its record."""
    from orun.core.component_kinds import ComponentKind
    from orun.core.key_component import index_by_subject
    from orun.gates.baseline_file import locate_baseline
    from orun.history.source_snapshot import read_index

    root = Path(result.file).parent
    yield from (Path(result.file), locate_baseline(Path(result.file)))
    names = {path for stage in result.stages for path in index_by_subject(stage.inputs, ComponentKind.READ)}
    yield from (root / name for name in {*result.sources, *names, *(read_index(result) or ())})


def _list_recorded_files(root: Path) -> Iterator[Path]:
    from orun.eventlog import read_result
    from orun.store import Store

    if not stat_presence(root / VERSION_FILE):
        return
    with Store.open(root, read_only=True) as store:
        for folder in store.iter_ended_runs():
            with suppress(StoreError):  # another version of orun wrote the record
                yield from list_run_files(read_result(folder))


def _walk_kept(root: Path) -> Iterator[Path]:
    yield from (root / "out", root / ".gitignore")
    yield from map(Path, list_private_paths(root))


def _find(reports: Collection[Path], paths: Iterable[str | Path]) -> tuple[Path, Path] | None:
    """Return the first report that is one of these files, by whatever name, or in one of these folders; and which.

    A missing path counts for both: a run would read what is written there.
    """
    files: dict[tuple[int, int], Path] = {}
    for report in reports:
        status = _read_status(report)
        if status and stat.S_ISREG(status.st_mode):
            files[status.st_dev, status.st_ino] = report
    places = {report: Path(os.path.realpath(report)) for report in reports}
    for path in paths:
        status = _read_status(path)
        if status is None or stat.S_ISDIR(status.st_mode):
            folder = os.path.realpath(path)
            replaced = next((report for report, place in places.items() if place.is_relative_to(folder)), None)
        else:
            replaced = files.get((status.st_dev, status.st_ino))
        if replaced is not None:
            return replaced, Path(path)
    return None


def _read_status(path: str | Path) -> os.stat_result | None:
    """Return the state of what is at a path, links followed; None where nothing can be seen."""
    try:
        return os.stat(path)  # noqa: PTH116 - hundreds of them
    except OSError:
        return None
