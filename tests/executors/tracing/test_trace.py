"""How much of what stages read was seen: in the record of each stage, and said once in a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orun.store import Store
from tests.project import Project
from tests.seccomp import FORBID, WHY

RUN = """
import json, orun
from orun.core.events import Notice
notices = []
result = orun.run("pipeline.yaml", store="store", on_event=lambda event: notices.append(event))
texts = [f"{one.level}: {one.text}" for one in notices if isinstance(one, Notice)]
print(json.dumps([{one.stage: one.trace for one in result.stages}, texts]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path / "project")


def run(project: Project, code: str) -> tuple[dict[str, str], list[str]]:
    """Run the pipeline in a process of its own: how much was seen of each stage, and the notices."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project.folder, capture_output=True, text=True, check=True, timeout=120
    )
    traces, notices = json.loads(done.stdout)
    return traces, notices


def test_a_run_that_sees_what_python_opens_alone_says_so_once(project: Project) -> None:
    parts = dict.fromkeys(["make", "upper", "count"], "python")
    said = f"info: trace: python: files that native code and other programs open are not seen: {WHY}"
    assert run(project, FORBID + RUN) == (parts, [said])
    assert run(project, RUN) == (parts, []), "nothing ran: its results are as they were"
    with Store.open(project.folder / "store") as store:
        action = store.latest("text", "upper")
    assert action is not None
    assert action.trace == "python"


@pytest.mark.usefixtures("native_reads")
def test_a_run_that_sees_all(project: Project) -> None:
    assert run(project, RUN) == (dict.fromkeys(["make", "upper", "count"], "full"), [])


@pytest.mark.usefixtures("native_reads")
def test_it_is_in_the_json_output_and_the_record(project: Project) -> None:
    command = [sys.executable, "-m", "orun", "run", "pipeline.yaml", "--json"]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=True, timeout=120)
    shown = json.loads(done.stdout)
    kept = json.loads(Path(shown["folder"], "record.json").read_text(encoding="utf-8"))
    for document in (shown, kept["record"]):
        assert [stage["trace"] for stage in document["stages"]] == ["full", "full", "full"]
