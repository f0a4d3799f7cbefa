from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orun.executors import LocalExecutor
from tests.executors.support import Project


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    """Executor of all tests of a module: none of them changes what its servers start from."""
    with LocalExecutor() as executor:
        yield executor


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "project" / "pipelines").mkdir(parents=True)
    return Project(tmp_path / "project", tmp_path / "work")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed modules of our own: one in the user's site-packages."""
    home = tmp_path / "home"
    monkeypatch.setenv("PYTHONUSERBASE", str(home))
    folder = home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder
