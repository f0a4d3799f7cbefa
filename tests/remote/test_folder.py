"""A folder as a remote, on a file system without hard links: it cannot be written to."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.calls import Failing, Fault

ONCE = """
import sys
from orun.store.object_storage import Bucket, UnreachableError

bucket = Bucket(sys.argv[1])
try:
    bucket.put_if_absent("a/b", b"first")
except UnreachableError:
    print(bucket.read("a/b", 9))
"""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="a library is compiled and preloaded")
@pytest.mark.parametrize("error", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_no_record_is_written_without_hard_links(fault_library: Path, tmp_path: Path, error: int) -> None:
    failing = Failing.make(fault_library, tmp_path, tmp_path / "bucket")
    failing.set(Fault("link", "all", 1, error, "from then on"))
    process = subprocess.run(
        [sys.executable, "-c", ONCE, f"file://{tmp_path}/bucket"],
        env={**failing.variables, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.stdout, process.stderr) == ("None\n", "")
