"""What is in `out/` of stages that the file has no more: removed, and said, unless it is somebody's."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.events import Notice
from tests.project import PIPELINE, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project")
    project.run()
    return project


def outs(project: Project) -> list[str]:
    return sorted(path.name for path in (project.store / "out" / "text").iterdir())


def said(project: Project) -> list[str]:
    return [event.text for event in project.events if isinstance(event, Notice)]


def test_a_stage_that_has_another_name(project: Project) -> None:
    project.edit("pipeline.yaml", "count:", "words:")
    assert project.run()["words"].outcome == "cached"
    assert outs(project) == ["make", "upper", "words"]
    assert said(project) == ["count: its output was removed from out/: pipeline.yaml has no such stage any more"]
    assert project.run().repeats
    project.edit("pipeline.yaml", "words:", "count:")
    project.run()
    assert outs(project) == ["count", "make", "upper"]
    assert project.text("count") == "2"


def test_a_stage_that_becomes_several(project: Project) -> None:
    several = "count: {uses: ./stages.py:upper, needs: upper, matrix: {mark: [a]}, with: {mark: '${matrix.mark}'}}"
    project.edit("pipeline.yaml", "count: {uses: ./stages.py:count, needs: upper}", several)
    project.run()
    assert outs(project) == ["count[mark=a]", "make", "upper"]


def test_it_is_seen_by_a_run_of_a_part(project: Project) -> None:
    project.edit("pipeline.yaml", "count:", "words:")
    project.run(to=["upper"])
    assert outs(project) == ["make", "upper"]


def test_a_project_that_has_moved(project: Project, tmp_path: Path) -> None:
    project.edit("pipeline.yaml", "count:", "words:")
    moved = Project(project.folder.rename(tmp_path / "moved"), project.store)
    moved.run()
    assert outs(moved) == ["make", "upper", "words"]


def test_what_another_project_left_stays(project: Project, tmp_path: Path) -> None:
    other = Project.make(tmp_path / "other", PIPELINE.replace("count:", "words:"))
    other.store = project.store
    other.run()
    assert outs(project) == ["count", "make", "upper", "words"]


def test_what_was_edited_or_put_there_stays(project: Project) -> None:
    text = project.store / "out" / "text" / "count" / "text"
    text.chmod(0o644)
    text.write_text("mine")
    (project.store / "out" / "text" / "notes").mkdir()
    project.edit("pipeline.yaml", "  count: {uses: ./stages.py:count, needs: upper}\n", "")
    project.run()
    assert outs(project) == ["count", "make", "notes", "upper"]
    assert text.read_text() == "mine"
    assert said(project) == []


def test_what_another_file_of_the_name_ran_last_stays(project: Project) -> None:
    project.write("more.yaml", f"{PIPELINE}  more: {{uses: ./stages.py:count, needs: upper}}\n")
    project.run(file="more.yaml")
    project.run(force=["make"])
    assert outs(project) == ["count", "make", "more", "upper"]
    assert said(project) == []
