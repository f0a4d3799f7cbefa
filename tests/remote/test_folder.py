"""A folder as a remote, on a file system where no file can have two names."""

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
from orun.store.object_storage import Bucket, DeniedError, UnreachableError

bucket = Bucket(sys.argv[1])
print(bucket.put_if_absent("a/b", b"first"), bucket.put_if_absent("a/b", b"second"), bucket.read("a/b", 9))
"""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="a library is compiled and preloaded")
@pytest.mark.parametrize("error", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_what_is_put_where_nothing_is(tmp_path: Path, error: int) -> None:
    failing = Failing.make(tmp_path, tmp_path / "bucket")
    failing.set(Fault("link", "all", 1, error, "from then on"))
    told = subprocess.run(
        [sys.executable, "-c", ONCE, f"file://{tmp_path}/bucket"],
        env={**failing.variables, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.stdout, told.stderr) == ("True False b'first'\n", "")
    assert failing.counts()["link", "all"] == 2
    assert [path.name for path in (tmp_path / "bucket" / "a").iterdir()] == ["b"]
