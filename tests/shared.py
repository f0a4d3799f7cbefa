"""Costly set-up that is made once a session of tests, not once a worker."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all workers of a session of tests share."""
    session = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        session = session.parent
    folder = session / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]) -> Path:
    """Return what `make` makes in a folder that it is given; the first worker that asks calls it, the others wait.

    Args:
        factory: of temporary folders.
        name: of the folder.
        make: returns a path in the folder.
    """
    folder = shared_folder(factory) / name
    result = folder.parent / f"{name}.result"
    with FileLock(folder.parent / f"{name}.lock"):
        if not result.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a call that failed
            folder.mkdir()
            result.write_text(str(make(folder)), encoding="utf-8")
        return Path(result.read_text(encoding="utf-8"))
