"""A project that is edited at random, and a comparison that tells a result that is not of its inputs."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import edited_project
from benchmarks.edits import campaign


@pytest.mark.slow
def test_runs_leave_what_clean_ones_make(tmp_path: Path) -> None:
    assert [difference for _, difference in islice(campaign(tmp_path, "1"), 4)] == [""] * 4


def test_what_no_key_holds_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = "import time\n\ndef word():\n    return str(time.time_ns())\n"
    monkeypatch.setitem(edited_project.FILES, "helper.py", clock)
    ((_, difference),) = islice(campaign(tmp_path, "1"), 1)
    lines = difference.splitlines()
    assert lines
    assert all(re.fullmatch(r"edited/\S+/text: '.*', and '.*' in a clean run", line) for line in lines)
