"""The folder of a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orun.core.events import RunStarted
from orun.eventlog import Journal, ignore


@pytest.mark.parametrize("repeats", ["", "another run"])
def test_the_disk_has_the_record_of_a_run_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repeats: str
) -> None:
    """And the names of the record and of its folder; not of one that only says that another still holds."""
    folder = tmp_path / "runs" / "20261103-141502-123456-bert"
    folder.mkdir(parents=True)
    flushed, fsync = set(), os.fsync

    def flush(descriptor: int) -> None:
        flushed.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", flush)
    with Journal(folder, ignore, 0.0) as journal:
        journal.emit(RunStarted(folder.name, "bert", "bert.yaml", (), 1, 0.0, {}, folder, {}, repeats=repeats))
        journal.finish(journal.build_result(0))
    names = (folder / "record.json", folder, folder.parent)
    assert flushed == (set() if repeats else {path.stat().st_ino for path in names})
