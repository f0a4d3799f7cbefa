"""Results in a notebook: the report in a frame, a file of HTML, lines of progress."""

from __future__ import annotations

import html
import sys
from pathlib import Path
from types import ModuleType

import pytest

import orun
from orun.errors import UsageError
from orun.report.html.page import page
from orun.report.trend import past_of

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
    text = page(result, *past_of(result))
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
    assert (caught.value.what, caught.value.why) == ("code.py cannot be written", "the run reads it")
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
