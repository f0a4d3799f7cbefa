"""Outputs in `out/` that stages after them read: for others they may be of an earlier run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import Project, failure_of, outcomes

PIPELINE = """
name: text
stages:
  made-elsewhere: {uses: ./stages.py:make, with: {text: a b}}
  reads: {uses: ./reads.py:reads, with: {name: STORE/out/text/made-elsewhere/text}NEEDS}
"""
READS = """
from pathlib import Path

from orun import FilePath, stage


@stage(inputs={"after": "files"}, output="files")
def waits(context, *, name: str):
    (context.output / "text").write_text(Path(name).read_text())


@stage(inputs={}, output="files")
def reads(context, *, name: str):
    (context.output / "text").write_text(Path(context.root / name).read_text())
"""


def project(folder: Path, *, needs: str = "") -> Project:
    readers = Project(folder / "project", folder / "project" / "artifacts")
    Project.make(readers.folder, PIPELINE.replace("STORE", str(readers.store)).replace("NEEDS", needs))
    readers.write("reads.py", READS)
    return readers


@pytest.mark.parametrize("kind", ["str", "FilePath"])
def test_a_stage_that_does_not_wait_for_it_is_refused(tmp_path: Path, kind: str) -> None:
    """It had been made of what the run before had left, and the next run was another."""
    readers = project(tmp_path)
    assert outcomes(readers.run(only=["made-elsewhere"])) == {"made-elsewhere": "built"}
    readers.edit("reads.py", "def reads(context, *, name: str)", f"def reads(context, *, name: {kind})")
    for _ in range(2):
        result = readers.run()
        assert result.exit_code == 3
        assert outcomes(result) == {"made-elsewhere": "cached", "reads": "failed"}
        failure = failure_of(result, "reads")
        assert failure.error == "UndeclaredInput"
        read = "artifacts/out/text/made-elsewhere/text"
        assert failure.problem == f"reads reads {read}, the output of made-elsewhere, and does not need made-elsewhere"
        assert failure.why == "it may be the output of an earlier run: reads does not wait for made-elsewhere"
        assert failure.hint == "Name made-elsewhere under needs of reads"


def test_a_stage_that_waits_for_it_may_read_it(tmp_path: Path) -> None:
    readers = project(tmp_path, needs=", needs: made-elsewhere")
    readers.edit("pipeline.yaml", "reads.py:reads", "reads.py:waits")
    for text in ("a b", "c d"):
        readers.edit("pipeline.yaml", "text: a b", f"text: {text}")
        assert outcomes(readers.run()) == {"made-elsewhere": "built", "reads": "built"}
        assert readers.text("reads") == text
    readers.edit("pipeline.yaml", "text: c d", "text: a b")
    assert outcomes(readers.run())["made-elsewhere"] == "cached"
    assert readers.text("reads") == "a b"


def test_what_another_pipeline_has_made_may_be_read(tmp_path: Path) -> None:
    readers = project(tmp_path)
    assert outcomes(readers.run(only=["made-elsewhere"])) == {"made-elsewhere": "built"}
    readers.edit("pipeline.yaml", "name: text", "name: other")
    assert outcomes(readers.run()) == {"made-elsewhere": "cached", "reads": "built"}
