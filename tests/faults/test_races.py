"""Edits while a stage runs, which never leave a result that belongs to no version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import races
from tests.faults.rig import Judgement
from tests.thin import mostly_slow


def refused(problem: str) -> Judgement:
    return Judgement("refused", problem)


CASES = {
    ("pipeline", "to and fro while it reads"): Judgement("survived"),
    ("pipeline", "after it has read"): Judgement("survived"),
    ("code", "to and fro while it starts"): refused("stages.py was edited while slow ran"),
    ("code", "after it has read"): refused("stages.py was edited while slow ran"),
    ("helper", "before it reads"): Judgement("survived"),
    ("helper", "to and fro while it reads"): refused("helper.py was edited while slow ran"),
    ("declared file", "to and fro while it reads"): refused("declared.txt was edited while slow ran"),
    ("declared file", "fro with its times"): refused("declared.txt was edited while slow ran"),
    ("declared file", "before it reads"): refused("declared.txt was edited while slow ran"),
    ("declared folder", "after it has read"): refused("folder was edited while slow ran"),
    ("undeclared file", "before it reads"): Judgement("survived"),
    ("undeclared file", "after it has read"): refused("undeclared.txt was edited while slow ran"),
    ("undeclared file", "fro with its times"): refused("undeclared.txt was edited while slow ran"),
    ("external data", "after it has read"): refused("weights was edited while slow ran"),
    ("external data", "fro with its times"): refused("weights was edited while slow ran"),
    ("listed folder", "to and fro while it reads"): Judgement("survived"),
    ("object of the input", "to and fro while it reads"): refused("slow wrote into its inputs"),
    ("output of the stage before", "after it has read"): refused("slow wrote into its inputs"),
}


QUICK = (
    ("helper", "before it reads"),
    ("declared file", "fro with its times"),
    ("object of the input", "to and fro while it reads"),
)


@pytest.mark.parametrize(
    ("name", "moment"), mostly_slow(CASES, *QUICK), ids=[f"{name}, {moment}" for name, moment in CASES]
)
def test_an_edit_while_a_stage_runs(tmp_path: Path, name: str, moment: str) -> None:
    assert races.trial(tmp_path / "race", name, moment) == CASES[name, moment]
