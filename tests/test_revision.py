"""The commit of a project, as git itself says it: however the repository lies, without starting git."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.revision import commit_of
from orun.store import locks
from tests.git import commit, git
from tests.project import Project


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_text("1")
    commit(folder, "first")
    return folder


def test_a_branch_packed_references_a_tag_and_a_worktree(repository: Path, tmp_path: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert commit_of(repository) == head
    assert commit_of(repository / "deep") == head
    git(repository, "tag", "-am", "one", "v1")
    git(repository, "pack-refs", "--all")
    assert commit_of(repository) == head
    git(repository, "checkout", "-q", "--detach")
    assert commit_of(repository) == head
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "beside"))
    git(tmp_path / "beside", "commit", "-qm", "second", "--allow-empty")
    assert commit_of(tmp_path / "beside") == git(tmp_path / "beside", "rev-parse", "HEAD") != head


def test_none(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    assert commit_of(tmp_path / "empty") == ""
    (repository / ".git" / "HEAD").write_bytes(b"\xff\xfe")
    assert commit_of(repository) == ""
    (repository / ".git" / "HEAD").unlink()
    assert commit_of(repository / "deep") == ""


def test_a_run_records_it_and_one_that_repeats_it_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "MACHINE", tmp_path)
    project = Project.make(tmp_path / "project")
    assert project.run().commit == ""
    git(project.folder, "init", "-q")
    commit(project.folder, "first")
    project.edit("pipeline.yaml", "a b", "a b c")
    assert project.run().commit == git(project.folder, "rev-parse", "HEAD")
    project.run()
    again = project.run()
    assert again.repeats
    assert again.commit == ""
