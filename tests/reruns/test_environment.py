"""Variables that orun sets for stages, or keeps from them, are to code of the user's what any other variable is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import pytest

from orun.core.source_location import Position
from orun.pipeline.model import KindUse, Pipeline, Reference, Stage
from orun.planning.facts import LocalFacts
from orun.stages.contract import Spec
from tests.facts import named
from tests.project import Project, built
from tests.reruns.expression_stages import code_of, make_expression_stages, texts, why


@pytest.fixture(autouse=True)
def none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TF_CPP_MIN_LOG_LEVEL", "PYTHONHASHSEED", "ORT_DISABLE_TELEMETRY", "ORUN_REMOTE_KEY"):
        monkeypatch.delenv(name, raising=False)


def make(folder: Path, asks: Mapping[str, str]) -> Project:
    return make_expression_stages(folder, {name: code_of(ask, "import os") for name, ask in asks.items()})


def test_stages_that_look_one_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were run anew each time, because the value that they had found was not that of the process that looks."""
    asks = {
        "set_by_default": 'os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")',
        "one_of_all": 'dict(os.environ.items())["TF_CPP_MIN_LOG_LEVEL"]',
        "always_the_same": 'os.environ["ORT_DISABLE_TELEMETRY"]',
        "kept_away": 'os.environ.get("ORUN_REMOTE_KEY")',
    }
    project = make(tmp_path, asks)
    first = {"set_by_default": "2", "one_of_all": "2", "always_the_same": "1", "kept_away": "None"}
    assert built(project.run()) == [*asks]
    assert texts(project, asks) == first
    assert project.run().repeats
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "any")
    monkeypatch.setenv("ORUN_REMOTE_KEY", "any")
    assert built(project.run()) == []
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
    assert built(project.run()) == ["set_by_default", "one_of_all"]
    assert texts(project, asks) == first | {"set_by_default": "1", "one_of_all": "1"}


def test_the_order_of_sets_that_a_seed_of_yours_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results under several seeds are kept apart; without one, sets iterate as with 0."""
    asks = {"order": '"".join({*"abcdefgh"})', "looks": 'os.environ.get("PYTHONHASHSEED")'}
    project = make(tmp_path, asks)
    assert built(project.run()) == [*asks]
    first = texts(project, asks)
    assert first["looks"] == "0"
    assert project.run().repeats
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert built(project.run()) == []
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    assert why(project.run()) == dict.fromkeys(asks, ("environment variable PYTHONHASHSEED changed",))
    assert project.text("order") != first["order"]
    assert project.text("looks") == "7"
    assert built(project.run()) == []
    monkeypatch.delenv("PYTHONHASHSEED")
    assert built(project.run()) == []
    assert texts(project, asks) == first


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
    assert ("environment PYTHONHASHSEED" in named(LocalFacts(pipeline).list_components(stage))) == counts


def set_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LC_NUMERIC", "LC_TIME", "LC_MONETARY", "LANGUAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")  # in the plain C locale Python sets LC_CTYPE


IMPORTS = "import gettext\nimport locale\nimport os\nimport pathlib\n"
WORKER = """
import multiprocessing


def work(_):
    return ASK


def in_worker(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.map(work, [0])[0]
"""
HOME_AND_LOCALE = {  # what a stage asks, a variable, its new value, and what the stage is told then
    "expanded": ("os.path.expanduser('~/x')", "HOME", "/elsewhere", "/elsewhere/x"),
    "expanded_bytes": ("os.path.expanduser(b'~/x').decode()", "HOME", "/elsewhere", "/elsewhere/x"),
    "home": ("pathlib.Path.home()", "HOME", "/elsewhere", "/elsewhere"),
    "expanded_path": ("pathlib.Path('~/x').expanduser()", "HOME", "/elsewhere", "/elsewhere/x"),
    "all_of_it": ("locale.setlocale(locale.LC_ALL, '')", "LC_ALL", "C", "C"),
    "figures": ("locale.setlocale(locale.LC_NUMERIC, '')", "LC_NUMERIC", "C", "C"),
    "times": ("locale.setlocale(locale.LC_TIME, '')", "LANG", "C", "C"),
    "money": ("locale.setlocale(category=locale.LC_MONETARY, locale='')", "LC_ALL", "C", "C"),
    "translations": ("gettext.find('none', '/nowhere', all=True)", "LANGUAGE", "de", "[]"),
}
IN_WORKERS = [("fork", "expanded")]
MORE_IN_WORKERS = [
    (method, name)
    for method in ("fork", "spawn", "forkserver")
    for name in ("expanded", "home", "all_of_it", "times", "translations")
]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [IN_WORKERS, MORE_IN_WORKERS])
def test_a_home_or_locale_that_a_stage_takes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: Sequence[tuple[str, str]]
) -> None:
    """Functions that look the variable up in Python or in C, in the stage or in a worker of it."""
    set_none(monkeypatch)
    cases = HOME_AND_LOCALE | {f"{name}_{method}": HOME_AND_LOCALE[name] for method, name in workers}
    stages = {name: code_of(ask, IMPORTS) for name, (ask, *_) in HOME_AND_LOCALE.items()} | {
        f"{name}_{method}": code_of(f"in_worker({method!r})", IMPORTS + WORKER.replace("ASK", HOME_AND_LOCALE[name][0]))
        for method, name in workers
    }
    project = make_expression_stages(tmp_path, stages)
    assert built(project.run()) == [*stages]
    first = texts(project, stages)
    assert built(project.run()) == []
    for variable, value in sorted({(variable, value) for _, variable, value, _ in cases.values()}):
        asking = [name for name, case in cases.items() if case[1] == variable]
        with monkeypatch.context() as patch:
            patch.setenv("LC_PAPER", "C")
            patch.setenv(variable, value)
            reasons = why(project.run())
            changed = f"environment variable {variable} changed (read by the stage)"
            assert {name: reasons[name][0] for name in asking} == dict.fromkeys(asking, changed)
            assert texts(project, asking) == {name: cases[name][3] for name in asking}
        assert built(project.run()) == []
    assert texts(project, stages) == first


def test_a_locale_that_a_stage_sets_itself_is_no_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_none(monkeypatch)
    project = make_expression_stages(tmp_path, {"tell": code_of("locale.setlocale(locale.LC_ALL, 'C.UTF-8')", IMPORTS)})
    assert built(project.run()) == ["tell"]
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("LANG", "POSIX")
    monkeypatch.setenv("HOME", "/elsewhere")
    assert built(project.run()) == []
