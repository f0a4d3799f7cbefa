"""Surroundings of two runs: environment variables, which can be tried if their values are known, and orun itself."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest

import orun
from orun.blame.advice import advise
from orun.blame.bisect import bisect
from orun.blame.changes import FixedDifference
from orun.core.component_kinds import ComponentKind
from orun.store import Store
from tests.blame.project import Project
from tests.diagnosis.planted import layers

NEVER = "nothing of it is told: s3cret"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose code adds what MORE says."""
    for name in ("MORE", "ORUN_GOOD_MORE", "ORUN_BAD_MORE"):
        monkeypatch.delenv(name, raising=False)
    new_project = Project(tmp_path)
    new_project.edit("helper.py", "def value(text):", "import os\n\n\ndef value(text):")
    new_project.edit("helper.py", "len(text)", "len(text) + len(os.environ.get('MORE', ''))")
    return new_project


def run_badly(file: Path, store: Path, path: Sequence[Path], *options: str) -> str:
    """Run a pipeline, whose gate fails, in a process that has modules of these folders; the name of the run."""
    process = subprocess.run(
        [sys.executable, "-m", "orun", str(file), "--store", str(store), "-q", "--no-blame", *options],
        cwd=file.parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path)), "TMPDIR": str(store.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,  # a measurement elsewhere may have the machine
    )
    assert process.returncode == 1, process.stderr
    with Store.open(store) as opened:
        return opened.list_runs()[-1].name


def test_a_variable_that_was_set(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    good = project.run()
    monkeypatch.setenv("MORE", NEVER)
    bad = project.run(**{"stages.score.with.note": "two"})
    bisection = project.bisect(good, bad)
    assert [run.exit_code for run in (good, bad)] == [0, 1]
    assert bisection.changes == ('score.note: "one" -> "two"', "environment variable MORE was added")
    assert bisection.causes == (("environment variable MORE was added",),)
    assert bisection.fixed == bisection.advice == ()
    assert os.environ["MORE"] == NEVER
    assert "s3cret" not in str(bisection)


@pytest.mark.slow
def test_a_declared_one_whose_values_are_given(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.edit("pipeline.yaml", "needs: make", "needs: make\n    env: [MORE]")
    monkeypatch.setenv("MORE", "a")
    good = project.run()
    monkeypatch.setenv("MORE", NEVER)
    bad = project.run()
    monkeypatch.setenv("ORUN_GOOD_MORE", "a")
    assert project.bisect(good, bad).causes == (("environment variable MORE was changed",),)
    monkeypatch.delenv("MORE")
    monkeypatch.setenv("ORUN_BAD_MORE", NEVER)
    assert project.bisect(good, bad).sentence == (
        "score score max 10 fails because of environment variable MORE was changed"
    )
    assert "MORE" not in os.environ


def test_values_that_nobody_knows_any_more(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MORE", "a")
    good = project.run()
    monkeypatch.setenv("MORE", NEVER)
    bad = project.run()
    monkeypatch.delenv("MORE")
    monkeypatch.setenv("ORUN_BAD_MORE", "b")
    bisection = project.bisect(good, bad)
    message = (
        "environment variable MORE of score was changed "
        "(only its digest is stored: set ORUN_GOOD_MORE; ORUN_BAD_MORE is not the value of that run)"
    )
    assert bisection.fixed == (message,)
    assert bisection.sentence == (
        "score score max 10 fails, and the runs have no differences that can be tried here (built here, it is good); "
        f"other differences: {message}"
    )
    assert bisection.advice == (
        f"variables: ORUN_GOOD_MORE=... ORUN_BAD_MORE=... orun bisect {good.run} {bad.run} --store {project.store}",
    )


@pytest.mark.slow
def test_a_variable_that_only_one_run_looked_at(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER", NEVER)
    good = project.run()
    project.edit("helper.py", "'MORE'", "'OTHER'")
    bad = project.run()
    bisection = project.bisect(good, bad)
    assert bisection.causes == (("helper.py was changed",),)
    assert bisection.fixed == ("environment variable OTHER of score was changed (only one of the runs read it)",)


@pytest.mark.slow
def test_the_code_of_orun_itself(tmp_path: Path) -> None:
    """A good run by this orun, and a bad one by another of the same version that counts nodes wrongly."""
    onnx.save(layers(), tmp_path / "layers.onnx")
    file, store = tmp_path / "weigh.yaml", tmp_path / "store"
    file.write_text(
        "stages:\n  import: {uses: convert/onnx, with: {path: layers.onnx}}\n"
        "  size: {uses: measure/size, needs: import, gate: {nodes: {max: 1000}}}\n"
    )
    good = orun.run(file, store=store)
    package = shutil.copytree(
        Path(orun.__file__).parent, tmp_path / "other" / "orun", ignore=shutil.ignore_patterns("__pycache__")
    )
    size = package / "stages" / "measure" / "size.py"
    size.write_text(
        size.read_text().replace("sum(1 for _ in iter_nodes(model))", "sum(1000 for _ in iter_nodes(model))")
    )
    bad = run_badly(file, store, [package.parent])
    with Store.open(store) as opened:
        bisection = bisect(opened, good.run, bad)
    version = orun.__version__
    message = f"the code behind size: different code of the same version orun {version}"
    assert bisection.fixed == (message,)
    assert bisection.sentence == (
        "size nodes max 1000 fails, and the runs have no differences that can be tried here (built here, it is good); "
        f"other differences: {message}"
    )
    (advised,) = bisection.advice
    assert advised == (
        f"orun itself: `orun bisect {good.run} {bad} --store {store}` with the code of {good.run} (orun {version}); "
        "if the bad run is good there, orun's code is the cause"
    )


@pytest.mark.slow
def test_another_python_is_named_and_no_other_change_is_blamed_for_it(project: Project) -> None:
    """A bad run by a Python that says another version, where the code does something else; a note was changed too."""
    project.edit("helper.py", "import os", "import os\nimport platform")
    project.edit("helper.py", "return len(text)", "return 100 if platform.python_version() == '3.99.1' else len(text)")
    good = project.run()
    other = project.folder.parent / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import platform\n\nplatform.python_version = lambda: '3.99.1'\n")
    path = [other, Path(orun.__file__).parents[1]]
    bad = run_badly(project.folder / "pipeline.yaml", project.store, path, "--set", "stages.score.with.note=two")
    with Store.open(project.store) as opened:
        bisection = bisect(opened, good.run, bad)
    version = platform.python_version()
    assert bisection.changes == ('score.note: "one" -> "two"',)
    assert bisection.causes == ()
    assert bisection.sentence.startswith(
        "score score max 10 fails, but not with the bad run's parameters and code on this machine today; "
        f"other differences: Python of make: {version} -> 3.99.1; "
    )
    assert f"Python: `orun bisect {good.run} {bad} --store {project.store}` with Python {version}" in bisection.advice


def test_what_to_type_for_python_and_the_machine() -> None:
    python = [
        FixedDifference("make", ComponentKind.PYTHON, old="3.11.7", new="3.12.1"),
        FixedDifference("size", ComponentKind.DEVICE, "python", old="3.11", new="3.12"),
    ]
    assert str(python[0]) == "Python of make: 3.11.7 -> 3.12.1"
    assert list(advise(python, (), "a", "b")) == ["Python: `orun bisect a b` with Python 3.11.7"]
    folders = FixedDifference("make", ComponentKind.MODULE_FOLDERS, new="/lib")
    assert str(folders) == "PYTHONPATH of make: none -> /lib"
    assert list(advise([folders], (), "a", "b")) == ["modules: PYTHONPATH= orun bisect a b"]
    machine = FixedDifference("size", ComponentKind.DEVICE, "cpu", old="Xeon", new="EPYC")
    assert list(advise([machine], (), "a", "b")) == ["the machine: `orun bisect a b` on the machine of b"]
    versions = FixedDifference("size", ComponentKind.STAGE_CODE, old="orun 1.0", new="orun 1.1")
    assert str(versions) == "the code behind size: orun 1.0 -> orun 1.1"
