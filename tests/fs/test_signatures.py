"""Signatures of files."""

from __future__ import annotations

from pathlib import Path

from orun.fs.signatures import read_signature


def test_a_signature_tells_what_may_have_changed(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"one")
    status = path.stat()
    expected = (status.st_dev, status.st_ino, 3, status.st_mtime_ns, status.st_ctime_ns)
    assert read_signature(path) == expected
    (tmp_path / "link").symlink_to(path)
    assert read_signature(tmp_path / "link") == expected
    assert read_signature(tmp_path / "nothing") is None
    assert read_signature(path / "below a file") is None
