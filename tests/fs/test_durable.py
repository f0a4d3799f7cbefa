"""Writing for good on file systems that cannot do all that is asked of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from orun.fs.durable import sync_folders
from orun.store.outputs import scan


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that cannot be flushed")
def test_folders_that_cannot_be_flushed(tmp_path: Path) -> None:
    """As those of SMB and of shared folders of virtual machines."""
    descriptor = os.open("/proc", os.O_RDONLY)
    with pytest.raises(OSError, match="Invalid argument"):
        os.fsync(descriptor)
    os.close(descriptor)
    sync_folders([str(tmp_path), "/proc"])


def test_where_every_file_is_executable_none_counts_as_one(tmp_path: Path) -> None:
    (tmp_path / "run").touch(0o755)
    (tmp_path / "data").touch(0o644)
    assert [(one.name, one.executable) for one in scan(tmp_path)] == [("data", False), ("run", True)]
    assert [(one.name, one.executable) for one in scan(tmp_path, modes=False)] == [("data", False), ("run", False)]
