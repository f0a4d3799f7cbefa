"""Notes of stages on their results, from the stage to every report."""

from __future__ import annotations

import json
from pathlib import Path

from orun.core.serialization import replace
from orun.report.github import format_commands
from orun.report.gitlab import render_code_quality
from orun.report.junit import render_junit
from orun.report.markdown import render_markdown
from orun.report.terminal import Terminal
from tests.project import Project, built
from tests.report.support import INT8, PASSED, result_lines

SAID = ("the ranges are those of 12 examples", "no example has a | in it")


def test_every_run_with_the_result_tells_them(tmp_path: Path) -> None:
    """Whether it is built, taken from the store, or remembered as a whole."""
    project = Project.make(tmp_path / "project")
    writes = '    (context.output / "text").write_text(text)'
    notes = '    context.note("a sentence")\n' * 10 + '    context.note("another")\n'
    project.edit("stages.py", writes, notes + writes)
    for stages in (["make", "upper", "count"], [], []):
        result = project.run()
        assert built(result) == stages
        assert (result["make"].notes, result["upper"].notes) == (("a sentence", "another"), ())
        assert "note: make: a sentence" in result_lines(result, Terminal())


def test_every_report_has_them() -> None:
    result = replace(PASSED, stages=(replace(INT8, notes=SAID),), verdicts=())
    lines = [f"note: int8: {SAID[0]}", f"note: int8: {SAID[1]}"]
    shown = result_lines(result, Terminal())
    start = shown.index(lines[0])
    assert shown[start : start + 2] == lines
    assert "note: int8" not in "\n".join(result_lines(result, Terminal(), "quiet"))
    assert f"\n\nnote: int8: {SAID[0]}\n\nnote: int8: no example has a \\| in it\n" in render_markdown(result)
    assert format_commands(result) == [
        f"::notice file=pipelines/bert.yaml,line=1,col=1,title=int8 says::{SAID[0]}%0A{SAID[1]}"
    ]
    assert [(issue["description"], issue["severity"]) for issue in json.loads(render_code_quality(result))] == [
        (f"int8: {SAID[0]}", "info"),
        (f"int8: {SAID[1]}", "info"),
    ]
    assert f"<system-out>{SAID[0]}\n{SAID[1]}</system-out>" in render_junit(result)
