"""Run snapshot: a stored run and its files, laid out so that its pipeline can be loaded again."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from orun.core.run_record import INVESTIGATIONS, RunResult
from orun.errors import UsageError
from orun.eventlog import read_result
from orun.fs.observed_state import stat_presence
from orun.history import source_snapshot
from orun.pipeline import load
from orun.pipeline.model import Pipeline
from orun.store import Store

HINT = "name a run of the pipeline: last is the newest, last~1 the one before"
TOP = "top"  # name of the folders above the pipeline's, which does not matter


@dataclass(frozen=True)
class RunSnapshot:
    """A run with its pipeline."""

    run: str
    record: RunResult  # its own, or that of the run that it repeats
    files: Mapping[str, str]  # digests, by path from the pipeline's folder
    pipeline: Pipeline  # loaded from these files

    @property
    def code(self) -> dict[str, str]:
        """Files that are not pipeline files."""
        return {name: digest for name, digest in self.files.items() if not name.endswith((".yaml", ".yml"))}

    @classmethod
    def read(cls, store: Store, run: str, empty_folder: Path) -> RunSnapshot:
        """Read a run and load its pipeline.

        `empty_folder`, for the files, is outside of any project.

        Raises:
            UsageError: if there is no such run, it was part of an investigation, or one of its files is lost.
        """
        folder = store.run(run, hold=True)
        if folder.name.endswith(INVESTIGATIONS):
            why = f"`orun {folder.name.rpartition('.')[2]}` made it to investigate another run"
            raise UsageError(f"the run {folder.name} is not the run of a pipeline file", why=why, hint=HINT)
        record = read_result(folder)
        if record.repeats:
            record = read_result(store.run(record.repeats, hold=True))
        files = source_snapshot.read_index(record)
        if files is None:
            why = "it was made by a version of orun that did not store the files of a run"
            raise UsageError(f"the run {folder.name} cannot be compared", why=why)
        root = write_project(store, empty_folder, {name: (record, digest) for name, digest in files.items()})
        return cls(folder.name, record, files, load(root / Path(record.file).name, record.overrides))


def write_project(
    store: Store, folder: Path, files: Mapping[str, tuple[RunResult, str]], module_folders: Collection[str] = ()
) -> Path:
    """Write files of runs as a project and return the pipeline's folder.

    Args:
        store: computes digests.
        folder: an empty folder that becomes the top of the project.
        files: the run and digest of each file, by its path from the pipeline's folder.
        module_folders: other paths from the pipeline's folder that lie in the project, whether they have files or not.

    Raises:
        UsageError: if the content of a file is lost.
    """
    above = max((Path(name).parts.count("..") for name in (*files, *module_folders)), default=0)
    root = folder.joinpath(*[TOP] * above)
    root.mkdir(parents=True, exist_ok=True)
    (folder / ".git").mkdir(exist_ok=True)  # marks the top of a project
    for name, (record, digest) in files.items():
        path = (root / name).resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        content = source_snapshot.read_content(record, digest)
        if content is not None:
            path.write_bytes(content)
        else:
            _copy(store, record, name, digest, path)
    return root


def _copy(store: Store, record: RunResult, name: str, digest: str, path: Path) -> None:
    """Copy a file that runs do not store (data, large files, folders) from its place in the project."""
    source = Path(record.file).parent / name
    if not digest:  # the run did not read it: its existence suffices
        if stat_presence(source):
            path.symlink_to(source)
        else:
            path.touch()
        return
    if not stat_presence(source) or store.files.digest_path(source) != digest:
        raise UsageError(
            f"{name} was removed or changed since the run {record.run}",
            why="runs store only code and small text files",
            hint=f"restore it: {source}",
        )
    if source.is_dir():
        shutil.copytree(source, path, dirs_exist_ok=True)
    else:
        shutil.copy2(source, path)
