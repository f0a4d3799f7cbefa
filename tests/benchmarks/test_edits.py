"""A project that is edited at random, and a comparison that tells a result that is not of its inputs."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from benchmarks import edited_project
from benchmarks.edits import campaign


def test_runs_leave_what_clean_ones_make(tmp_path: Path) -> None:
    assert [told for _, told in islice(campaign(tmp_path, "1"), 2)] == ["", ""]


def test_what_no_key_holds_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = "import time\n\ndef word():\n    return str(time.time_ns())\n"
    monkeypatch.setitem(edited_project.FILES, "helper.py", clock)
    ((_, told),) = islice(campaign(tmp_path, "1"), 1)
    assert told.startswith("edited/")
    assert " in a clean run\n" in told
