"""Files of the project that a stage wrote beside its output, against its contract."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from orun.executors.job import Job
from orun.executors.tracing.scope import Scope
from orun.store.records import How

CACHES = "__pycache__"
TAG = "CACHEDIR.TAG"  # marks a folder as a cache: https://bford.info/cachedir/


def strays(job: Job, written: Mapping[str, bool], sought: Collection[str]) -> dict[str, How]:
    """What is left of it, and how it was written; no caches.

    Args:
        job: the stage.
        written: absolute path -> whether it was only ever opened to add to its end.
        sought: what it had looked for in vain.
    """
    if not written:
        return {}
    code = [(Path(job.root) / job.entry.rpartition(":")[0]).parent] if job.origin == "file" else []
    tops = [Path(job.project), *code]
    scope = Scope(map(str, tops))
    return {
        name: "added" if adds else "missed" if name in sought else "written"
        for name, adds in sorted(written.items())
        if scope.is_code(name) and not _is_cached(path := Path(name), tops) and path.is_file()
    }


def _is_cached(path: Path, tops: list[Path]) -> bool:
    """Whether a file is hidden, or in a folder that is, or in one that tells that it is a cache."""
    top = next((one for one in tops if path.is_relative_to(one)), path.parent)
    parts = path.relative_to(top).parts
    folders = [top.joinpath(*parts[:depth]) for depth in range(1, len(parts))]
    return any(part.startswith(".") or part == CACHES for part in parts) or any((one / TAG).exists() for one in folders)
