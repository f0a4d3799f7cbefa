"""Stages that write into the project: it is said, also where their results are stored ones, and never built upon."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.report.console import result_lines
from orun.report.terminal import Terminal
from tests.project import Project, outcomes

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
WHY = "what is written there does not come back with a stored result: what is read may be of another run"
HINT = """\
Write it to context.output in writes, and read it from context.inputs in reads
Where it is a cache, put a CACHEDIR.TAG into its folder and use --force writes"""
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


def project(folder: Path, write: str = WRITE, read: str = '"nothing"') -> Project:
    made = Project.make(folder / "project", PIPELINE)
    made.write("beside.py", CODE.replace("WRITE", write).replace("READ", read))
    made.write("given.txt", "one")
    return made


def test_a_stage_that_reads_what_another_wrote_beside_its_output_is_refused(tmp_path: Path) -> None:
    """Its result would be stale: here writes comes from the store for `one`, and side.txt is of `two`."""
    made = project(tmp_path, read=READ)
    for text in ("one", "two", "one"):
        made.write("given.txt", text)
        result = made.run()
        assert result.exit_code == 3
        failure = result["reads"].failure
        assert failure is not None
        assert failure.error == "UndeclaredInput"
        assert failure.what == "reads reads side.txt, which writes wrote beside its output"
        assert (failure.why, failure.hint) == (WHY, HINT)
        assert result["reads"].tree == ""
    assert outcomes(result) == {"writes": "cached", "reads": "failed"}


@pytest.mark.parametrize("read", ['str((HERE / "side.txt").exists())', 'str(list(open(HERE / "side.txt", "a+")))'])
def test_to_look_for_it_or_to_add_to_it_is_to_read_it(tmp_path: Path, read: str) -> None:
    assert outcomes(project(tmp_path, read=read).run()) == {"writes": "built", "reads": "failed"}


def test_a_stage_that_is_told_of_it_is_refused_too(tmp_path: Path) -> None:
    made = project(tmp_path)
    made.write("side.txt", "of long ago")
    made.write(
        "pipeline.yaml", f"{PIPELINE}  told: {{uses: ./stages.py:read, needs: writes, with: {{name: side.txt}}}}\n"
    )
    made.edit("stages.py", "def read(context, *, name: str)", "def read(context, *, name: FilePath)")
    made.edit("stages.py", "from orun import Metric, stage", "from orun import FilePath, Metric, stage")
    made.edit(
        "stages.py",
        '@stage(inputs={}, output="files")\ndef read',
        '@stage(inputs={"x": "files"}, output="files")\ndef read',
    )
    result = made.run()
    assert outcomes(result) == {"writes": "built", "reads": "built", "told": "failed"}


def test_a_result_of_before_is_not_taken_either(tmp_path: Path) -> None:
    """It was stored when side.txt was the user's own."""
    made = project(tmp_path, write="pass", read=READ)
    made.write("side.txt", "ONE")
    assert outcomes(made.run()) == {"writes": "built", "reads": "built"}
    made.edit("beside.py", "    pass", f"    {WRITE}")
    made.edit("beside.py", "always this", "always  this")
    result = made.run()
    assert outcomes(result) == {"writes": "built", "reads": "failed"}


def test_whichever_comes_later_is_refused(tmp_path: Path) -> None:
    made = project(tmp_path, read=READ)
    made.write("side.txt", "of long ago")
    made.edit("pipeline.yaml", "{uses: ./beside.py:writes}", "{uses: ./beside.py:writes, needs: reads}")
    made.edit("pipeline.yaml", ", needs: writes", "")
    made.edit("beside.py", 'inputs={"text": "files"}', "inputs={}")
    made.edit(
        "beside.py", 'inputs={}, output="files")\ndef writes', 'inputs={"text": "files"}, output="files")\ndef writes'
    )
    result = made.run()
    assert outcomes(result) == {"writes": "failed", "reads": "built"}
    failure = result["writes"].failure
    assert failure is not None
    assert failure.what == "reads reads side.txt, which writes wrote beside its output"


def test_what_is_written_into_the_project_is_told(tmp_path: Path) -> None:
    made = project(tmp_path, "; ".join(TOLD))
    for outcome in ("built", "cached", "cached"):
        result = made.run()
        assert (result["writes"].outcome, result["reads"].wrote) == (outcome, ())
        assert result["writes"].wrote == ("copied.txt", "linked.txt", "log.txt", "made/b", "moved.txt", "side.txt")


def test_logs_caches_and_what_is_gone_again_are_nothing_to_tell(tmp_path: Path) -> None:
    result = project(tmp_path, "; ".join(UNTOLD)).run()
    assert outcomes(result) == {"writes": "built", "reads": "built"}
    assert result["writes"].wrote == ()


def test_a_log_that_another_stage_reads_is_refused(tmp_path: Path) -> None:
    made = project(tmp_path, 'open(HERE / "side.txt", "a").write(text)', READ)
    assert outcomes(made.run()) == {"writes": "built", "reads": "failed"}


@pytest.mark.parametrize(
    "missing", ['not (HERE / "side.txt").exists()', 'not os.path.isfile(HERE / "side.txt")', "not found()"]
)
def test_what_is_made_where_it_is_missing_may_be_read_by_all_until_it_is_written_over(
    tmp_path: Path, missing: str
) -> None:
    """Data that a function fetches once: another stage that needs it makes it again."""
    made = project(tmp_path, f"if {missing}: {WRITE}", READ)
    made.write("beside.py", f"{(made.folder / 'beside.py').read_text()}\n{FOUND}")
    assert outcomes(made.run()) == {"writes": "built", "reads": "built"}
    result = made.run()
    assert outcomes(result) == {"writes": "cached", "reads": "cached"}
    assert result["writes"].wrote == ()
    made.edit("beside.py", f"if {missing}: ", "")
    assert outcomes(made.run()) == {"writes": "built", "reads": "failed"}


def test_a_stage_may_read_what_it_wrote_itself(tmp_path: Path) -> None:
    made = project(tmp_path, f'{WRITE}; (context.output / "text").write_text({READ})')
    assert outcomes(made.run()) == {"writes": "built", "reads": "built"}
    assert made.text("writes") == "ONE"


def test_once_it_writes_to_its_output_all_is_well(tmp_path: Path) -> None:
    made = project(tmp_path, read=READ)
    made.run()
    made.edit("beside.py", WRITE, '(context.output / "side.txt").write_text(text.upper())')
    made.edit("beside.py", READ, '(context.inputs["text"] / "side.txt").read_text()')
    assert outcomes(made.run()) == {"writes": "built", "reads": "built"}
    assert made.text("reads") == "ONE"


def test_how_it_is_said(tmp_path: Path) -> None:
    result = project(tmp_path, f'{WRITE}; (HERE / "b").touch(); (HERE / "c").touch(); (HERE / "d").touch()').run()
    told = [line for line in result_lines(result, Terminal()) if line.startswith("warning")]
    assert told == [
        f"warning: {' '.join(SAID.split())} orun {result.file} --force writes",
    ]
