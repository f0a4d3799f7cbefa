"""A process whose calls fail is no harm to those that share its store; `benchmarks/faults.py` tries hundreds more."""

from __future__ import annotations

import errno
import shutil
import sys
from pathlib import Path

import pytest

from tests.faults.calls import Failing, Fault
from tests.faults.neighbours import trial
from tests.faults.rig import Rig

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="a library is compiled and preloaded"
)


CASES = {
    "cold": Fault("write", "its processes", 1, errno.ENOSPC, "from then on"),
    "push": Fault("sync", "all", 9, errno.EIO, "once, though done"),
    "gc": Fault("unlink", "the run", 2, errno.EROFS, "from then on"),
}


@pytest.mark.slow  # calls of a command alone are quick, in test_calls.py
@pytest.mark.parametrize("name", CASES)
def test_who_runs_beside_a_failing_command_ends_as_if_alone(
    watched: Rig, fault_library: Path, tmp_path: Path, name: str
) -> None:
    description, judgement = trial(watched, Failing.make(fault_library, tmp_path, watched.folder), name, CASES[name])
    assert judgement.outcome != "wrong", f"{description}: {judgement.why}"
