"""Output checkouts of a run: artifacts placed in `out/` as stages finish, and still there when the run ends.

The output of a stage that the file no longer has is removed: a release picked up there would be an old one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from orun.core.run_record import INVESTIGATIONS
from orun.core.source_location import Problem
from orun.errors import PipelineError, StoreError
from orun.fs.observed_state import find_project, stat_presence
from orun.pipeline.model import Pipeline
from orun.store import Action, Store
from orun.store.layout import to_safe_name
from orun.text.suggestions import show_path

MOST_RUNS = 100  # runs back in which the file of a removed stage is looked up
FolderState = tuple[int, int]  # inode and mtime in nanoseconds; zeros if the folder does not exist


@dataclass
class OutputCheckouts:
    """Folders `out/<pipeline>/<stage>/` of a run."""

    store: Store
    pipeline: str  # its name
    _placed: dict[str, tuple[Action, str, FolderState]] = field(default_factory=dict)

    def put(self, stage: str, action: Action) -> tuple[Path, bool]:
        """Make the output folder of a stage hold its artifact; return the folder, and whether it had to change."""
        out, restored = self.store.check_out(action.tree, self.pipeline, stage)
        self._placed[stage] = action, str(out), _read_folder_state(str(out))
        return out, restored

    def restore_replaced(self) -> Iterator[str]:
        """Restore the outputs that another run has replaced meanwhile; yield a notice for each."""
        for stage, (action, out, state) in list(self._placed.items()):
            if _read_folder_state(out) != state and self.put(stage, action)[1]:
                yield (
                    f"{stage}: another run replaced {out}; this run's output was restored. Pipelines with the same "
                    "name in one store replace each other's outputs: give one of them another name, or --store"
                )


def withdraw_removed_stages(store: Store, pipeline: Pipeline) -> Iterator[str]:
    """Remove the outputs of stages that the file no longer has; yield a notice for each. Edited files stay.

    Pipelines with the same name may share a store: an output that another file's run placed last stays.
    """
    if pipeline.name.endswith(INVESTIGATIONS):
        return
    fold_case = _choose_case_folding(store)
    own = {fold_case(to_safe_name(stage.id)) for stage in pipeline.stages}
    folders = {folder for folder in store.list_checkouts(pipeline.name) if fold_case(folder) not in own}
    for stage in _iter_earlier_stages(store, pipeline, folders) if folders else ():
        if store.withdraw(pipeline.name, stage):
            yield f"{stage}: its output was removed from out/: {pipeline.file.name} no longer has this stage"


def describe_name_conflict(store: Store, pipeline: Pipeline) -> str:
    """Return a warning if another file of the repository ran last under the pipeline's name; otherwise "".

    Checkouts of one project that share a store have the same names on purpose.
    """
    from orun.eventlog import read_result  # a run with nothing to do does not need it

    fold_case = _choose_case_folding(store)
    end = fold_case(f"-{to_safe_name(pipeline.name)}")
    for folder in store.iter_ended_runs(lambda name: fold_case(name).endswith(end)):
        with suppress(StoreError):
            last = read_result(folder)
            if fold_case(last.pipeline) != fold_case(pipeline.name):
                continue
            if not is_another(Path(last.file), pipeline.file):
                return ""
            return (
                f"{show_path(last.file)} has the name {last.pipeline}, too, and ran before: the two replace each "
                f"other's outputs in out/{to_safe_name(pipeline.name)}, and `orun diff` and `orun history` take them "
                "for one pipeline; `name:` in the file gives one of them another"
            )
    return ""


def require_distinct_folders(store: Store, pipeline: Pipeline) -> None:
    """Refuse stages whose names differ in case alone if the store's file system ignores case.

    Raises:
        PipelineError: with the location of each stage after the first.
    """
    if not store.ignores_case:
        return
    first: dict[str, str] = {}
    problems = []
    for stage in pipeline.stages:
        other = first.setdefault(to_safe_name(stage.id).lower(), stage.id)
        if other != stage.id:
            message = f"{other!r} and {stage.id!r} would share a folder: file names in {store.root} ignore case"
            hint = "give one of them another name, or keep results where case counts: --store DIR"
            problems.append(Problem(stage.position, message, hint=hint))
    if problems:
        raise PipelineError(problems)


def _choose_case_folding(store: Store) -> Callable[[str], str]:
    """Return the function that maps names of the same folder in `out/` to one text."""
    return str.lower if store.ignores_case else str


def is_another(ran: Path, own: Path) -> bool:
    """Return whether a file that ran is another one of the same repository, not this one moved or checked out anew."""
    return (
        not _is_file_of(ran, own)
        and bool(stat_presence(ran))
        and _find_repository(ran.parent) == _find_repository(own.parent)
    )


def _find_repository(folder: Path) -> Path:
    """Return the enclosing git repository, or else the project."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), find_project(folder))


def _iter_earlier_stages(store: Store, pipeline: Pipeline, folders: Collection[str]) -> Iterator[str]:
    """Yield the stages with these folders that an earlier run of the very file had."""
    from orun.eventlog import read_result  # needed only if a stage was removed

    left = set(folders)
    for folder in islice(store.iter_ended_runs(), MOST_RUNS):
        with suppress(StoreError):  # another version of orun wrote it
            record = read_result(folder)
            stages = [result.stage for result in record.stages if record.pipeline == pipeline.name]
            matches = [stage for stage in stages if to_safe_name(stage) in left]
            left -= {to_safe_name(stage) for stage in matches}
            if matches and _is_file_of(Path(record.file), pipeline.file):
                yield from matches
        if not left:
            break


def _is_file_of(ran: Path, own: Path) -> bool:
    """Return whether the file that ran is that of a pipeline, which may have moved with its project since."""
    return ran.resolve() == own.resolve() or (ran.name == own.name and not stat_presence(ran))


def _read_folder_state(path: str) -> FolderState:
    """Return what changes when the folder is replaced: the new one may have the inode of the old one."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
