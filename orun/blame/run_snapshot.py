"""A stored run with its files laid out so that its pipeline can be loaded again."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orun.core.run_record import ASIDE, RunResult
from orun.errors import UsageError
from orun.eventlog.reducer import read_result
from orun.fs.observed_state import seen_at
from orun.history import source_snapshot
from orun.pipeline import load
from orun.pipeline.model import Pipeline
from orun.store import Store
from orun.store.layout import RECORD_FILE

NAME = "name one of the pipeline: last is the last of them, last~1 the one before"
TOP = "top"  # stands for a folder above the pipeline's, whose name does not matter


@dataclass(frozen=True)
class Side:
    """A run.

    Attributes:
        run: its id, as it was asked for.
        record: its record, or that of the run whose results it found unchanged.
        files: digest of each file of the project that it rests on, by its path from the pipeline's folder.
        pipeline: its pipeline, loaded from those files.
    """

    run: str
    record: RunResult
    files: Mapping[str, str]
    pipeline: Pipeline

    @property
    def code(self) -> dict[str, str]:
        """The files that are no pipeline files."""
        return {name: digest for name, digest in self.files.items() if not name.endswith((".yaml", ".yml"))}

    @classmethod
    def read(cls, store: Store, run: str, scratch: Path) -> Side:
        """Read a run and load its pipeline.

        Args:
            store: where the run is.
            run: its id, or an unambiguous beginning of it.
            scratch: an empty folder outside of any project.

        Raises:
            UsageError: when there is no such run, it looked into another, or a file of it is not to be had any more.
        """
        folder = store.run(run, hold=True)
        if folder.name.endswith(ASIDE):
            why = f"`orun {folder.name.rpartition('.')[2]}` made it to look into another one"
            raise UsageError(f"the run {folder.name} is none of a pipeline file", why=why, hint=NAME)
        record = read_result(folder / RECORD_FILE)
        if record.repeats:
            record = read_result(store.run(record.repeats, hold=True) / RECORD_FILE)
        files = source_snapshot.index(record)
        if files is None:
            why = "a version of orun made it that did not keep what a run is made from"
            raise UsageError(f"the run {folder.name} cannot be mixed with another", why=why)
        root = Layout(store, scratch).write({name: (record, digest) for name, digest in files.items()})
        return cls(folder.name, record, files, load(root / Path(record.file).name, record.overrides))


@dataclass(frozen=True)
class Layout:
    """Writes files as a project of their own.

    Attributes:
        store: whose digests are used.
        scratch: an empty folder, which becomes the top of the project.
    """

    store: Store
    scratch: Path

    def write(self, files: Mapping[str, tuple[RunResult, str]]) -> Path:
        """Write the files; returns the folder that stands for the pipeline's.

        Args:
            files: by their path from the pipeline's folder, the run that they are of and their digest there.

        Raises:
            UsageError: when the content of one is not to be had.
        """
        above = max((Path(name).parts.count("..") for name in files), default=0)
        root = self.scratch.joinpath(*[TOP] * above)
        root.mkdir(parents=True, exist_ok=True)
        (self.scratch / ".git").mkdir(exist_ok=True)  # marks the top of a project
        for name, (record, digest) in files.items():
            path = (root / name).resolve()
            path.parent.mkdir(parents=True, exist_ok=True)
            kept = source_snapshot.content(record, digest)
            if kept is not None:
                path.write_bytes(kept)
            else:
                self._copy(record, name, digest, path)
        return root

    def _copy(self, record: RunResult, name: str, digest: str, path: Path) -> None:
        """Data, large files and folders are not kept: they must still be where they were."""
        now = Path(record.file).parent / name
        if not digest:  # no part of the run: that it is there is enough
            if seen_at(now):
                path.symlink_to(now)
            else:
                path.touch()
            return
        if not seen_at(now) or self.store.files.digest_path(now) != digest:
            raise UsageError(
                f"{name} is not to be had as it was in the run {record.run}",
                why="a run keeps code and small texts only, and it is gone or has changed since",
                hint=f"bring it back: {now}",
            )
        if now.is_dir():
            shutil.copytree(now, path, dirs_exist_ok=True)
        else:
            shutil.copy2(now, path)
