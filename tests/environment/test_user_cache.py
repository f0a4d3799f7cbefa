"""Folder for files that may be made again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orun.environment import venvs
from orun.environment.user_cache import locate_cache
from orun.errors import UsageError
from orun.stages.quantize._tuning.trial_log import TrialLog


def test_a_home_or_what_is_said_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative, which counts as not set")
    assert locate_cache() == tmp_path / ".cache" / "orun"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert locate_cache() == tmp_path / "elsewhere" / "orun"


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container has that is started with a number for its user."""
    for name in ("HOME", "XDG_CACHE_HOME", "ORUN_ENVIRONMENTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    with pytest.raises(UsageError) as caught:
        locate_cache()
    assert str(caught.value) == (
        "there is no folder for caches\n  this user has no home\n  hint: name one: export XDG_CACHE_HOME=FOLDER"
    )
    assert venvs.read_all() == {}


def test_a_cache_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UsageError) as caught:
        TrialLog("search")
    assert str(caught.value) == (
        f"trials cannot be kept in {tmp_path}/file/orun/tuning\n"
        f"  [Errno 20] Not a directory: '{tmp_path}/file/orun/tuning'\n"
        "  hint: name another place: export XDG_CACHE_HOME=FOLDER"
    )
