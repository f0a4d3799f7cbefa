"""Variables that orun sets for stages, or keeps from them, are to code of the user's what any other variable is."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from orun.core.events import RunStarted
from orun.core.source_location import Position
from orun.pipeline.model import KindUse, Pipeline, Reference, Stage
from orun.planning.facts import LocalFacts
from orun.stages.contract import Spec
from tests.facts import named, sentences
from tests.project import Project, built
from tests.thin import mostly_slow

PIPELINE = """
name: text
stages:
  tell: {uses: ./tell.py:tell}
"""
CODE = """
import os

from orun import stage


@stage(inputs={}, output="files")
def tell(context):
    (context.output / "text").write_text(str(ASK))
"""


@pytest.fixture(autouse=True)
def none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TF_CPP_MIN_LOG_LEVEL", "PYTHONHASHSEED", "ORT_DISABLE_TELEMETRY", "ORUN_REMOTE_KEY"):
        monkeypatch.delenv(name, raising=False)


def recalled(project: Project) -> bool:
    """Whether the last run was recognised without a look at its stages."""
    return any(isinstance(event, RunStarted) and event.repeats for event in project.events)


@pytest.mark.parametrize(
    ("ask", "name", "first", "second"),
    [
        ('os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")', "TF_CPP_MIN_LOG_LEVEL", "2", "1"),
        ('os.environ.get("PYTHONHASHSEED")', "PYTHONHASHSEED", "0", "7"),
        ('os.environ["ORT_DISABLE_TELEMETRY"]', "ORT_DISABLE_TELEMETRY", "1", None),
        ('os.environ.get("ORUN_REMOTE_KEY")', "ORUN_REMOTE_KEY", "None", None),
        ('dict(os.environ.items())["TF_CPP_MIN_LOG_LEVEL"]', "TF_CPP_MIN_LOG_LEVEL", "2", "1"),
    ],
)
def test_a_stage_that_looks_one_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str, name: str, first: str, second: str | None
) -> None:
    """It was run anew each time, because the value that it had found was not the one of the process that looks."""
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("tell.py", CODE.replace("ASK", ask))
    assert built(project.run()) == ["tell"]
    assert project.text("tell") == first
    assert built(project.run()) == []
    assert recalled(project)
    monkeypatch.setenv(name, second or "any")
    assert built(project.run()) == ([] if second is None else ["tell"])
    assert project.text("tell") == (first if second is None else second)


def test_the_order_of_sets_that_a_seed_of_yours_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results under several seeds are kept apart; without one, sets iterate as with 0."""
    project = Project.make(tmp_path / "project", PIPELINE)
    project.write("tell.py", CODE.replace("ASK", '"".join({*"abcdefgh"})'))
    assert built(project.run()) == ["tell"]
    first = project.text("tell")
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert built(project.run()) == []
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    assert sentences(project.run()["tell"].reasons) == ("environment variable PYTHONHASHSEED changed",)
    assert project.text("tell") != first
    assert built(project.run()) == []
    monkeypatch.delenv("PYTHONHASHSEED")
    assert built(project.run()) == []
    assert project.text("tell") == first


@pytest.mark.parametrize(("uses", "counts"), [("file", True), ("plug-in", True), ("built-in", False)])
def test_of_orun_s_own_kinds_no_result_depends_on_a_seed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uses: Literal["file", "plug-in", "built-in"], *, counts: bool
) -> None:
    (tmp_path / "code.py").write_text("def f(): ...\n")
    references = (Reference("uses", "code.py", "f"),) if uses == "file" else ()
    stage = Stage("s", "kind", Position("p.yaml", 1, 1), references=references)
    use = KindUse(uses, "code.py:f" if references else "orun.stages.optimize.shapes", Spec(), "onnx")
    pipeline = Pipeline("p", tmp_path / "p.yaml", (stage,), 0, {}, {"kind": use})
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    assert ("environment PYTHONHASHSEED" in named(LocalFacts(pipeline).components(stage))) == counts


def set_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LC_NUMERIC", "LC_TIME", "LC_MONETARY", "LANGUAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")  # in the plain C locale Python sets LC_CTYPE


WORKER = """
import multiprocessing


def work(_):
    return ASK


def in_worker():
    with multiprocessing.get_context("METHOD").Pool(1) as pool:
        return pool.map(work, [0])[0]
"""


ASKS = [  # expression, variable, its new value, and what the expression is then
    ("os.path.expanduser('~/x')", "HOME", "/elsewhere", "/elsewhere/x"),
    ("os.path.expanduser(b'~/x').decode()", "HOME", "/elsewhere", "/elsewhere/x"),
    ("pathlib.Path.home()", "HOME", "/elsewhere", "/elsewhere"),
    ("pathlib.Path('~/x').expanduser()", "HOME", "/elsewhere", "/elsewhere/x"),
    ("locale.setlocale(locale.LC_ALL, '')", "LC_ALL", "C", "C"),
    ("locale.setlocale(locale.LC_NUMERIC, '')", "LC_NUMERIC", "C", "C"),
    ("locale.setlocale(locale.LC_TIME, '')", "LANG", "C", "C"),
    ("locale.setlocale(category=locale.LC_MONETARY, locale='')", "LC_ALL", "C", "C"),
    ("gettext.find('none', '/nowhere', all=True)", "LANGUAGE", "de", "[]"),
]
HOME_AND_LOCALE = [("", *ask) for ask in ASKS]
IN_WORKERS = [(method, *ask) for ask in ASKS for method in ("fork", "spawn", "forkserver")]
QUICK = [*HOME_AND_LOCALE, ("fork", *ASKS[0]), ("spawn", *ASKS[4]), ("forkserver", *ASKS[0])]


@pytest.mark.parametrize(
    ("method", "ask", "name", "value", "text"), mostly_slow([*HOME_AND_LOCALE, *IN_WORKERS], *QUICK)
)
def test_a_home_or_locale_that_a_stage_takes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, ask: str, name: str, value: str, text: str
) -> None:
    """Functions that look the variable up in Python or in C, in the stage or in a worker of it."""
    set_none(monkeypatch)
    project = Project.make(tmp_path / "project", PIPELINE)
    code = CODE.replace("import os", "import gettext\nimport locale\nimport os\nimport pathlib")
    if method:
        code = code.replace("@stage", f"{WORKER.replace('METHOD', method).replace('ASK', ask)}\n\n@stage")
    project.write("tell.py", code.replace("ASK", "in_worker()" if method else ask))
    assert built(project.run()) == ["tell"]
    assert built(project.run()) == []
    monkeypatch.setenv("LC_PAPER", "C")
    monkeypatch.setenv(name, value)
    assert sentences(project.run()["tell"].reasons)[0] == f"environment variable {name} changed (read by the stage)"
    assert project.text("tell") == text
    assert built(project.run()) == []


def test_a_locale_that_a_stage_sets_itself_is_no_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_none(monkeypatch)
    project = Project.make(tmp_path / "project", PIPELINE)
    code = CODE.replace("import os", "import locale\nimport os")
    project.write("tell.py", code.replace("ASK", "locale.setlocale(locale.LC_ALL, 'C.UTF-8')"))
    assert built(project.run()) == ["tell"]
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("LANG", "POSIX")
    monkeypatch.setenv("HOME", "/elsewhere")
    assert built(project.run()) == []
