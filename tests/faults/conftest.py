"""Projects that faults are tried on; each fault begins with an empty store or with what clean runs have left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.projects import MODEL, TEXT
from tests.faults.rig import Rig, inside, process


@pytest.fixture(scope="module", autouse=True)
def _variables() -> Iterator[None]:
    """Hide variables that change what a run prints or where its store is."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CI", "GITHUB_STEP_SUMMARY", "ORUN_STORE"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """Plain functions, run in this process."""
    return Rig.make(tmp_path_factory.mktemp("faults") / "text", TEXT, inside)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """Real stages over a small model, run in this process."""
    return Rig.make(tmp_path_factory.mktemp("faults") / "model", MODEL, inside)


@pytest.fixture(scope="session")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """Plain functions, each run a process of its own."""
    return Rig.make(tmp_path_factory.mktemp("faults") / "apart", TEXT, process)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is not there yet."""
    return tmp_path / "race"
