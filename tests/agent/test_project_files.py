"""Files of a project that travel to other machines, and their names there."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.agent.project_files import list_project_files
from orun.errors import UsageError
from tests.agent.support import make_project
from tests.git import commit, git


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The pipeline file of a project that git knows."""
    return make_project(tmp_path / "project")


def test_what_git_tracks_and_does_not_ignore_travels(file: Path) -> None:
    project = file.parent
    (project / "new.txt").touch()
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "stages.pyc").touch()
    git(project, "rm", "-q", "--cached", "stages.py")  # untracked now
    files = list_project_files(project)
    assert sorted(files.paths) == [".gitignore", "new.txt", "pipeline.yaml", "stages.py"]
    assert files.left_out == ("data/",)


def test_a_removed_file_does_not_travel(file: Path) -> None:
    (file.parent / "stages.py").unlink()
    assert sorted(list_project_files(file.parent).paths) == [".gitignore", "pipeline.yaml"]


def test_shipped_paths_travel(file: Path) -> None:
    (file.parent / "data" / "deep").mkdir()
    (file.parent / "data" / "deep" / "y.txt").touch()
    files = list_project_files(file.parent, ["data"])
    assert {"data/x.txt", "data/deep/y.txt"} < files.paths.keys()
    assert files.left_out == ()
    single = list_project_files(file.parent, ["data/x.txt"])
    assert "data/x.txt" in single.paths
    assert single.left_out == ("data/deep/",)
    assert "data/deep/y.txt" not in single.paths


def test_links_in_the_project_become_copies_and_others_stay(file: Path, tmp_path: Path) -> None:
    project = file.parent
    (project / "code").mkdir()
    (project / "code" / "a.py").write_text("a")
    (project / "file").symlink_to("code/a.py")
    (project / "folder").symlink_to("code")
    (project / "outside").symlink_to(tmp_path)
    (project / "broken").symlink_to("nowhere")
    commit(project, "links")
    files = list_project_files(project)
    assert {name: Path(path).read_text() for name, path in files.paths.items() if name.startswith(("f", "code"))} == {
        "code/a.py": "a",
        "file": "a",
        "folder/a.py": "a",
    }
    assert files.left_out == ("broken", "data/", "outside")


def test_a_repository_inside_travels_too(file: Path) -> None:
    inner = file.parent / "inner"
    inner.mkdir()
    (inner / "b.py").touch()
    git(inner, "init", "-q")
    commit(inner, "b")
    assert "inner/b.py" in list_project_files(file.parent).paths


def test_a_project_without_git_is_refused(tmp_path: Path) -> None:
    project = tmp_path / "plain"
    project.mkdir()
    with pytest.raises(UsageError) as caught:
        list_project_files(project)
    assert str(caught.value) == (
        f"git does not know the project {project}, so that orun cannot tell which files other machines need\n"
        "  fatal: not a git repository (or any of the parent directories): .git\n"
        f"  hint: git init {project}; git -C {project} add -A"
    )


def test_a_shipped_path_must_be_there(file: Path) -> None:
    with pytest.raises(UsageError) as caught:
        list_project_files(file.parent, ["dta"])
    assert str(caught.value) == (f"there is nothing at 'dta', which `ship:` names\n  hint: ls {file.parent}")


def test_names_travel_but_for_control_characters(file: Path) -> None:
    project = file.parent
    names = ["9.30\u202fAM.png", "a\u00a0b", "\u6a21\u578b\u3000.onnx", "line\u2028end"]
    for name in (*names, "bell\a"):
        (project / name).touch()
    files = list_project_files(project)
    assert set(names) < files.paths.keys()
    assert files.odd == {"bell\a": "its name has control characters, or is not Unicode"}
    assert files.left_out == ("bell\a", "data/")
