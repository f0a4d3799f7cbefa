"""Locations of files: reads from beside them, links on the way to them, and a store among them."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from orun.core.events import Notice
from tests.facts import describe_reasons
from tests.project import Project, built
from tests.reruns.expression_stages import code_of, make_expression_stages, texts, why

COPIES = """
name: text
stages:
  one: {uses: ./v1/export.py:export}
  two: {uses: ./v2/export.py:export}
"""
EXPORT = """
from pathlib import Path

from orun import stage
import beside


@stage(inputs={}, output="files")
def export(context):
    (context.output / "text").write_text(beside.MARK + (Path(__file__).parent / "data.txt").read_text())
"""
BESIDE = """
from pathlib import Path

from orun import stage


@stage(inputs={}, output="files")
def export(context):
    (context.output / "text").write_text(f"{__name__} {Path(__file__).with_suffix('.txt').read_text()}")
"""
FOLDER = """
name: text
stages:
  names: {uses: ./folder.py:names, with: {folder: data}}
"""
NAMES = """
from orun import FilePath, stage


@stage(inputs={}, output="files")
def names(context, *, folder: FilePath):
    (context.output / "text").write_text(folder)
"""


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no folder of the machine to write to")  # noqa: S108
def test_a_project_below_a_folder_of_the_machine() -> None:
    """As /usr/src/app in an image: each stage, which names its code there, had found its own output."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        project = Project.make(Path(folder, "project"))
        project.store = project.folder / "artifacts"
        assert built(project.run()) == ["make", "upper", "count"]
        assert [event for event in project.events if isinstance(event, Notice)] == []
        assert built(project.run()) == []
        project.edit("helper.py", "deep.split(text)", "list(deep.split(text))")
        assert built(project.run()) == ["make", "upper", "count"]


@pytest.fixture
def folder(tmp_path: Path) -> Project:
    """A project with a stage that has a folder as a path and reads nothing of it."""
    project = Project.make(tmp_path / "project", FOLDER)
    project.write("folder.py", NAMES)
    (project.folder / "data").mkdir()
    project.write("data/a.bin", "a")
    return project


def write_copies(project: Project, mark: str = "", data: str = "same", export: str = EXPORT) -> None:
    """Write the same code in two folders; VERSION stands for the name of each in what lies beside it."""
    for version in ("v1", "v2"):
        (project.folder / version).mkdir()
        project.write(f"{version}/export.py", export)
        project.write(f"{version}/beside.py", f"MARK = {mark.replace('VERSION', version)!r}")
        project.write(f"{version}/data.txt", data.replace("VERSION", version))


def test_copies_of_code_read_what_is_beside_them(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", COPIES)
    write_copies(project, mark="VERSION ", data="VERSION")
    assert built(project.run()) == ["one", "two"]
    assert (project.text("one"), project.text("two")) == ("v1 v1", "v2 v2")
    project.folder.rename(tmp_path / "moved")
    assert built(Project(tmp_path / "moved", project.store).run()) == []


def test_code_that_moves_to_another_folder(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", COPIES)
    write_copies(project)
    project.run()
    project.edit("pipeline.yaml", "one: {uses: ./v1", "one: {uses: ./v2")
    assert describe_reasons(project.run()["one"].reasons) == ("up to date (the same as two)",)
    (project.folder / "v2").rename(project.folder / "v3")
    project.edit("pipeline.yaml", "v2", "v3")
    assert describe_reasons(project.run()["one"].reasons) == ("uses: v2/export.py:export -> v3/export.py:export",)


def test_copies_of_code_read_what_is_named_after_them(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", COPIES.replace("v1/export", "one").replace("v2/export", "two"))
    for name in ("one", "two"):
        project.write(f"{name}.py", BESIDE)
        project.write(f"{name}.txt", name)
    assert built(project.run()) == ["one", "two"]
    assert (project.text("one"), project.text("two")) == ("one one", "two two")


@pytest.mark.slow
def test_a_folder_that_is_linked_into_an_input(folder: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    path = tmp_path / "elsewhere" / "deep" / "b.bin"
    path.write_text("b")
    (folder.folder / "data" / "more").symlink_to(tmp_path / "elsewhere")
    assert built(folder.run()) == ["names"]
    assert folder.run().repeats
    path.write_text("c")
    assert built(folder.run()) == ["names"]
    assert folder.run().repeats
    path.with_name("c.bin").write_text("c")
    assert built(folder.run()) == ["names"]


def test_a_link_that_leads_nowhere_hides_nothing_of_an_input(folder: Project) -> None:
    (folder.folder / "data" / ".#a.bin").symlink_to("somebody@host.1234")  # as an editor locks a file
    assert built(folder.run()) == ["names"]
    folder.write("data/a.bin", "b")
    assert built(folder.run()) == ["names"]
    (folder.folder / "data" / ".#a.bin").unlink()
    assert built(folder.run()) == ["names"]
    assert built(folder.run()) == []


def test_an_input_that_holds_the_store(folder: Project) -> None:
    folder.store = folder.folder / "data" / "artifacts"
    assert built(folder.run()) == ["names"]
    assert built(folder.run()) == []
    assert folder.run().repeats
    folder.write("data/a.bin", "b")
    assert built(folder.run()) == ["names"]


@pytest.mark.slow
def test_a_project_behind_a_link_that_comes_to_lead_elsewhere(tmp_path: Path) -> None:
    current = tmp_path / "current"
    for release in ("1", "2"):
        project = Project.make(tmp_path / release, COPIES)
        write_copies(project, data=release, export=EXPORT.replace("Path(__file__)", "Path(__file__).resolve()"))
    for release in ("1", "2", "1"):
        current.unlink(missing_ok=True)
        current.symlink_to(tmp_path / release)
        project = Project(current, tmp_path / "store")
        project.run()
        assert project.text("two") == release
    assert built(project.run()) == []


def test_an_input_that_never_comes_to_rest(folder: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    log, scan = folder.folder / "data" / "training.log", os.scandir

    def write_and_scan(path: str) -> object:
        if path == str(log.parent):
            with log.open("a") as file:
                file.write("one more line\n")
        return scan(path)

    monkeypatch.setattr(os, "scandir", write_and_scan)
    result = folder.run()
    assert result.exit_code == 3
    failure = result["names"].failure
    assert failure is not None
    assert (failure.error, failure.problem, failure.why, failure.hint) == (
        "InputChanged",
        "what names depends on changes all the time",
        "it changed at each look: data",
        "Wait for what writes to it, or name a folder that holds only what the stage needs",
    )


# Of a link that comes to lead elsewhere, or in whose place a file comes: the question, and the answer before and after.
ASKS = {
    "size": ("os.path.getsize(context.root / 'latest')", "5", "6"),
    "target": ("os.readlink(context.root / 'latest')", "v1", "v2"),
    "resolved": ("(context.root / 'latest').resolve().name", "v1", "v2"),
    "is_link": ("os.path.islink(context.root / 'replaced')", "True", "False"),
    "is_link_by_path": ("(context.root / 'replaced').is_symlink()", "True", "False"),
}


@pytest.mark.slow
def test_what_is_asked_of_a_file_that_is_not_opened(tmp_path: Path) -> None:
    project = make_expression_stages(tmp_path, {name: code_of(ask, "import os") for name, (ask, *_) in ASKS.items()})
    for name, text in (("v1", "12345"), ("v2", "123456")):
        project.write(name, text)
    latest, replaced = (project.folder / name for name in ("latest", "replaced"))
    for link in (latest, replaced):
        link.symlink_to("v1")
    assert built(project.run()) == [*ASKS]
    assert texts(project, ASKS) == {name: before for name, (_, before, _) in ASKS.items()}
    assert project.run().repeats
    latest.unlink()
    latest.symlink_to("v2")
    changed = "latest changed (looked for by the stage)"
    assert why(project.run()) == dict.fromkeys(("size", "target", "resolved"), (changed,))
    replaced.unlink()
    replaced.write_text("12345")
    changed = "replaced changed (looked for by the stage)"
    assert why(project.run()) == dict.fromkeys(("is_link", "is_link_by_path"), (changed,))
    assert texts(project, ASKS) == {name: after for name, (_, _, after) in ASKS.items()}


def test_a_link_to_nothing_where_there_was_none(tmp_path: Path) -> None:
    """Whoever follows it finds nothing, as before."""
    path = "(context.root / 'latest')"
    project = make_expression_stages(
        tmp_path, {"tell": code_of(f"os.readlink({path}) if {path}.is_symlink() else 'none'", "import os")}
    )
    assert built(project.run()) == ["tell"]
    (project.folder / "latest").symlink_to("nowhere")
    assert why(project.run()) == {"tell": ("latest has appeared (looked for by the stage)",)}
    assert project.text("tell") == "nowhere"


def test_a_folder_that_becomes_a_file_of_its_name(tmp_path: Path) -> None:
    ask = "[entry.name for entry in os.scandir(context.root / 'data') if entry.is_dir()]"
    project = make_expression_stages(tmp_path, {"tell": code_of(ask, "import os")})
    (project.folder / "data" / "deep").mkdir(parents=True)
    assert built(project.run()) == ["tell"]
    assert project.text("tell") == "['deep']"
    (project.folder / "data" / "deep").rmdir()
    project.write("data/deep", "")
    assert built(project.run()) == ["tell"]
    assert project.text("tell") == "[]"
