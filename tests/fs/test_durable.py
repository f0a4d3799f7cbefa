"""Writing for good on file systems that cannot do all that is asked of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from orun.fs.durable import sync_folders


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that cannot be flushed")
def test_folders_that_cannot_be_flushed(tmp_path: Path) -> None:
    """As those of SMB and of shared folders of virtual machines."""
    descriptor = os.open("/proc", os.O_RDONLY)
    with pytest.raises(OSError, match="Invalid argument"):
        os.fsync(descriptor)
    os.close(descriptor)
    sync_folders([str(tmp_path), "/proc"])
