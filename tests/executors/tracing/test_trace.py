"""Extent of tracing: in the record of each stage, and said once in a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orun.core.events import Notice
from orun.core.run_record import RunResult
from orun.report.document import build_run_document
from tests.project import Project
from tests.seccomp import FORBID, WHY

RUN_FORBIDDEN = f"""{FORBID}
import json, sys, orun
from orun.core.events import Notice
notices = []
result = orun.run("pipeline.yaml", store=sys.argv[1], on_event=lambda event: notices.append(event))
texts = [f"{{one.level}}: {{one.text}}" for one in notices if isinstance(one, Notice)]
print(json.dumps([{{one.stage: one.trace for one in result.stages}}, texts]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path / "project")


def notices(project: Project) -> list[Notice]:
    return [event for event in project.events if isinstance(event, Notice)]


def traces(result: RunResult) -> dict[str, str | None]:
    """How much was seen of each stage."""
    return {stage.stage: stage.trace for stage in result.stages}


def test_a_run_that_sees_what_python_opens_alone_says_so_once(project: Project) -> None:
    command = [sys.executable, "-c", RUN_FORBIDDEN, str(project.store)]
    process = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=True, timeout=120)
    parts = dict.fromkeys(["make", "upper", "count"], "python")
    notice = f"info: trace: python: files that native code and other programs open are not seen: {WHY}"
    assert json.loads(process.stdout) == [parts, [notice]]
    assert traces(project.run()) == parts, "nothing ran: its results are as they were"
    assert notices(project) == []


@pytest.mark.usefixtures("native_reads")
def test_a_run_that_sees_all_says_so_in_its_result_and_its_record_alone(project: Project) -> None:
    result = project.run()
    assert traces(result) == dict.fromkeys(["make", "upper", "count"], "full")
    assert notices(project) == []
    kept = json.loads((result.folder / "record.json").read_text(encoding="utf-8"))
    for document in (build_run_document(result), kept["record"]):
        assert [stage["trace"] for stage in document["stages"]] == ["full", "full", "full"]
