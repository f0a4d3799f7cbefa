"""Undeclared writes of a stage: files of the project that it wrote beside its output, against its contract."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from orun.executors.job import Job
from orun.executors.tracing.scope import Scope
from orun.store.records import How

CACHES = "__pycache__"
TAG = "CACHEDIR.TAG"  # marks a folder as a cache: https://bford.info/cachedir/


def list_undeclared_writes(job: Job, written: Mapping[str, bool], missing: Collection[str]) -> dict[str, How]:
    """Return the undeclared writes that are left, except caches, and how each was written.

    Args:
        job: the stage.
        written: absolute path -> whether it was only ever opened to append.
        missing: paths that the stage looked for and did not find.
    """
    if not written:
        return {}
    code = [(Path(job.root) / job.entry.rpartition(":")[0]).parent] if job.origin == "file" else []
    tops = [Path(job.project), *code]
    scope = Scope(map(str, tops))
    return {
        name: "added" if appends else "missed" if name in missing else "written"
        for name, appends in sorted(written.items())
        if scope.is_code(name) and not _is_cache(path := Path(name), tops) and path.is_file()
    }


def _is_cache(path: Path, tops: list[Path]) -> bool:
    """Return whether a file is hidden, or in a folder that is hidden or tagged as a cache."""
    top = next((top for top in tops if path.is_relative_to(top)), path.parent)
    parts = path.relative_to(top).parts
    folders = [top.joinpath(*parts[:depth]) for depth in range(1, len(parts))]
    return any(part.startswith(".") or part == CACHES for part in parts) or any((f / TAG).exists() for f in folders)
