"""The commits between two runs that touch what differs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orun.cli.bisect import format_bisection
from orun.report.terminal import Terminal
from tests.blame.project import Project
from tests.git import commit, git


@pytest.fixture
def project(tmp_path: Path) -> Project:
    repository = Project(tmp_path)
    git(repository.folder, "init", "-q")
    commit(repository.folder, "first")
    return repository


def test_those_that_touch_the_file_that_did_it(project: Project) -> None:
    good = project.run()
    project.edit("helper.py", "len(text)", "len(text) + 1")
    commit(project.folder, "count one more")
    project.edit("pipeline.yaml", "note: one", "note: two")
    commit(project.folder, "another note")
    project.edit("helper.py", "+ 1", "+ 100")
    last = commit(project.folder, "count many more")
    bad = project.run()
    bisection = project.bisect(good, bad)
    assert bisection.causes == (("helper.py was changed",),)
    shown = format_bisection(bisection, Terminal())
    assert [line.split(" ", 3)[3] for line in shown[-2:]] == ["count one more", "count many more"]
    assert last.startswith(shown[-1].split()[0])
    assert shown[-3] == "commits that touch it:"
    assert bisection.commits.note == ""


def test_of_a_parameter_only_those_of_its_lines(project: Project) -> None:
    good = project.run()
    (project.folder / "notes.txt").write_text("unrelated")
    commit(project.folder, "notes")
    project.edit("pipeline.yaml", "name: mixed", "name: mixed  # of two stages")
    commit(project.folder, "a comment")
    project.edit("pipeline.yaml", "weight: 1.0", "weight: 9.0")
    commit(project.folder, "nine times the weight")
    bad = project.run()
    bisection = project.bisect(good, bad)
    assert bisection.causes == (("score.weight: 1.0 -> 9.0",),)
    assert [line.split(" ", 1)[1] for line in bisection.commits.commits] == ["nine times the weight"]


@pytest.mark.slow
def test_of_a_parameter_those_of_its_value_elsewhere(project: Project) -> None:
    """A commit with its name alone is no better than one with the value of its variable."""
    project.edit("pipeline.yaml", "vars: {text: abc}", "vars: {text: abc, w: 1.0}")
    project.edit("pipeline.yaml", "weight: 1.0", "weight: '${vars.w}'")
    commit(project.folder, "a variable")
    good = project.run()
    project.edit("pipeline.yaml", "name: mixed", "name: mixed  # with a weight")
    commit(project.folder, "a comment")
    project.edit("pipeline.yaml", "w: 1.0", "w: 9.0")
    commit(project.folder, "nine times the weight")
    bad = project.run()
    commits = project.bisect(good, bad).commits.commits
    assert [line.split(" ", 1)[1] for line in commits] == ["a comment", "nine times the weight"]


@pytest.mark.slow
def test_of_a_list_those_of_the_pipeline_file(project: Project) -> None:
    """Its lines need not name it."""
    project.edit("stages.py", 'text: str = "a b"', "text: list[str]")
    project.edit("stages.py", "text * times", "''.join(text) * times")
    project.edit("pipeline.yaml", 'text: "${vars.text}"', "text: [\n    abc,\n    def]")
    commit(project.folder, "a list")
    good = project.run()
    project.edit("pipeline.yaml", "name: mixed", "name: mixed  # of text")
    commit(project.folder, "a comment")
    project.edit("pipeline.yaml", "    def]", "    defghijklmnop]")
    commit(project.folder, "a longer list")
    bad = project.run()
    commits = project.bisect(good, bad).commits.commits
    assert [line.split(" ", 1)[1] for line in commits] == ["a comment", "a longer list"]


def test_what_was_not_committed_is_said(project: Project) -> None:
    first = git(project.folder, "rev-parse", "HEAD")
    good = project.run()
    project.edit("pipeline.yaml", "weight: 1.0", "weight: 9.0")
    bad = project.run()
    assert project.bisect(good, bad).commits.note == (
        f"both runs were made at {first[:10]}; {bad.run} had uncommitted changes: pipeline.yaml"
    )


@pytest.mark.slow
def test_a_branch_that_was_left(project: Project) -> None:
    git(project.folder, "checkout", "-qb", "side")
    git(project.folder, "commit", "-qm", "beside", "--allow-empty")
    good = project.run()
    git(project.folder, "checkout", "-q", "main")
    project.edit("pipeline.yaml", "weight: 1.0", "weight: 9.0")
    commit(project.folder, "nine times the weight")
    bad = project.run()
    bisection = project.bisect(good, bad).commits
    assert [line.split(" ", 1)[1] for line in bisection.commits] == ["nine times the weight"]
    assert bisection.note == (
        f"{good.commit[:10]} is no ancestor of {bad.commit[:10]}: commits of only the former are not listed"
    )


@pytest.mark.slow
def test_a_shallow_clone(project: Project, tmp_path: Path) -> None:
    """As CI systems make them: the commit of the good run is not in it."""
    good = project.run()
    project.edit("pipeline.yaml", "weight: 1.0", "weight: 9.0")
    commit(project.folder, "nine times the weight")
    git(tmp_path, "clone", "-q", "--depth", "1", project.folder.as_uri(), "shallow")
    shutil.rmtree(project.folder / ".git")
    shutil.move(tmp_path / "shallow" / ".git", project.folder / ".git")
    bad = project.run()
    assert project.bisect(good, bad).commits.note == (
        f"git does not have {good.commit[:10]}..{bad.commit[:10]} here, a shallow clone: "
        "`git fetch --unshallow` gets the rest"
    )
