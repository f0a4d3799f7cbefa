"""Origins and contents of modules, and files that are taken without being opened."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.facts import describe_reasons
from tests.project import Project, built
from tests.reruns.expression_stages import code_of, make_expression_stages, texts

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
    MOVE(context.root / "PATH", context.output / "data")
"""
STARTS = """
import subprocess
import sys
from pathlib import Path


def start(option):
    return subprocess.check_output([sys.executable, option, str(Path(__file__).with_name("tool.py"))], text=True)
"""


def make(folder: Path, code: str) -> Project:
    """A project, and a folder beside it for a library in development."""
    project = make_expression_stages(folder, {"tell": code})
    (folder / "lib").mkdir()
    return project


def test_another_part_of_a_package_without_a_file(tmp_path: Path) -> None:
    """Its modules come from all folders of its name, the first first; one with a file goes before them all."""
    project = make(tmp_path, code_of("part.WORD", f"{APPENDED}\nimport spread.part as part"))
    (tmp_path / "lib" / "spread").mkdir()
    (tmp_path / "lib" / "spread" / "part.py").write_text("WORD = 'one'")
    assert built(project.run()) == ["tell"]
    assert built(project.run()) == []
    (project.folder / "spread").mkdir()
    project.write("spread/part.py", "WORD = 'two'")
    assert describe_reasons(project.run()["tell"].reasons) == ("spread/part.py has appeared (read by the stage)",)
    assert project.text("tell") == "two"
    (tmp_path / "lib" / "spread" / "__init__.py").write_text("from spread import part\npart.WORD = 'three'")
    appeared = f"{tmp_path}/lib/spread/__init__.py has appeared (read by the stage)"
    assert describe_reasons(project.run()["tell"].reasons) == (appeared,)
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
    project = make(tmp_path, code_of("part.WORD", load))
    for word in ("one", "two"):
        (tmp_path / name).write_text(f"WORD = {word!r}")
        os.utime(tmp_path / name, (10**9, 10**9))
        assert built(project.run()) == ["tell"]
        assert project.text("tell") == word


@pytest.mark.slow
@pytest.mark.usefixtures("native_reads")
def test_byte_code_of_another_text_in_a_program(tmp_path: Path) -> None:
    """Each level of optimization has byte code of its own."""
    options = {"none": "-u", "first": "-O", "second": "-OO"}
    code = {name: code_of(f"start({option!r})", STARTS) for name, option in options.items()}
    project = make_expression_stages(tmp_path, code)
    project.write("tool.py", "import part; print(part.WORD, end='')")
    for word in ("one", "two"):
        os.utime(project.write("part.py", f"WORD = {word!r}"), (10**9, 10**9))
        assert built(project.run()) == [*code]
        assert texts(project, code) == dict.fromkeys(code, word)


def check_moves(folder: Path, calls: Iterable[str]) -> None:
    """Each way to move a file of the project, at its top and deeper: it cannot be made again from what is left."""
    ways = {f"{name}{number}": call for number, call in enumerate(calls) for name in ("top", "deep")}
    paths = {name: f"files/{name}" if name.startswith("deep") else name for name in ways}
    code = {name: MOVE.replace("MOVE", call).replace("PATH", paths[name]) for name, call in ways.items()}
    project = make_expression_stages(folder, code)
    (project.folder / "files").mkdir()
    for path in paths.values():
        project.write(path, "one")
    failures = {stage.stage: stage.failure.problem for stage in project.run(keep_going=True).stages if stage.failure}
    assert failures == {name: f"{path} was removed while {name} ran" for name, path in paths.items()}


def test_what_a_stage_moves_away_it_has_read(tmp_path: Path) -> None:
    check_moves(tmp_path, ["os.rename", "os.replace", "shutil.move"])


@pytest.mark.usefixtures("native_reads")
def test_what_a_program_moves_away_the_stage_has_read(tmp_path: Path) -> None:
    check_moves(tmp_path, ["by_a_program"])
