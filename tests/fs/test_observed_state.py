"""Observed state of a path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orun.fs.observed_state import ABSENT, FILE, FOLDER, observe_presence, stat_presence


def test_what_is_seen(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "ring").symlink_to("ring")
    for see in (stat_presence, observe_presence):
        assert [see(tmp_path), see(tmp_path / "file"), see(str(tmp_path / "link"))] == [FOLDER, FILE, FILE]
        assert {see(tmp_path / name) for name in ("nothing", "file/below", "broken", "ring")} == {ABSENT}


def test_an_error_is_no_answer(tmp_path: Path) -> None:
    """`Path.exists` says no to it from Python 3.14 on."""
    path = tmp_path / ("x" * (os.pathconf(tmp_path, "PC_NAME_MAX") + 1))
    with pytest.raises(OSError, match="File name too long"):
        stat_presence(path)
    assert observe_presence(path) == ABSENT
