"""Output checkouts of a run: artifacts placed in `out/` as stages finish, and still there at its end.

What a stage left that the file has no more, or by another name, is removed: a release that is carried away from there
would be the old one for ever.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from orun.core.run_record import ASIDE
from orun.core.source_location import Problem
from orun.errors import PipelineError, StoreError
from orun.fs.observed_state import project_of, seen_at
from orun.pipeline.model import Pipeline
from orun.store import Action, Store
from orun.store.layout import RECORD_FILE, safe_name
from orun.text.suggestions import near

LOOKED = 100  # runs back, for the file that a stage was of
Made = tuple[int, int]  # inode of a folder, and when the last name came into it or went, in nanoseconds; zeros for none


@dataclass
class Outs:
    """The folders `out/<pipeline>/<stage>/` of a run.

    Attributes:
        store: whose they are.
        pipeline: its name.
    """

    store: Store
    pipeline: str
    _placed: dict[str, tuple[Action, Path, Made]] = field(default_factory=dict)

    def put(self, stage: str, action: Action) -> tuple[Path, bool]:
        """Make the output of a stage be its artifact; the bool says whether it was not."""
        out, restored = self.store.checkout(action.tree, self.pipeline, stage)
        self._placed[stage] = action, out, _made(out)
        return out, restored

    def put_back(self) -> Iterator[str]:
        """Put back what another run has replaced since, and say so."""
        for stage, (action, out, made) in list(self._placed.items()):
            if _made(out) != made and self.put(stage, action)[1]:
                yield (
                    f"{stage}: another run had put its own into {out}, which is this run's again; pipelines of one "
                    "name in one store replace each other's outputs: give one of them another name, or --store"
                )


def withdraw_gone(store: Store, pipeline: Pipeline) -> Iterator[str]:
    """Remove what is in `out/` of stages that the file had, and say so; what was edited there stays.

    Pipelines of one name may share a store: of a stage that another file ran last, nothing is removed.
    """
    if pipeline.name.endswith(ASIDE):
        return
    folded = _folding(store)
    own = {folded(safe_name(stage.id)) for stage in pipeline.stages}
    folders = {folder for folder in store.outs(pipeline.name) if folded(folder) not in own}
    for stage in _had(store, pipeline, folders) if folders else ():
        if store.withdraw(pipeline.name, stage):
            yield f"{stage}: its output was removed from out/: {pipeline.file.name} has no such stage any more"


def namesake(store: Store, pipeline: Pipeline) -> str:
    """What comes of it where another file of the repository ran last under the pipeline's name; else an empty text.

    Checkouts of one project that share a store have the same names on purpose.
    """
    from orun.eventlog.reducer import read_result  # a run with nothing to do does without

    folded = _folding(store)
    end = folded(f"-{safe_name(pipeline.name)}")
    for folder in store.ended_runs(lambda name: folded(name).endswith(end)):
        with suppress(StoreError):
            ran = read_result(folder / RECORD_FILE)
            if folded(ran.pipeline) == folded(pipeline.name):
                return _taken(Path(ran.file), pipeline, ran.pipeline)
    return ""


def require_apart(store: Store, pipeline: Pipeline) -> None:
    """Refuse stages whose names differ in case alone, where their folders would be one.

    Raises:
        PipelineError: with the place of each after the first.
    """
    if not store.ignores_case:
        return
    first: dict[str, str] = {}
    found = []
    for stage in pipeline.stages:
        other = first.setdefault(safe_name(stage.id).lower(), stage.id)
        if other != stage.id:
            message = f"{other!r} and {stage.id!r} would have one folder: no case counts in names in {store.root}"
            hint = "give one of them another name, or keep results where it counts: --store DIR"
            found.append(Problem(stage.position, message, hint=hint))
    if found:
        raise PipelineError(found)


def _folding(store: Store) -> Callable[[str], str]:
    """What makes names alike that are one in `out/`."""
    return str.lower if store.ignores_case else str


def is_another(ran: Path, own: Path) -> bool:
    """Whether a file that was run is another one of the repository, and not this one in another place or checkout."""
    return not _is_file_of(ran, own) and bool(seen_at(ran)) and _repository(ran.parent) == _repository(own.parent)


def _taken(other: Path, pipeline: Pipeline, name: str) -> str:
    if not is_another(other, pipeline.file):
        return ""
    return (
        f"{near(str(other))} has the name {name}, too, and ran before: each puts its outputs in the place of "
        f"the other's in out/{safe_name(pipeline.name)}, and `orun diff` and `orun history` take both for one "
        "pipeline; `name:` in the file gives one of them another"
    )


def _repository(folder: Path) -> Path:
    """The folder around it that git has, else the project's."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), project_of(folder))


def _had(store: Store, pipeline: Pipeline, folders: Collection[str]) -> Iterator[str]:
    """The stages with these folders that a run of the very file had."""
    from orun.eventlog.reducer import read_result  # needed where a stage is gone

    left = set(folders)
    for folder in islice(store.ended_runs(), LOOKED):
        with suppress(StoreError):  # another version of orun wrote it
            record = read_result(folder / RECORD_FILE)
            stages = [one.stage for one in record.stages if record.pipeline == pipeline.name]
            found = [stage for stage in stages if safe_name(stage) in left]
            left -= {safe_name(stage) for stage in found}
            if found and _is_file_of(Path(record.file), pipeline.file):
                yield from found
        if not left:
            break


def _is_file_of(ran: Path, own: Path) -> bool:
    """Whether the file that was run is that of a pipeline, which may have been moved with its project."""
    return ran.resolve() == own.resolve() or (ran.name == own.name and not seen_at(ran))


def _made(path: Path) -> Made:
    """Which folder it is, which is replaced as a whole: a new one may have the number of one that is gone."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
