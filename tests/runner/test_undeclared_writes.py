"""Stages that write into the project: it is said, also where their results are stored ones, and never built upon."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from orun.core.serialization import replace
from orun.fs.machine_folder import locate_readings
from orun.report.github import format_commands
from orun.report.gitlab import render_code_quality
from orun.report.junit import render_junit
from orun.report.markdown import render_markdown
from orun.report.terminal import Terminal
from orun.text.markdown import escape
from tests.project import Project, failure_of, outcomes
from tests.report.support import result_lines

PIPELINE = """
name: text
stages:
  writes: {uses: ./beside.py:writes}
  reads: {uses: ./beside.py:reads, needs: writes}
"""
CODE = """
import os
import subprocess
from pathlib import Path

from orun import stage

HERE = Path(__file__).parent


@stage(inputs={}, output="files")
def writes(context):
    text = (HERE / "given.txt").read_text()
    (context.output / "text").write_text("always this")
    WRITE


@stage(inputs={"text": "files"}, output="files")
def reads(context):
    (context.output / "text").write_text(READ)
"""
WRITE = '(HERE / "side.txt").write_text(text.upper())'
READ = '(HERE / "side.txt").read_text()'
FOUND = """
def found():
    try:
        return open(HERE / "side.txt").close() is None
    except FileNotFoundError:
        return False
"""
WHY = "writes writes it beside its output, so that it is not restored with its stored result"
HINT = """\
Write it to context.output in writes, and read it from context.inputs in reads
To have it written again: --force writes"""
WRITES = ', output="files")\ndef writes'
MEASURES = """
name: text
stages:
  measures: {uses: ./cores.py:measures}
"""
REMEMBERS = """
from orun import stage
from orun.measure.latency.cpu_cores import recall_reading, remember_reading


@stage(inputs={}, output="files")
def measures(context):
    (context.output / "reading").write_text(str(recall_reading()))
    remember_reading(1.4)
"""
TOLD_OF = """
from orun import FilePath, stage


@stage(inputs={"text": "files"}, output="files")
def read(context, *, name: FilePath):
    (context.output / "text").write_text("told")
"""
SAID = """
writes wrote beside its output: b, c, d and 1 more file; that does not come back with its stored result, so write to
context.output; to have it written again:
"""
TOLD = (
    WRITE,
    'subprocess.run(["cp", HERE / "given.txt", HERE / "copied.txt"], check=True)',
    'Path("new").write_text(text); os.link("new", HERE / "linked.txt"); os.rename("new", HERE / "moved.txt")',
    '(HERE / "made").mkdir(); (HERE / "made" / "b").touch()',
    'open(HERE / "log.txt", "a").close(); open(HERE / "log.txt", "w").close()',
    'open(HERE / "begun.txt", "w").close(); open(HERE / "begun.txt", "a").close()',
    'Path("late").write_text(text); subprocess.run(["mv", "late", HERE / "late.txt"], check=True)',
    'subprocess.run(["ln", Path("linked").absolute(), HERE / "second.txt"], check=Path("linked").write_text(text) > 0)',
    'again = HERE / "again"; again.touch(); again.unlink(); again.exists(); again.touch()',
)
UNTOLD = (
    'open(HERE / "log.txt", "a").close()',
    'subprocess.run(f"echo {text} >> {HERE}/echoed.txt", shell=True, check=True)',
    '(HERE / ".cache").mkdir(); (HERE / ".cache" / "a").write_text(text)',
    '(HERE / "kept").mkdir(); (HERE / "kept" / "CACHEDIR.TAG").touch(); (HERE / "kept" / "a").write_text(text)',
    '(HERE / "__pycache__").mkdir(exist_ok=True); (HERE / "__pycache__" / "a.nbi").write_text(text)',
    '(HERE / "lock").touch(); (HERE / "lock").unlink()',
    '(HERE / "empty").mkdir()',
    'Path("own").write_text(text)',
    '(context.root.parent / "elsewhere").write_text(text)',
)


def make_project(folder: Path, write: str = WRITE, read: str = '"nothing"') -> Project:
    project = Project.make(folder / "project", PIPELINE)
    project.write("beside.py", CODE.replace("WRITE", write).replace("READ", read))
    project.write("given.txt", "one")
    return project


def test_a_stage_that_reads_what_another_run_of_a_stage_left_is_refused(tmp_path: Path) -> None:
    """It had been built of TWO: writes comes from the store for `one`, and side.txt is still of `two`."""
    project = make_project(tmp_path, read=READ)
    for text in ("one", "two"):
        project.write("given.txt", text)
        assert outcomes(project.run()) == {"writes": "built", "reads": "built"}
        assert project.text("reads") == text.upper()
    project.write("given.txt", "one")
    for _ in range(2):
        result = project.run()
        assert result.exit_code == 3
        assert outcomes(result) == {"writes": "cached", "reads": "failed"}
        failure = failure_of(result, "reads")
        assert failure.error == "UndeclaredInput"
        assert failure.problem == "reads reads side.txt, which has changed since writes wrote it"
        assert (failure.why, failure.hint) == (WHY, HINT)
    assert outcomes(project.run(force=["writes"])) == {"writes": "built", "reads": "cached"}
    assert project.text("reads") == "ONE"


@pytest.mark.parametrize("read", ['str((HERE / "side.txt").exists())', 'str(list(open(HERE / "side.txt", "a+")))'])
def test_to_look_for_it_or_to_add_to_it_is_to_read_it(tmp_path: Path, read: str) -> None:
    project = make_project(tmp_path, read=read)
    assert project.run(only=["writes"]).exit_code == 0
    project.write("side.txt", "of another run")
    assert outcomes(project.run()) == {"writes": "cached", "reads": "failed"}


def test_a_stage_that_finds_it_gone_is_refused(tmp_path: Path) -> None:
    project = make_project(tmp_path, read='str((HERE / "side.txt").exists())')
    assert outcomes(project.run()) == {"writes": "built", "reads": "built"}
    (project.folder / "side.txt").unlink()
    assert outcomes(project.run()) == {"writes": "cached", "reads": "failed"}


@pytest.mark.parametrize("name", ["side.txt", "."])
def test_a_stage_that_is_told_of_it_is_refused_too(tmp_path: Path, name: str) -> None:
    """Of the file, or of a folder that it is in."""
    project = make_project(tmp_path)
    project.write("side.txt", "of long ago")
    reader = f"{{uses: ./told.py:read, needs: writes, with: {{name: {name}}}}}"
    project.write("pipeline.yaml", f"{PIPELINE}  told: {reader}\n")
    project.write("told.py", TOLD_OF)
    project.run(only=["writes"])
    project.write("side.txt", "of another run")
    result = project.run()
    assert outcomes(result) == {"writes": "cached", "reads": "built", "told": "failed"}
    project.write("side.txt", "ONE")
    assert outcomes(project.run()) == {"writes": "cached", "reads": "cached", "told": "built"}


def test_a_stored_result_of_it_is_not_taken(tmp_path: Path) -> None:
    """It was made when side.txt was the user's own."""
    project = make_project(tmp_path, write="pass")
    project.edit(
        "pipeline.yaml", "{uses: ./beside.py:reads, needs: writes}", "{uses: ./stages.py:read, with: {name: side.txt}}"
    )
    project.write("side.txt", "mine")
    assert outcomes(project.run()) == {"writes": "built", "reads": "built"}
    project.edit("beside.py", "    pass", f"    {WRITE}")
    project.run(only=["writes"])
    project.write("side.txt", "mine")
    assert outcomes(project.run()) == {"writes": "cached", "reads": "failed"}


def test_whichever_comes_later_is_refused(tmp_path: Path) -> None:
    project = make_project(tmp_path, read=READ)
    project.write("side.txt", "of long ago")
    project.edit("pipeline.yaml", "{uses: ./beside.py:writes}", "{uses: ./beside.py:writes, needs: reads}")
    project.edit("pipeline.yaml", ", needs: writes", "")
    project.edit("beside.py", 'inputs={"text": "files"}', "inputs={}")
    project.edit("beside.py", f"inputs={{}}{WRITES}", f'inputs={{"text": "files"}}{WRITES}')
    result = project.run()
    assert outcomes(result) == {"writes": "failed", "reads": "built"}
    failure = failure_of(result, "writes")
    assert failure.problem == "reads reads side.txt, which has changed since writes wrote it"


@pytest.mark.usefixtures("native_reads")
def test_what_is_written_into_the_project_is_told(tmp_path: Path) -> None:
    project = make_project(tmp_path, "; ".join(TOLD))
    for outcome in ("built", "cached", "cached"):
        result = project.run()
        assert (result["writes"].outcome, result["reads"].wrote) == (outcome, ())
        assert result["writes"].wrote == (
            "again",
            "begun.txt",
            "copied.txt",
            "late.txt",
            "linked.txt",
            "log.txt",
            "made/b",
            "moved.txt",
            "second.txt",
            "side.txt",
        )


def test_what_is_written_beside_code_that_lies_elsewhere_is_told(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    path = tmp_path / "elsewhere"
    path.mkdir()
    for name in ("beside.py", "given.txt"):
        (project.folder / name).rename(path / name)
    project.write("pipeline.yaml", PIPELINE.replace("./beside.py", f"{path}/beside.py"))
    assert project.run()["writes"].wrote == (f"{path}/side.txt",)


@pytest.mark.usefixtures("native_reads")
def test_what_a_program_writes_anew_is_not_only_added_to(tmp_path: Path) -> None:
    """Whatever Python does with it besides."""
    both = 'open(HERE / "side.txt", "a").close(); subprocess.run(["cp", HERE / "given.txt", HERE / "side.txt"])'
    project = make_project(tmp_path, both, READ)
    assert outcomes(project.run()) == {"writes": "built", "reads": "built"}
    assert project.run()["writes"].wrote == ("side.txt",)


@pytest.mark.usefixtures("native_reads")
def test_what_a_program_writes_and_python_reads_then(tmp_path: Path) -> None:
    program = 'subprocess.run(["cp", HERE / "given.txt", HERE / "side.txt"]); (HERE / "side.txt").read_text()'
    result = make_project(tmp_path, program, "'nothing'").run()
    assert outcomes(result) == {"writes": "built", "reads": "built"}
    assert result["writes"].wrote == ("side.txt",)


def test_what_is_opened_for_writing_and_not_written_is_nothing_to_tell(tmp_path: Path) -> None:
    """Databases are, to be read."""
    project = make_project(tmp_path, '(HERE / "given.txt").open("r+").close()', "'nothing'")
    assert project.run()["writes"].wrote == ()


def test_logs_caches_and_what_is_gone_again_are_nothing_to_tell(tmp_path: Path) -> None:
    result = make_project(tmp_path, "; ".join(UNTOLD)).run()
    assert outcomes(result) == {"writes": "built", "reads": "built"}
    assert result["writes"].wrote == ()


def test_a_log_that_another_stage_looks_for_is_not(tmp_path: Path) -> None:
    """As one does before adding to it."""
    project = make_project(tmp_path, 'open(HERE / "side.txt", "a").write(text)', 'str((HERE / "side.txt").exists())')
    assert outcomes(project.run()) == {"writes": "built", "reads": "built"}


@pytest.mark.parametrize("looked", ["", '(HERE / "side.txt").exists(); '])
def test_a_log_that_another_stage_reads_is_refused(tmp_path: Path, looked: str) -> None:
    project = make_project(tmp_path, f'{looked}open(HERE / "side.txt", "a").write(text)', READ)
    assert outcomes(project.run()) == {"writes": "built", "reads": "failed"}


@pytest.mark.parametrize(
    "missing", ['not (HERE / "side.txt").exists()', 'not os.path.isfile(HERE / "side.txt")', "not found()"]
)
def test_what_is_made_where_it_is_missing_is_nothing_to_tell(tmp_path: Path, missing: str) -> None:
    """Data that a function fetches once; other data than those are refused."""
    project = make_project(tmp_path, f"if {missing}: {WRITE}", READ)
    project.write("beside.py", f"{(project.folder / 'beside.py').read_text()}\n{FOUND}")
    assert outcomes(project.run()) == {"writes": "built", "reads": "built"}
    result = project.run()
    assert outcomes(result) == {"writes": "cached", "reads": "cached"}
    assert result["writes"].wrote == ()
    project.write("side.txt", "of another day")
    assert outcomes(project.run()) == {"writes": "cached", "reads": "failed"}


def test_a_stage_may_read_what_it_wrote_itself(tmp_path: Path) -> None:
    project = make_project(tmp_path, f'{WRITE}; (context.output / "text").write_text({READ})')
    assert outcomes(project.run()) == {"writes": "built", "reads": "built"}
    assert project.text("writes") == "ONE"


def test_once_it_writes_to_its_output_all_is_well(tmp_path: Path) -> None:
    project = make_project(tmp_path, read=READ)
    project.run()
    project.edit("beside.py", WRITE, '(context.output / "side.txt").write_text(text.upper())')
    project.edit("beside.py", READ, '(context.inputs["text"] / "side.txt").read_text()')
    assert outcomes(project.run()) == {"writes": "built", "reads": "built"}
    assert project.text("reads") == "ONE"


def test_how_it_is_said(tmp_path: Path) -> None:
    result = make_project(tmp_path, f'{WRITE}; (HERE / "b").touch(); (HERE / "c").touch(); (HERE / "d").touch()').run()
    set_values, store = result_lines(replace(result, overrides={"seed": "3"}), Terminal()), tmp_path / "store"
    assert any(line.endswith(f" orun {result.file} --force writes --set seed=3 --store {store}") for line in set_values)
    hint = f"{' '.join(SAID.split())} orun {result.file} --force writes --store {store}"
    assert [line for line in result_lines(result, Terminal()) if "beside" in line] == [f"warning: {hint}"]
    assert not [line for line in result_lines(result, Terminal(), "quiet") if "beside" in line]
    assert [line for line in render_markdown(result).splitlines() if "beside" in line] == [escape(f"warning: {hint}")]
    (line,) = format_commands(result)
    assert line.startswith("::warning file=")
    assert line.endswith(f",line=4,col=3,title=writes wrote beside its output::{hint}")
    (issue,) = json.loads(render_code_quality(result))
    assert (issue["description"], issue["severity"], issue["check_name"]) == (hint, "minor", "orun/undeclared-write")
    assert issue["location"]["lines"] == {"begin": 4}
    cases = ET.fromstring(render_junit(result)).iter("testcase")  # noqa: S314 -- our own document
    assert {case.get("name"): case.findtext("system-out") for case in cases} == {"writes": hint, "reads": None}


def test_what_measurements_keep_of_the_cores_of_the_machine_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the folder of the machine is in the project, and the stage reads it again in a later run."""
    project = Project.make(tmp_path / "project", MEASURES)
    project.write("cores.py", REMEMBERS)
    monkeypatch.setenv("ORUN_LOCKS", str(project.folder))
    for force, outcome in (((), "built"), (("measures",), "built"), ((), "cached")):
        result = project.run(force=force)
        assert (result["measures"].outcome, result["measures"].wrote) == (outcome, ())
    assert locate_readings().parent == project.folder
    assert locate_readings().exists()
