"""Projects on an agent: each snapshot as a read-only folder in the store, `snapshots/<digest>`, and its pipeline."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from orun.agent.snapshots import LEFT_OUT
from orun.core.machines import Snapshot
from orun.core.serialization import Record, replace
from orun.executors import Mask
from orun.fs.locks import Lock
from orun.fs.os_errors import convert_os_errors
from orun.gates import baselines
from orun.pipeline import load
from orun.planning.planner import Planner
from orun.store import Store, Tree

FOLDER = "snapshots"
Identity = tuple[str, str, tuple[tuple[str, str], ...]]
KEPT = 8  # folders of snapshots that stay for the next run


class Place(Record, frozen=True):
    """Folder of a snapshot on this machine."""

    folder: Path
    root: Path  # the pipeline's folder in it
    left_out: tuple[str, ...]  # what did not travel, relative to `folder`; folders end in a slash
    odd: dict[str, str]  # why those of `left_out` stayed that git does not ignore, by their paths


class Project(Record, frozen=True):
    """Pipeline of a snapshot on this machine."""

    place: Place
    planner: Planner
    mask: Mask


class ProjectFolders:
    """Folders of the snapshots that an agent uses; they stay as they are while it lives."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._used: dict[str, Lock] = {}
        self._projects: dict[Identity, Project] = {}

    def load_project(self, snapshot: Snapshot) -> Project:
        """Return the project of a snapshot whose files are in the store.

        Raises:
            PipelineError: if the pipeline file has mistakes on this machine.
            StoreError: if the folder cannot be made.
        """
        identity = snapshot.tree, snapshot.file, tuple(sorted(snapshot.overrides.items()))
        if identity not in self._projects:
            self._use(snapshot.tree)
            place = self.read_place(snapshot)
            pipeline = load(place.folder / snapshot.file, snapshot.overrides)
            planner = Planner(pipeline, self._store, baselines.read(pipeline))
            self._projects[identity] = Project(place, planner, Mask.of(pipeline.private))
        return self._projects[identity]

    def has(self, snapshot: Snapshot) -> bool:
        """Return whether the folder of a snapshot is in use: then its files need not be fetched."""
        return snapshot.tree in self._used

    def read_place(self, snapshot: Snapshot) -> Place:
        """Return the folder of a snapshot, which may not be there yet."""
        folder = self._store.root / FOLDER / snapshot.tree
        left_out = ""
        with suppress(OSError):
            left_out = (folder / LEFT_OUT).read_text(encoding="utf-8")
        stayed = {name: why for name, _, why in (line.partition("\t") for line in left_out.split("\n")[:-1])}
        odd = {name: why for name, why in stayed.items() if why}
        return Place(folder, (folder / snapshot.file).parent, tuple(stayed), odd)

    def forget_facts(self) -> None:
        """Look at the facts of this machine anew: devices or variables may have changed."""
        for identity, project in self._projects.items():
            old = project.planner
            self._projects[identity] = replace(project, planner=Planner(old.pipeline, self._store, old.baseline))

    def forget_pipelines(self) -> None:
        """Load every pipeline anew at its next use."""
        self._projects.clear()

    def check_again(self, project: Project) -> None:
        """Check the folder of a project at its next use: a stage has written into it."""
        if lock := self._used.pop(project.place.folder.name, None):
            lock.release()
        self.forget_pipelines()

    def _use(self, digest: str) -> None:
        """Make the folder of a snapshot, or check the one there; keep it while this agent lives."""
        if digest in self._used:
            return
        folder = self._store.root / FOLDER / digest
        path = self._store.root / "locks" / f"snapshot-{digest}"
        making = Lock(path, keep=True)
        if making.try_acquire():  # otherwise another agent makes it, or uses it
            with making:
                self._make(digest, folder)
        using = Lock(path, exclusive=False, keep=True)
        using.acquire()
        self._used[digest] = using
        self._remove_old()

    def _make(self, digest: str, folder: Path) -> None:
        tree = self._store.read_tree(digest)
        if tree and folder.exists() and not self._is_intact(tree, folder):
            self._store.discard(folder)
        if not folder.exists():
            folder.parent.mkdir(exist_ok=True)
            self._store.materialize(digest, folder)
        with suppress(OSError):
            os.utime(folder)

    def _is_intact(self, tree: Tree, folder: Path) -> bool:
        """Return whether a folder holds the files of a tree and nothing else, by their signatures where known."""
        expected = {f"{folder}/{entry.path}": entry.digest for entry in tree.entries}
        with convert_os_errors(f"read {folder}", folder):
            files = {f"{top}/{name}" for top, _, names in os.walk(folder) for name in names}
            digest = self._store.files.digest_file
            return files == expected.keys() and all(digest(path) == expected[path] for path in files)

    def _remove_old(self) -> None:
        """Remove the folders that were not used for longest, unless another agent uses them."""
        with convert_os_errors("remove old snapshots", self._store.root):
            folders = sorted((self._store.root / FOLDER).iterdir(), key=lambda folder: -folder.stat().st_mtime)
        for folder in folders[KEPT:]:
            lock = Lock(self._store.root / "locks" / f"snapshot-{folder.name}", keep=True)
            if folder.name not in self._used and lock.try_acquire():
                with lock:
                    self._store.discard(folder)

    def release(self) -> None:
        """Let go of all folders, which stay for the next agent."""
        for lock in self._used.values():
            lock.release()
        self._used.clear()
