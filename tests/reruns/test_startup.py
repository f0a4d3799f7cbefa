"""Code that Python runs at its start: in folders of `PYTHONPATH`, and among the installed packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.projects import write_model
from tests.project import Project, built
from tests.site_packages import CHECKOUT, reasons

PIPELINE = """
name: text
stages:
  tell: {uses: ./tell.py:tell}
"""
TAKE = "  take: {uses: convert/onnx, with: {path: model.onnx}}\n"
CODE = """
import builtins

from orun import stage


@stage(inputs={}, output="files")
def tell(context):
    (context.output / "text").write_text(getattr(builtins, "ORUN_TEST", "none"))
"""
PATCH = "import builtins\nimport patch_of_test\nbuiltins.ORUN_TEST = patch_of_test.VALUE\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("tell.py", CODE)
    (project.folder / "hooks").mkdir()
    project.write("hooks/patch_of_test.py", "VALUE = 'one'")
    project.write("hooks/other.py", "")
    path = os.pathsep.join([str(project.folder / "hooks"), str(Path(__file__).parents[2])])
    monkeypatch.setenv("PYTHONPATH", path)
    return project


def test_it_counts_for_every_stage(project: Project) -> None:
    """A result of before a patch was up to date after it, in stages of every kind."""
    write_model(project.folder)
    project.write("pipeline.yaml", PIPELINE + TAKE)
    assert built(project.run()) == ["tell", "take"]
    assert project.text("tell") == "none"
    assert project.run().repeats
    project.write("hooks/sitecustomize.py", PATCH)
    assert built(project.run()) == ["tell", "take"]
    assert project.text("tell") == "one"
    assert project.run().repeats
    project.write("hooks/patch_of_test.py", "VALUE = 'three'")
    assert built(project.run()) == ["tell", "take"]
    assert project.text("tell") == "three"
    (project.folder / "hooks" / "sitecustomize.py").unlink()
    assert built(project.run()) == []
    assert project.text("tell") == "none"


@pytest.mark.slow
def test_without_the_path_to_it_it_does_not(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "hooks" / "other.py").unlink()
    (project.folder / "hooks" / "patch_of_test.py").unlink()
    project.write("hooks/sitecustomize.py", "import builtins; builtins.ORUN_TEST = 'one'")  # and nothing beside it
    assert built(project.run()) == ["tell"]
    assert project.text("tell") == "one"
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    assert built(project.run()) == ["tell"]
    assert project.text("tell") == "none"


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the packages of the one that runs the tests.

    Attributes:
        folder: its top.
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Environment:
        """An environment in which the user's own packages count, too."""
        venv.EnvBuilder(symlinks=True, system_site_packages=True).create(folder)
        environment = cls(folder)
        below = [path for path in sys.path if path.endswith("site-packages")]
        environment.write("packages.pth", "\n".join([*below, str(CHECKOUT)]))
        environment.user.mkdir(parents=True)
        return environment

    @property
    def site(self) -> Path:
        """Where its packages are."""
        (path,) = self.folder.glob("lib/python3*/site-packages")
        return path

    @property
    def user(self) -> Path:
        """Where the user's own are."""
        return self.folder / "user" / "lib" / self.site.parent.name / "site-packages"

    def write(self, name: str, text: str) -> None:
        """Write a file among its packages."""
        (self.site / name).write_text(text)

    def run(self, project: Project, **variables: str) -> dict[str, Any]:
        """Run a pipeline in it: each stage by its name."""
        known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        process = subprocess.run(
            [self.folder / "bin" / "python", "-m", "orun", "pipeline.yaml", "--json", "--store", str(project.store)],
            cwd=project.folder,
            env={**known, "PYTHONUSERBASE": str(self.folder / "user"), **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return {stage["stage"]: stage for stage in json.loads(process.stdout)["stages"]}


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment.make(tmp_path / "venv")


def check(project: Project, environment: Environment, files: Mapping[Path, Sequence[str]], **variables: str) -> None:
    """Write code that runs at the start, for each value, and remove all of it: each time the stage runs again.

    The values of a file are of different lengths: Python trusts byte code of the same second and size.
    """
    assert list(reasons(environment.run(project, **variables))) == ["tell"]
    for file, values in files.items():
        for value in values:
            file.write_text(f"import builtins; builtins.ORUN_TEST = {value!r}\n")
            why = reasons(environment.run(project, **variables))
            assert why.keys() == {"tell"}
            assert all(reason.startswith("startup code: ") for (reason,) in why.values())
            assert project.text("tell") == value
    assert reasons(environment.run(project, **variables)) == {}
    for file in files:
        file.unlink()
    assert reasons(environment.run(project, **variables)) == {}
    assert project.text("tell") == "none"


@pytest.mark.slow
def test_what_is_installed_beside_the_packages_and_by_the_user(project: Project, environment: Environment) -> None:
    files = {environment.site / "team.pth": ("one", "three"), environment.user / "usercustomize.py": ("eleven",)}
    check(project, environment, files)


@pytest.mark.slow  # by the same way as those above
def test_the_other_names_of_such_code(project: Project, environment: Environment) -> None:
    """In the order in which Python runs them: the last is the one that counts."""
    files = {
        environment.user / "team.pth": ("one",),
        environment.site / "sitecustomize.py": ("seven",),
        environment.site / "usercustomize.py": ("eleven",),
    }
    check(project, environment, files)


@pytest.mark.slow  # one of the project is tried above, by runs in this process
def test_a_folder_elsewhere_on_pythonpath(project: Project, environment: Environment, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "other.py").touch()
    files = {folder / "sitecustomize.py": ("one",), folder / "usercustomize.py": ("three",)}
    check(project, environment, files, PYTHONPATH=str(folder))


@pytest.mark.slow
def test_a_folder_that_a_path_file_adds(project: Project, environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    environment.write("more.pth", str(tmp_path / "elsewhere"))
    check(project, environment, {tmp_path / "elsewhere" / "sitecustomize.py": ("one",)})


PATH_FILES = {  # as installers write them: what comes from there counts where it is imported
    "other.pth": "/nowhere\n# a comment\n",
    "__editable__.other-1.0.pth": "import __editable___other_finder; __editable___other_finder.install()\n",
    "_other.pth": "import _editable_impl_other\n",
    "other-nspkg.pth": "import sys, types, os; os.path\n",
}


@pytest.mark.slow
def test_what_such_code_imports(project: Project, environment: Environment) -> None:
    """A distribution counts by its version, any other module by its content; what only finds packages does not."""
    environment.write("__editable___other_finder.py", "def install(): pass\n")
    environment.write("_editable_impl_other.py", "")
    environment.write("patching.py", "import builtins\nimport values_of_it\nbuiltins.ORUN_TEST = values_of_it.VALUE\n")
    (environment.site / "patching-1.0.dist-info").mkdir()
    environment.write("values_of_it.py", "VALUE = 'one'")
    environment.write("team.pth", "import patching\n")
    assert list(reasons(environment.run(project))) == ["tell"]
    assert project.text("tell") == "one"
    for name, text in PATH_FILES.items():
        environment.write(name, text)
    assert reasons(environment.run(project)) == {}
    environment.write("values_of_it.py", "VALUE = 'three'")
    changed = [f"{environment.site}/values_of_it.py changed (read by the stage)"]
    assert reasons(environment.run(project)) == {"tell": changed}
    assert project.text("tell") == "three"
    (environment.site / "patching-1.0.dist-info").rename(environment.site / "patching-2.0.dist-info")
    upgraded = ["package patching: 1.0 -> 2.0 (imported by the stage)"]
    assert reasons(environment.run(project)) == {"tell": upgraded}
