"""Where modules come from and what they are made of, and files that are taken without being opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.facts import sentences
from tests.project import Project, built

PIPELINE = """
name: text
stages:
  tell: {uses: ./tell.py:tell}
"""
TELL = """
from orun import stage


@stage(inputs={}, output="files")
def tell(context):
    (context.output / "text").write_text(part.WORD)
"""
APPENDED = """
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "lib"))
"""
BY_PATH = """
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

spec = spec_from_file_location("part", Path(__file__).parents[1] / "PART")
part = module_from_spec(spec)
spec.loader.exec_module(part)
"""
MOVE = """
import os
import shutil
import subprocess

from orun import stage


def by_a_program(source, target):
    subprocess.run(["mv", source, target], check=True)


@stage(inputs={}, output="files")
def tell(context):
    MOVE(context.root / "data", context.output / "data")
"""


STARTED = """
import subprocess
import sys
from pathlib import Path

from orun import stage


@stage(inputs={}, output="files")
def tell(context):
    command = [sys.executable, str(Path(__file__).with_name("tool.py"))]
    (context.output / "text").write_text(subprocess.check_output(command, text=True))
"""


def make(folder: Path, code: str) -> Project:
    """A project, and a folder beside it for a library in development."""
    project = Project.make(folder / "project", PIPELINE)
    project.write("tell.py", code)
    (folder / "lib").mkdir()
    return project


def test_another_part_of_a_package_without_a_file(tmp_path: Path) -> None:
    """Its modules come from all folders of its name, the first first; one with a file goes before them all."""
    project = make(tmp_path, f"{APPENDED}\nimport spread.part as part\n{TELL}")
    (tmp_path / "lib" / "spread").mkdir()
    (tmp_path / "lib" / "spread" / "part.py").write_text("WORD = 'one'")
    assert built(project.run()) == ["tell"]
    assert built(project.run()) == []
    (project.folder / "spread").mkdir()
    project.write("spread/part.py", "WORD = 'two'")
    assert sentences(project.run()["tell"].reasons) == ("spread/part.py has appeared (read by the stage)",)
    assert project.text("tell") == "two"
    (tmp_path / "lib" / "spread" / "__init__.py").write_text("from spread import part\npart.WORD = 'three'")
    appeared = f"{tmp_path}/lib/spread/__init__.py has appeared (read by the stage)"
    assert sentences(project.run()["tell"].reasons) == (appeared,)
    assert project.text("tell") == "three"


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("project/part.py", BY_PATH.replace("PART", "project/part.py")),
        ("lib/part.py", BY_PATH.replace("PART", "lib/part.py")),
        ("lib/part.py", f"{APPENDED}\nimport part\n"),
    ],
    ids=["own, by its path", "elsewhere, by its path", "elsewhere"],
)
def test_byte_code_of_another_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, load: str) -> None:
    """Of one size and one time with its source, as where a release sets the times of its files."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    project = make(tmp_path, f"{load}\n{TELL}")
    for word in ("one", "two"):
        (tmp_path / name).write_text(f"WORD = {word!r}")
        os.utime(tmp_path / name, (10**9, 10**9))
        assert built(project.run()) == ["tell"]
        assert project.text("tell") == word


@pytest.mark.parametrize("option", ["-u", "-O", "-OO"])
@pytest.mark.usefixtures("native_reads")
def test_byte_code_of_another_text_in_a_program(tmp_path: Path, option: str) -> None:
    """Each level of optimisation has byte code of its own."""
    project = make(tmp_path, STARTED.replace("[sys.executable, ", f"[sys.executable, {option!r}, "))
    project.write("tool.py", "import part; print(part.WORD, end='')")
    for word in ("one", "two"):
        os.utime(project.write("part.py", f"WORD = {word!r}"), (10**9, 10**9))
        assert built(project.run()) == ["tell"]
        assert project.text("tell") == word


@pytest.mark.parametrize("move", ["os.rename", "os.replace", "shutil.move", "by_a_program"])
@pytest.mark.parametrize("name", ["data", "data/deep"])
def test_what_a_stage_moves_away_it_has_read(
    request: pytest.FixtureRequest, tmp_path: Path, move: str, name: str
) -> None:
    if move == "by_a_program":
        request.getfixturevalue("native_reads")
    """It cannot be made again from what is left."""
    project = make(tmp_path, MOVE.replace("MOVE", move))
    (project.folder / name).parent.mkdir(exist_ok=True)
    project.write(name, "one")
    failure = project.run()["tell"].failure
    assert failure is not None
    assert failure.what == f"{name} was removed while tell ran"
