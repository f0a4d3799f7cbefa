"""Dependencies of the workers of a pool: processes of their own, which are killed at the end of the stage.

They are forked or started as programs, as the stage or the version of Python has it. Quickly, programs are tried in
`test_optional.py` and `test_environment.py`.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from orun.store import Store
from tests.project import Project, built
from tests.reruns.expression_stages import make_expression_stages, texts, why
from tests.thin import mostly_slow

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
def tell(context):
    os.chdir(context.root)
    (context.output / "text").write_text(str(answers(2 if "METHOD" == "loky" else 1)[0]))
"""


def list_another(project: Project, _: pytest.MonkeyPatch) -> None:
    project.write("data/b", "")


def make_it(project: Project, _: pytest.MonkeyPatch) -> None:
    project.write("optional", "")


def write_it(project: Project, _: pytest.MonkeyPatch) -> None:
    project.write("extra.py", "WORD = 'some'")


def set_it(_: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORUN_TEST_SETTING", "2")


CASES = {  # stage -> what a worker answers, what changes, the answer before and after it, and why the stage runs again
    "lists": (
        "sorted(os.listdir('data'))", list_another, "['a']", "['a', 'b']",
        "folder data has other files now (listed by the stage)",
    ),
    "looks": (
        "os.path.exists('optional')", make_it, "False", "True", "optional has appeared (looked for by the stage)"
    ),
    "asks": (
        "os.environ.get('ORUN_TEST_SETTING')", set_it, "None", "2",
        "environment variable ORUN_TEST_SETTING changed (read by the stage)",
    ),
    "imports": ("optional('extra')", write_it, "none", "some", "extra.py has appeared (read by the stage)"),
}  # fmt: skip
# Of packages: a version, a name that the code of the stage does not hold, and in vain in a module that only it loads.
PACKAGES = {"version": "version('blake3')", "alone": "optional('lonely')"}
ALONE = """
import importlib
try:
    import fancy_speed
except ImportError:
    pass
WORD = importlib.import_module('yaml'.lower()).__name__
"""


@pytest.mark.parametrize("method", mostly_slow(METHODS, "fork"))
@pytest.mark.usefixtures("native_reads")
def test_what_a_worker_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    answers = {name: case[0] for name, case in CASES.items()} | PACKAGES
    stages = {name: CODE.replace("ANSWER", answer).replace("METHOD", method) for name, answer in answers.items()}
    project = make_expression_stages(tmp_path, stages)
    (project.folder / "data").mkdir()
    project.write("data/a", "")
    project.write("lonely.py", ALONE)
    assert built(project.run()) == [*stages]
    assert texts(project, CASES) == {name: case[2] for name, case in CASES.items()}
    assert project.text("alone") == "yaml"
    with Store.open(project.store) as store:
        actions = {name: store.find_latest("text", name) for name in PACKAGES}
    packages = {name: action.implicit_deps.packages for name, action in actions.items() if action}
    assert packages["version"].items() >= {("blake3", version("blake3"))}
    assert (method == "loky") == ("joblib" in packages["version"])
    assert packages["alone"].items() >= {("fancy-speed", "not installed"), ("pyyaml", version("pyyaml"))}
    assert built(project.run()) == []
    for _, change, *_ in CASES.values():
        change(project, monkeypatch)
    assert why(project.run()) == {name: (case[4],) for name, case in CASES.items()}
    assert texts(project, CASES) == {name: case[3] for name, case in CASES.items()}
    assert built(project.run()) == []
