"""A process whose calls fail is no harm to those that share its store; `benchmarks/faults.py` tries hundreds more."""

from __future__ import annotations

import errno
import shutil
import sys
from pathlib import Path

import pytest

from tests.faults import commands
from tests.faults.calls import Failing, Fault
from tests.faults.neighbours import trial
from tests.faults.projects import TEXT
from tests.faults.rig import Rig, inside

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="a library is compiled and preloaded"
)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("cold", Fault("write", "its processes", 1, errno.ENOSPC, "from then on")),
        ("push", Fault("sync", "all", 9, errno.EIO, "once, though done")),
        ("gc", Fault("unlink", "the run", 2, errno.EROFS, "from then on")),
    ],
)
def test_who_runs_beside_a_failing_command_ends_as_if_alone(tmp_path: Path, name: str, fault: Fault) -> None:
    rig = Rig.make(tmp_path / "text", TEXT, inside)
    commands.watch_temporary(rig)
    what, judgement = trial(rig, Failing.make(tmp_path, rig.folder), name, fault)
    assert judgement.outcome != "wrong", f"{what}: {judgement.why}"
