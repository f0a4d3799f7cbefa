"""A machine of which files say what a test wants."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.environment import cgroups


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `proc` and `cgroup`, which take the place of /proc and /sys/fs/cgroup."""
    monkeypatch.setattr(cgroups, "PROC", str(tmp_path / "proc"))
    monkeypatch.setattr(cgroups, "GROUPS", str(tmp_path / "cgroup"))
    return tmp_path
