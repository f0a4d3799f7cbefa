"""Modules that stage processes share, in the order of their import.

The list follows from the job alone, never from what ran before it, and so does the state of the stage's process.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orun.executors.job import Job
from orun.executors.local.module_sources import read_source

# Imported first and in this order, so that fork servers of different lists share what they can.
ORDER = ("numpy", "onnx", "onnxruntime", "torch", "transformers")
CODE = re.compile(r"[^:\n]+\.py:[A-Za-z_]\w*")


def _can_fork() -> bool:
    """Whether stages are forked: not where system libraries may not be used after a fork without an exec."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):  # not Linux, or one before 5.3
        return False
    return True


FORKS = _can_fork()


def modules_of(job: Job) -> tuple[str, ...]:
    """The modules that are imported before a stage starts; none where stages are not forked.

    They are those that its kind declares, the libraries that the user's code imports, and onnx when its output will be
    checked with it; but no module of the package of a plug-in that is its kind, as their content counts.
    """
    if not FORKS:
        return ()
    names = {name for name in {*job.spec.preload, *_libraries(job)} if _top(name) != job.plugged}
    if job.spec.output == "onnx":
        names.add("onnx")
    if names.intersection(ORDER):
        names.add(ORDER[0])  # they all import it
    return tuple(sorted(names, key=_rank))


def _rank(module: str) -> tuple[int, str]:
    top = _top(module)
    return (ORDER.index(top) if top in ORDER else len(ORDER)), module


def _top(module: str) -> str:
    return module.partition(".")[0]


def _libraries(job: Job) -> set[str]:
    found: set[str] = set()
    for reference in dict.fromkeys(_references([job.params, job.entry if job.origin == "file" else ""])):
        file, _, function = reference.rpartition(":")
        path = Path(job.root, file)
        if not path.is_file():
            continue
        source = read_source(path.read_bytes(), frozenset({function}))
        if source.sets_environment:
            return set()  # a library may read what it sets, so that it must not be imported before
        folders = (path.parent, Path(job.root))
        foreign = source.imports - sys.stdlib_module_names - {"orun"}
        found |= {name for name in foreign if not _is_own(name, folders)}
    return found


def _references(value: Any) -> Iterator[str]:
    """Every `file.py:function` in a value."""
    if isinstance(value, str):
        if CODE.fullmatch(value):
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _references(item)


def _is_own(name: str, folders: tuple[Path, ...]) -> bool:
    return any((folder / name).is_dir() or (folder / f"{name}.py").is_file() for folder in folders)
