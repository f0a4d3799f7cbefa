"""Quarantine: what is moved there, what stays in place, and what is removed when it is old."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from orun.store.quarantine import Quarantine

DAY = 86400.0


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def quarantine(tmp_path: Path, notices: list[str]) -> Quarantine:
    (tmp_path / "quarantine").mkdir()
    return Quarantine(tmp_path / "quarantine", notices)


def test_a_file_is_put_away_and_told(tmp_path: Path, quarantine: Quarantine, notices: list[str]) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"bad")
    quarantine.move(str(bad), "it was damaged", name="a/b", seen=bad.lstat())
    (away,) = (tmp_path / "quarantine").iterdir()
    assert not bad.exists()
    assert away.read_bytes() == b"bad"
    assert notices == [f"it was damaged; moved to quarantine as {away}"]


def test_what_another_process_has_replaced_since_it_was_looked_at_stays(
    tmp_path: Path, quarantine: Quarantine, notices: list[str]
) -> None:
    bad = tmp_path / "bad"
    bad.touch()
    seen = bad.lstat()
    (tmp_path / "good").write_bytes(b"good")
    (tmp_path / "good").replace(bad)
    quarantine.move(str(bad), "it was damaged", name="a", seen=seen)
    assert (bad.read_bytes(), notices) == (b"good", [])
    bad.unlink()
    quarantine.move(str(bad), "it was damaged", name="a", seen=seen)
    assert (list((tmp_path / "quarantine").iterdir()), notices) == ([], [])


def test_what_is_old_goes_and_nothing_else(tmp_path: Path, quarantine: Quarantine) -> None:
    folder = tmp_path / "quarantine"
    old, new = time.time_ns() - int(2 * DAY * 1e9), time.time_ns()
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "mine").touch()
    for name in (f"{old}-file", f"{new}-file", "notes-of-mine"):
        (folder / name).touch()
    (folder / f"{old}-folder").mkdir()
    (folder / f"{old}-folder" / "file").touch()
    (folder / f"{old}-link").symlink_to(kept)
    quarantine.empty(DAY)
    assert {path.name for path in folder.iterdir()} == {f"{new}-file", "notes-of-mine"}
    assert (kept / "mine").exists()
