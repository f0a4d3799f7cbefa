"""The short way: a run with nothing to do, recognised from a note of the run before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun import memory
from orun.store import locks
from orun.store.sealed import seal, unseal
from tests.project import Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project of which everything is built, and the last run was noted."""
    monkeypatch.setattr(locks, "MACHINE", tmp_path)
    project = Project.make(tmp_path / "project")
    project.run()
    assert project.run().repeats
    return project


def test_the_note_of_another_version_is_not_believed(project: Project) -> None:
    (note,) = project.store.glob("index/run-*.json")
    content = unseal(note.read_bytes())
    note.write_bytes(seal({**content, "format": memory.FORMAT + 1}))
    assert not project.run().repeats
    assert project.run().repeats


def test_a_run_that_is_gone_is_not_repeated(project: Project) -> None:
    (note,) = project.store.glob("index/run-*.json")
    repeated = unseal(note.read_bytes())["result"]["repeats"]
    (project.store / "runs" / repeated / "record.json").unlink()
    assert not project.run().repeats


def test_the_record_of_a_repeating_run_is_that_of_the_run_but_for_itself(project: Project) -> None:
    first, second = project.run(), project.run()
    assert first.repeats == second.repeats != ""
    assert first.stages == second.stages
    assert [stage.outcome for stage in first.stages] == ["cached"] * len(first.stages)
