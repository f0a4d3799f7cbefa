"""Reads outside of the project, and modules that did not travel."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest

from orun.agent.portability import require_portable, strip_folder, to_failure
from orun.agent.project_folders import Place
from orun.core.run_record import Failure
from orun.core.source_location import Position
from orun.errors import NotPortable, StageFailed
from orun.executors import JobResult
from orun.pipeline.model import Stage

SEEN = (1, 2, 3, 4, 5)


def test_files_of_installed_packages_are_everywhere(tmp_path: Path) -> None:
    """Their versions are in the facts of the machine."""
    place = SimpleNamespace(folder=tmp_path, root=tmp_path, left_out=())
    project: Any = SimpleNamespace(place=place, planner=SimpleNamespace(pipeline=SimpleNamespace(root=tmp_path)))
    stage = Stage("s", "kind", Position("p.yaml", 1, 1))
    require_portable(stage, JobResult(reads={str(Path(onnx.__file__)): SEEN}), project, "bench")
    with pytest.raises(NotPortable, match="s reads /etc/hosts, outside of the project"):
        require_portable(stage, JobResult(reads={"/etc/hosts": SEEN}), project, "bench")


@pytest.mark.parametrize(
    ("module", "entry"),
    [
        ("helper", "helper.py"),
        ("helper", "src/helper/"),
        ("helper", "helper/deep/names.py"),
        ("helper.names", "helper/names.py"),
        ("helper", "helper.cpython-311-x86_64-linux-gnu.so"),
    ],
)
def test_a_module_that_did_not_travel_is_listed(tmp_path: Path, module: str, entry: str) -> None:
    """Its name may be that of a package of strangers."""
    failure = to_failure(_error(module), "bench", Place(tmp_path, tmp_path, (entry,), {}))
    assert failure.why == (f"git ignores {entry}: a machine gets what git tracks, and files that git does not ignore")
    assert failure.hint == f"List it in the pipeline file: ship: [{entry.rstrip('/')}]\nRun it alone: orun p.yaml"


@pytest.mark.parametrize("entry", ["my_helper.py", "helper_files/", "helper/data.bin", "helper.pyc"])
def test_a_module_that_is_none_of_the_project_is_to_be_installed(tmp_path: Path, entry: str) -> None:
    failure = to_failure(_error("helper"), "bench", Place(tmp_path, tmp_path, (entry,), {}))
    assert (failure.why, failure.hint) == ("", "on bench: pip install helper\nRun it alone: orun p.yaml")


def _error(module: str) -> StageFailed:
    advice = f"pip install {module}"
    problem = f"s raised ModuleNotFoundError: No module named '{module}'"
    return StageFailed("s", problem, hint="Run it alone: orun p.yaml", advice=advice, of_machine=True, module=module)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("data/", "row 3 of PROJECT/data/train.csv"),
        ("data/", "no files in 'PROJECT/data'"),
        ("data/train.csv", "no such file: (PROJECT/data/train.csv)."),
        ("notes", "PROJECT/notes:12: no number"),
        ("my data.csv", 'path="PROJECT/my data.csv"'),
        ("notes", "\x1b[1mPROJECT/notes\x1b[0m is missing"),
    ],
)
def test_a_file_that_did_not_travel_is_named(tmp_path: Path, entry: str, text: str) -> None:
    failure = _failure_with(text, entry, tmp_path)
    assert failure.why == (
        f"{text.replace('PROJECT/', '')}\n"
        f"git ignores {entry}: a machine gets what git tracks, and files that git does not ignore"
    )
    assert failure.hint == f"List it in the pipeline file: ship: [{entry.rstrip('/')}]"


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("data/", "row 3 of PROJECT/data_train.csv"),
        ("notes", "row 3 of PROJECT/notesheet.md"),
        ("notes", "row 3 of PROJECT/notes.md"),
        ("data/", "row 3 of PROJECT/old/data/train.csv"),
        ("data/", "row 3 of PROJECT_2/data/train.csv"),
    ],
)
def test_a_file_that_did_travel_is_none_that_git_ignores(tmp_path: Path, entry: str, text: str) -> None:
    """Its name begins or ends like that of another file, which did not."""
    failure = _failure_with(text, entry, tmp_path)
    assert (failure.why, failure.hint) == (text.replace("PROJECT/", "").replace("PROJECT", str(tmp_path)), "")


@pytest.mark.parametrize(
    ("entry", "name"), [("data/", "data/x.bin"), ("data/x.bin", "data/x.bin"), ("src/data/", "src/data/x.bin")]
)
def test_a_file_that_did_not_travel_and_was_not_found_is_told(tmp_path: Path, entry: str, name: str) -> None:
    """Where its name is relative, it is so to the stage's working folder, and no text has a path of the project."""
    problem = f"s raised FileNotFoundError: [Errno 2] No such file or directory: '{name}'"
    missing = [str(tmp_path / "other" / name), str(tmp_path / name)]
    error = StageFailed("s", problem, why="at own.py:3 in s", hint="Run it alone: orun p.yaml", missing=missing)
    failure = to_failure(error, "bench", Place(tmp_path, tmp_path, (entry,), {}))
    assert failure == Failure(
        "StageFailed",
        problem,
        f"at own.py:3 in s\ngit ignores {entry}: a machine gets what git tracks, and files that git does not ignore",
        f"List it in the pipeline file: ship: [{entry.rstrip('/')}]\nRun it alone: orun p.yaml",
        advice=f"List it in the pipeline file: ship: [{entry.rstrip('/')}]",
    )


def test_another_file_that_was_not_found_is_none_that_did_not_travel(tmp_path: Path) -> None:
    missing = [str(tmp_path / "data.bin"), "/srv/data/x.bin"]
    error = StageFailed("s", "s raised FileNotFoundError: 'data.bin'", missing=missing)
    failure = to_failure(error, "bench", Place(tmp_path, tmp_path, ("data/", "x.bin"), {}))
    assert (failure.why, failure.hint) == ("", "")


def _failure_with(text: str, entry: str, folder: Path) -> Failure:
    error = StageFailed("s", "s cannot read its data", why=text.replace("PROJECT", str(folder)))
    return to_failure(error, "bench", Place(folder, folder, (entry,), {}))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/srv/proj/x", "x"),
        ("at '/srv/proj/x' and\n/srv/proj/y", "at 'x' and\ny"),
        ("PYTHONPATH=/srv/proj/lib", "PYTHONPATH=lib"),
        ("see https://host/srv/proj/x", "see https://host/srv/proj/x"),
        ("/mnt/srv/proj/x /srv/proj_2/x", "/mnt/srv/proj/x /srv/proj_2/x"),
    ],
)
def test_paths_of_the_project_are_relative_to_it(text: str, shown: str) -> None:
    assert strip_folder(text, Path("/srv/proj")) == shown
