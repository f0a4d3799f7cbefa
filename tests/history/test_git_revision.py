"""The commit of a project, as git itself says it: however the repository lies, without starting git."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.eventlog import read_log
from orun.history.git_revision import list_edited, read_commit
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
    assert read_commit(repository) == head
    assert read_commit(repository / "deep") == head
    git(repository, "tag", "-am", "one", "v1")
    git(repository, "pack-refs", "--all")
    assert read_commit(repository) == head
    git(repository, "checkout", "-q", "--detach")
    assert read_commit(repository) == head
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "beside"))
    git(tmp_path / "beside", "commit", "-qm", "second", "--allow-empty")
    assert read_commit(tmp_path / "beside") == git(tmp_path / "beside", "rev-parse", "HEAD") != head


def test_without_a_commit_there_is_none(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    assert read_commit(tmp_path / "empty") == ""
    (repository / ".git" / "HEAD").write_bytes(b"\xff\xfe")
    assert read_commit(repository) == ""
    (repository / ".git" / "HEAD").unlink()
    assert read_commit(repository / "deep") == ""


def test_files_that_are_not_as_in_the_commit(repository: Path) -> None:
    first = read_commit(repository)
    deep = repository / "deep"
    assert list_edited(deep, first, {"file": b"1", "./file": b"1"}) == ()
    assert list_edited(deep, first, {"file": b"2", "new": b"", "../above": b"1"}) == ("../above", "file", "new")
    assert list_edited(deep, first, {}) == ()
    assert list_edited(deep, "0" * 40, {"file": b"1"}) is None
    assert list_edited(repository.parent, first, {"file": b"1"}) is None


def test_what_is_staged_is_not_committed_and_names_are_no_patterns(repository: Path) -> None:
    (repository / "f*").write_text("1")
    git(repository, "add", ".")
    assert list_edited(repository, read_commit(repository), {"f*": b"1"}) == ("f*",)
    last = commit(repository, "second")
    assert list_edited(repository, last, {"f*": b"1", "deep/file": b"1"}) == ()


def test_ends_of_lines_that_git_changes_are_no_edit(repository: Path) -> None:
    (repository / ".gitattributes").write_text("*.yaml text eol=crlf\n")
    (repository / "a.yaml").write_bytes(b"a\r\nb\r\n")
    last = commit(repository, "second")
    assert git(repository, "show", "HEAD:a.yaml") == "a\nb"
    assert list_edited(repository, last, {"a.yaml": b"a\r\nb\r\n"}) == ()
    assert list_edited(repository, last, {"a.yaml": b"a\r\nc\r\n"}) == ("a.yaml",)


def test_a_repository_of_sha256(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    (tmp_path / "file").write_text("1")
    last = commit(tmp_path, "first")
    assert len(last) == 64
    assert list_edited(tmp_path, last, {"file": b"1"}) == ()
    assert list_edited(tmp_path, last, {"file": b"2"}) == ("file",)


def test_without_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    assert list_edited(repository, read_commit(repository), {"deep/file": b"1"}) is None


def test_a_run_records_its_commit_and_what_was_not_committed_and_one_that_repeats_it_does_not(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    without = project.run()
    assert (without.commit, without.edited) == ("", None)
    git(project.folder, "init", "-q")
    first = commit(project.folder, "first")
    project.edit("pipeline.yaml", "a b", "a b c")
    project.edit("helper.py", "deep.split(text)", "deep.split(text)[:]")
    (project.folder / "unrelated.py").write_text("")
    dirty = project.run()
    assert (dirty.commit, dirty.edited) == (first, ("helper.py", "pipeline.yaml"))
    assert read_log(dirty.folder / "events.jsonl") == dirty
    second = commit(project.folder, "second")
    clean = project.run(force=["make"])
    assert (clean.commit, clean.edited) == (second, ())
    project.run()
    again = project.run()
    assert again.repeats
    assert (again.commit, again.edited) == ("", None)
