"""An orun that a stage of another one starts: it must end, whatever that stage holds meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

import orun
from orun.core.serialization import replace
from orun.errors import UsageError
from orun.executors import LocalExecutor
from orun.executors.local.reentrancy import EnclosingStage, find_enclosing_stage
from orun.stages.contract import Spec
from tests import project as pipelines
from tests.executors.support import Project, log_of, result
from tests.faults.projects import write_model

SHARED, ALONE = EnclosingStage("around", "ab", alone=False), EnclosingStage("timed", "ab", alone=True)


@pytest.mark.parametrize(("exclusive", "says"), [(False, "beside ab f"), (True, "alone ab f")])
def test_a_stage_tells_what_it_starts_whose_it_is(
    executor: LocalExecutor, project: Project, *, exclusive: bool, says: str
) -> None:
    project.write("pipelines/mine.py", "import os\ndef f(context): print(os.environ['ORUN_STAGE'])\n")
    job = replace(project.job("mine.py:f", spec=Spec(output="metrics", exclusive=exclusive)), key="ab")
    result(executor, job)
    assert log_of(job) == f"{says}\n"


@pytest.mark.parametrize(
    ("variable", "enclosing"), [("beside ab around", SHARED), ("alone ab timed", ALONE), ("alone ab", None), ("", None)]
)
def test_in_which_stage_this_orun_runs(
    monkeypatch: pytest.MonkeyPatch, variable: str, enclosing: EnclosingStage | None
) -> None:
    monkeypatch.setenv("ORUN_STAGE", variable)
    assert find_enclosing_stage() == enclosing


@pytest.mark.parametrize(
    ("enclosing", "key", "exclusive", "why"),
    [
        (SHARED, "ab", False, "it is the same as around, which waits for it"),
        (SHARED, "cd", True, "take measures, and needs the machine to itself, which around shares until it ends"),
        (ALONE, "cd", False, "timed measures, and has the machine to itself until it ends"),
    ],
)
def test_what_would_wait_for_ever_is_refused(enclosing: EnclosingStage, key: str, exclusive: bool, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        enclosing.refuse_deadlock("take", key, exclusive=exclusive)
    assert str(caught.value) == (
        f"take would wait for ever: this orun runs in the stage {enclosing.stage} of another one\n  {why}\n"
        f"  hint: give {enclosing.stage} what it makes as an input, or run it outside of a stage"
    )


def test_what_shares_the_machine_is_not_refused_within_what_shares_it() -> None:
    SHARED.refuse_deadlock("take", "cd", exclusive=False)


def test_a_run_within_what_measures_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = pipelines.Project.make(tmp_path / "project")
    monkeypatch.setenv("ORUN_STAGE", "alone ab timed")
    with pytest.raises(UsageError, match=r"^make would wait for ever: "):
        project.run()


INNER = """
stages:
  take: {uses: convert/onnx, with: {path: model.onnx}}
  time: {uses: measure/latency, needs: take}
"""
OUTER = """
stages:
  take: {uses: convert/onnx, with: {path: model.onnx}}
  around: {uses: "./around.py:around"}
  timed: {uses: measure/latency, needs: take, with: {inputs: "around.py:examples"}}
"""
AROUND = """
import subprocess
import sys
from pathlib import Path

from orun import stage

HERE = Path(__file__).parent


def run(last):
    store = str(Path.cwd() / "store")  # in the working folder of the stage
    command = [sys.executable, "-m", "orun", "run", "inner.yaml", "-q", "--to", last, "--store", store]
    ran = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=300, check=False)
    return f"{ran.returncode} {ran.stderr}"


@stage(inputs={}, output="files")
def around(context):
    for last in ("take", "time"):
        (context.output / last).write_text(run(last))


def examples():
    raise ValueError(run("take"))
"""


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    for name, text in (("inner.yaml", INNER), ("outer.yaml", OUTER), ("around.py", AROUND)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    write_model(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_what_shares_the_machine_runs_within_what_shares_it_and_what_measures_is_refused(nested: Path) -> None:
    result = orun.run(nested / "outer.yaml", only=["around"], store=nested / "store")
    assert result["around"].failure is None
    out = Path(result["around"].out)
    assert (out / "take").read_text(encoding="utf-8") == "0 "
    assert (out / "time").read_text(encoding="utf-8") == (
        "2 error: time would wait for ever: this orun runs in the stage around of another one\n"
        "  time measures, and needs the machine to itself, which around shares until it ends\n"
        "  hint: give around what it makes as an input, or run it outside of a stage\n"
    )


@pytest.mark.slow
def test_nothing_runs_within_what_measures(nested: Path) -> None:
    result = orun.run(nested / "outer.yaml", to=["timed"], store=nested / "store")
    failure = result["timed"].failure
    assert failure is not None
    assert f"{failure.problem}\n{failure.why}".startswith(
        "timed raised ValueError: 2 error: take would wait for ever: this orun runs in the stage timed of another one\n"
        "  timed measures, and has the machine to itself until it ends\n"
        "  hint: give timed what it makes as an input, or run it outside of a stage\n"
    )


UP_TO_DATE = """
import subprocess
import sys

from orun import stage


@stage(inputs={}, output="metrics")
def release(context):
    command = [sys.executable, "-m", "orun", "inner.yaml", "--to", "take"]
    subprocess.run(command, cwd=context.root, check=True)
    return {"releases": 1}
"""


@pytest.mark.slow
@pytest.mark.parametrize("store", [None, "other"])
def test_a_stage_that_runs_another_pipeline_depends_on_neither_store_nor_commit(
    nested: Path, monkeypatch: pytest.MonkeyPatch, store: str | None
) -> None:
    monkeypatch.chdir(nested)
    monkeypatch.delenv("ORUN_STORE", raising=False)
    monkeypatch.delenv("ORUN_HISTORY", raising=False)
    branch = nested / ".git/refs/heads/main"
    branch.parent.mkdir(parents=True)
    branch.write_text(f"{'a' * 40}\n", encoding="utf-8")
    (nested / ".git/HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (nested / "release.py").write_text(UP_TO_DATE, encoding="utf-8")
    outer = nested / "outer.yaml"
    outer.write_text('stages: {release: {uses: "./release.py:release"}}\n', encoding="utf-8")
    assert [(stage.outcome, stage.failure) for stage in orun.run(outer, store=store).stages] == [("built", None)]
    branch.write_text(f"{'b' * 40}\n", encoding="utf-8")
    assert orun.run(outer, store=store)["release"].outcome == "cached"
    (nested / "inner.yaml").write_text(f"{INNER}# edited\n", encoding="utf-8")
    assert orun.run(outer, store=store)["release"].outcome == "built"
    assert orun.run(outer, store=store)["release"].outcome == "cached"
