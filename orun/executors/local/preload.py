"""Modules that the fork server imports for a stage, in order.

The list depends only on the job, never on what ran before, and so does the state of the stage's process.
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

# Imported first and in this order, so that servers of different lists share as much as possible.
ORDER = ("numpy", "onnx", "onnxruntime", "torch", "transformers")
CODE = re.compile(r"[^:\n]+\.py:[A-Za-z_]\w*")


def _can_fork() -> bool:
    """Return whether stages are forked; system libraries of macOS may not be used after a fork without an exec."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):  # not Linux, or one before 5.3
        return False
    return True


FORKS = _can_fork()


def list_modules(job: Job) -> tuple[str, ...]:
    """Return the modules that are imported before a stage starts; none if stages are not forked.

    These are the modules that its kind declares, the libraries that the user's code imports, and onnx if its output is
    a model to check. Modules of a plug-in kind are left out: each stage loads their current files.
    """
    if not FORKS:
        return ()
    names = {
        name for name in {*job.spec.preload, *_list_libraries(job)} if _strip_submodules(name) != job.plugin_package
    }
    if job.spec.output == "onnx":
        names.add("onnx")
    if names.intersection(ORDER):
        names.add(ORDER[0])  # they all import it
    return tuple(sorted(names, key=_rank))


def _rank(module: str) -> tuple[int, str]:
    top = _strip_submodules(module)
    return (ORDER.index(top) if top in ORDER else len(ORDER)), module


def _strip_submodules(module: str) -> str:
    return module.partition(".")[0]


def _list_libraries(job: Job) -> set[str]:
    libraries: set[str] = set()
    for reference in dict.fromkeys(_iter_references([job.params, job.entry if job.origin == "file" else ""])):
        file, _, function = reference.rpartition(":")
        path = Path(job.root, file)
        if not path.is_file():
            continue
        source = read_source(path.read_bytes(), frozenset({function}))
        if source.sets_environment:
            return set()  # a library may read the variable as it is imported, so it must come after
        folders = (path.parent, Path(job.root))
        foreign = source.imports - sys.stdlib_module_names - {"orun"}
        libraries |= {name for name in foreign if not _is_own(name, folders)}
    return libraries


def _iter_references(value: Any) -> Iterator[str]:
    """Yield every `file.py:function` in a value."""
    if isinstance(value, str):
        if CODE.fullmatch(value):
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _iter_references(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _iter_references(item)


def _is_own(name: str, folders: tuple[Path, ...]) -> bool:
    return any((folder / name).is_dir() or (folder / f"{name}.py").is_file() for folder in folders)
