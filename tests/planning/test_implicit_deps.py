"""Files that a stage read: one that the disk does not give is not one that is absent."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from orun.errors import StoreError
from orun.fs.observed_state import ABSENT
from orun.fs.signatures import read_signature
from orun.planning.implicit_deps import collect_files, digest_current
from orun.store import Store


@pytest.mark.parametrize(
    ("code", "problem", "hint"),
    [
        (errno.EIO, "the disk reports an error", "Look for its cause: dmesg"),
        (
            errno.ENOSPC,
            "the disk is full",
            "Nothing that was stored is lost. Free some space and run it again: df -h {path}",
        ),
    ],
)
def test_a_file_that_cannot_be_read_for_the_disk_s_sake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, problem: str, hint: str
) -> None:
    """A result that it was read for would have been stored as one of a file that was looked for in vain."""
    path = tmp_path / "data.txt"
    path.write_text("data")

    def fail(_: int) -> str:
        raise OSError(code, os.strerror(code))

    with Store.open(tmp_path / "store") as store:
        reads = {str(path): read_signature(path)}
        monkeypatch.setattr("orun.fs.signatures.digest_descriptor", fail)
        with pytest.raises(StoreError) as caught:
            collect_files("upper", reads, tmp_path, tmp_path, store.files)
        assert str(caught.value) == (
            f"cannot read {path}: {problem}\n  {path}: {os.strerror(code)}\n  hint: {hint.format(path=path)}"
        )
        monkeypatch.undo()
        assert collect_files("upper", reads, tmp_path, tmp_path, store.files) == {
            "data.txt": store.files.digest_file(path)
        }
        assert digest_current(tmp_path / "gone", store.files) == digest_current(tmp_path, store.files) == ABSENT
