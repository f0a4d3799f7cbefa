"""Projects that faults are tried on; each fault begins with an empty store or with what clean runs have left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.faults import commands
from tests.faults.projects import MODEL, TEXT
from tests.faults.rig import Rig, inside, process


@contextmanager
def _hidden_variables() -> Iterator[None]:
    """Hide variables that change what a run prints or where its store is."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CI", "GITHUB_STEP_SUMMARY", "ORUN_STORE"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module", autouse=True)
def _variables() -> Iterator[None]:
    with _hidden_variables():
        yield


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """Plain functions, run in this process."""
    with _hidden_variables():
        return Rig.make(tmp_path_factory.mktemp("faults") / "text", TEXT, inside)


@pytest.fixture(scope="session")
def second_rig(text: Rig) -> Rig:
    """The same project, each run a process of its own."""
    return replace(text, start=process, ceilings={})


@pytest.fixture(scope="module")
def watched(text: Rig) -> Iterator[Rig]:
    """The same project, run in this process; commands whose calls fail have a folder for temporary files."""
    rig = replace(text, variables={})
    commands.watch_temporary(rig)
    yield rig
    commands.clear(rig)
    (rig.folder / "tmp").rmdir()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """Real stages over a small model, run in this process."""
    return Rig.make(tmp_path_factory.mktemp("faults") / "model", MODEL, inside)
