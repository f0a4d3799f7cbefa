"""Temporary folders that a stage makes: what appears in them is its own, and nothing that its result depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.executors import LocalExecutor
from tests.executors.support import Project, result

pytestmark = pytest.mark.usefixtures("native_reads")

CODE = """
import os
import subprocess
import tempfile

IN_A_SHELL = '''
mkdir -p "$0/made/below"
test -r "$0/made"
echo text > "$0/made/below/file"
test -r "$0/made/below/file"
cat "$0/made/below/file" "$0/none"
'''

def own(context, *, data):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        subprocess.run(["sh", "-c", IN_A_SHELL, folder])
        os.mkdir(os.path.join(folder, "mine"))
        assert sorted(os.listdir(os.path.join(folder, "made"))) == ["below"]
        assert os.path.exists(os.path.join(folder, "made", "below"))
        with open(os.path.join(folder, "made", "below", "file")) as file:
            file.read()

def symbolic(context, *, data):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        subprocess.run(["ln", "-s", data, f"{folder}/link"], check=True)
        subprocess.run(["cat", f"{folder}/link"], check=True)

def there(context, *, data):
    subprocess.run(["sh", "-c", 'mkdir -p "$0"; cat "$0/file"', os.path.dirname(data)])
"""


def looked_at(project: Project, executor: LocalExecutor, function: str, data: Path) -> list[str]:
    """Return what a stage has read, listed and probed outside the project and the machine's own folders."""
    project.write("pipelines/stages.py", CODE)
    job_result = result(executor, project.job(f"stages.py:{function}", params={"data": str(data)}))
    return [
        path
        for path in {*job_result.reads, *job_result.listings, *job_result.probed}
        if not path.startswith(str(project.folder))
    ]


def test_what_a_temporary_folder_holds_is_the_stage_s_own(project: Project, executor: LocalExecutor) -> None:
    assert looked_at(project, executor, "own", project.work) == []


def test_a_link_from_a_temporary_folder_leads_to_other_files(
    project: Project, executor: LocalExecutor, tmp_path: Path
) -> None:
    data = tmp_path / "data.txt"
    data.write_text("text")
    assert [Path(path).name for path in looked_at(project, executor, "symbolic", data)] == ["link"]


def test_a_folder_that_was_there_is_no_temporary_one(project: Project, executor: LocalExecutor, tmp_path: Path) -> None:
    data = tmp_path / "data" / "file"
    data.parent.mkdir()
    data.write_text("text")
    assert str(data) in looked_at(project, executor, "there", data)
