"""What workers of a pool find out counts for the stage: they are processes of their own, and are killed at its end.

They are forked or started as programs, as the stage or the version of Python has it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from orun.store import Store
from tests.facts import sentences
from tests.project import Project, built

PIPELINE = """
name: text
stages:
  ask: {uses: ./ask.py:ask}
"""
METHODS = ("fork", "spawn", "forkserver", "loky")
CODE = """
import importlib
import multiprocessing
import os
from importlib.metadata import version

from orun import stage


def answer(_):
    return ANSWER


def optional(name):
    try:
        return importlib.import_module(name).WORD
    except ImportError:
        return "none"


def answers(number):
    if "METHOD" == "loky":
        from joblib import Parallel, delayed
        return Parallel(number)(delayed(answer)(one) for one in range(number))
    with multiprocessing.get_context("METHOD").Pool(number) as pool:
        return pool.map(answer, range(number))


@stage(inputs={}, output="files")
def ask(context):
    os.chdir(context.root)
    (context.output / "text").write_text(str(answers(2)[0]))
"""


def list_another(project: Project, _: pytest.MonkeyPatch) -> None:
    project.write("data/b", "")


def make_it(project: Project, _: pytest.MonkeyPatch) -> None:
    project.write("optional", "")


def write_it(project: Project, _: pytest.MonkeyPatch) -> None:
    project.write("extra.py", "WORD = 'some'")


def set_it(_: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORUN_TEST_SETTING", "2")


@pytest.mark.parametrize(
    ("answer", "change", "before", "after", "why"),
    [
        ("sorted(os.listdir('data'))", list_another, "['a']", "['a', 'b']",
         "folder data has other files now (listed by the stage)"),
        ("os.path.exists('optional')", make_it, "False", "True", "optional has appeared (looked for by the stage)"),
        ("os.environ.get('ORUN_TEST_SETTING')", set_it, "None", "2",
         "environment variable ORUN_TEST_SETTING changed (read by the stage)"),
        ("optional('extra')", write_it, "none", "some", "extra.py has appeared (read by the stage)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("native_reads")
def test_what_a_worker_finds(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    answer: str,
    change: Callable[[Project, pytest.MonkeyPatch], None],
    before: str,
    after: str,
    why: str,
) -> None:
    project = Project.make(tmp_path / "project", PIPELINE)
    (project.folder / "data").mkdir()
    project.write("data/a", "")
    project.write("ask.py", CODE.replace("ANSWER", answer).replace("METHOD", method))
    assert built(project.run()) == ["ask"]
    assert project.text("ask") == before
    assert built(project.run()) == []
    change(project, monkeypatch)
    result = project.run()
    assert sentences(result["ask"].reasons) == (why,)
    assert project.text("ask") == after
    assert built(project.run()) == []


@pytest.mark.parametrize("method", METHODS)
def test_a_version_that_a_worker_asks_for(tmp_path: Path, method: str) -> None:
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("ask.py", CODE.replace("ANSWER", "version('blake3')").replace("METHOD", method))
    assert built(project.run()) == ["ask"]
    with Store.open(project.store) as store:
        action = store.latest("text", "ask")
    assert action is not None
    assert action.implicit_deps.packages.items() >= {("blake3", version("blake3"))}
    assert (method == "loky") == ("joblib" in action.implicit_deps.packages)


@pytest.mark.parametrize("method", METHODS)
def test_packages_that_a_worker_alone_asks_for(tmp_path: Path, method: str) -> None:
    """By a name that its code does not hold, and in vain in a module that only it loads."""
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("alone.py", "import importlib\ntry:\n    import fancy_speed\nexcept ImportError:\n    pass\n"
                  "WORD = importlib.import_module('yaml'.lower()).__name__")  # fmt: skip
    project.write("ask.py", CODE.replace("ANSWER", "optional('alone')").replace("METHOD", method))
    assert built(project.run()) == ["ask"]
    assert project.text("ask") == "yaml"
    with Store.open(project.store) as store:
        action = store.latest("text", "ask")
    assert action is not None
    assert action.implicit_deps.packages.items() >= {("fancy-speed", "not installed"), ("pyyaml", version("pyyaml"))}
