"""Results in a notebook: the report in a frame, a file of HTML, lines of progress."""

from __future__ import annotations

import html
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

import orun
from orun.core.reason import build_reason
from orun.core.reason_codes import ReasonCode
from orun.errors import UsageError
from orun.report.html.page import render_page
from orun.report.trend import read_past

CODE = """
from orun import Context, stage

@stage(inputs={}, output="files", metrics=["letters"])
def write(context: Context) -> dict[str, int]:
    (context.output / "text").write_text("text")
    return {"letters": 4}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline of one stage in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("code.py").write_text(CODE, encoding="utf-8")
    Path("p.yaml").write_text("stages: {write: {uses: ./code.py:write}}\n", encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("project")
def test_a_result_is_the_report() -> None:
    result = orun.run("p.yaml")
    text = render_page(result, *read_past(result))
    assert result.report("report.html") == Path("report.html")
    assert Path("report.html").read_text(encoding="utf-8") == text
    assert result._repr_html_() == (
        f'<iframe title="p" sandbox srcdoc="{html.escape(text)}" style="width: 100%; height: 44em; border: 0"></iframe>'
    )


@pytest.mark.usefixtures("project")
def test_a_report_replaces_nothing_that_the_run_has_read() -> None:
    result = orun.run("p.yaml")
    with pytest.raises(UsageError) as caught:
        result.report("code.py")
    assert (caught.value.problem, caught.value.why) == ("code.py cannot be written", "a run reads it")
    assert Path("code.py").read_text(encoding="utf-8") == CODE


@pytest.mark.usefixtures("project")
def test_progress_is_shown_in_a_notebook_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    orun.run("p.yaml")
    assert capsys.readouterr().out == ""
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    orun.run("p.yaml", force=["write"])
    running, built = capsys.readouterr().out.splitlines()
    assert running.startswith("write  running: forced")
    assert built.startswith("write  built in ")


@pytest.mark.usefixtures("project")
def test_a_plan_is_a_table() -> None:
    plan = orun.plan("p.yaml")
    assert plan._repr_html_() == (
        "<table>\n<caption>What a run of p would do</caption>\n"
        '<thead><tr><th scope="col">stage</th><th scope="col">action</th><th scope="col">why</th>'
        '<th scope="col">last time</th></tr></thead>\n<tbody>\n'
        '<tr><th scope="row">write</th><td>run</td><td>never run before</td><td></td></tr>\n'
        "</tbody>\n</table>"
    )


@pytest.mark.usefixtures("project")
def test_what_the_api_returns_shows_itself_in_a_line(tmp_path: Path) -> None:
    pipeline = orun.load("p.yaml")
    assert repr(pipeline) == f"Pipeline('p', stages=1, file='{tmp_path}/p.yaml')"
    plan = orun.plan("p.yaml")
    assert (repr(plan), repr(plan["write"])) == ("Plan('p', run=1)", "Step('write', 'run')")
    result = orun.run("p.yaml")
    assert repr(result) == f"RunResult('p', 'done', exit_code=0, stages=1, gates=0, run='{result.run}')"
    assert repr(result["write"]) == "StageResult('write', 'built', metrics=['letters'])"
    (series,) = orun.history("letters")
    assert repr(series) == "Series('write.letters', points=1, last='4')"
    assert repr(orun.verify("nowhere")).startswith("BundleCheck('nowhere', ok=False, files=0, problems=(")


@pytest.mark.usefixtures("project")
def test_the_text_of_a_reason_is_its_sentence(project: Path) -> None:
    """It was the representation of a record."""
    assert [str(reason) for reason in orun.plan("p.yaml")["write"].reasons] == ["never run before"]
    text = "stages: {write: {uses: ./code.py:write, gate: {letters: {min: 5}}}}\n"
    (project / "p.yaml").write_text(text, encoding="utf-8")
    (verdict,) = orun.run("p.yaml").verdicts
    assert str(verdict.finding) == "letters is 4, below the minimum of 5"
    caveat = build_reason(ReasonCode.FITTED_DATA, parameters=[["dataset", "int8"]])
    assert str(caveat) == (
        "its data is the `dataset` of int8, by which the model was made: on other data it may be worse, so keep some "
        "for this"
    )


@pytest.mark.usefixtures("project")
def test_an_unknown_name_says_what_was_probably_meant() -> None:
    result = orun.run("p.yaml")
    for lookup, message in (
        (lambda: orun.load("p.yaml").stage("wirte"), "pipeline p has no stage 'wirte'\n  did you mean write?"),
        (lambda: orun.plan("p.yaml")["wirte"], "the plan of p has no stage 'wirte'\n  did you mean write?"),
        (lambda: result["wirte"], f"run {result.run} has no stage 'wirte'\n  did you mean write?"),
        (lambda: result["write"]["leters"], "stage write has no metric 'leters'\n  did you mean letters?"),
    ):
        with pytest.raises(KeyError) as caught:
            lookup()
        assert str(caught.value) == message


@pytest.mark.usefixtures("project")
def test_a_failed_plan_in_a_notebook_leaves_no_line_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    threads = threading.active_count()
    with pytest.raises(UsageError):
        orun.run("p.yaml", only=["nowhere"])
    assert threading.active_count() == threads
