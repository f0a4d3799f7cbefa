"""Every call to the system can fail: a message or a good end, and then a run as a clean one.

`benchmarks/faults.py` tries hundreds more.
"""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.faults import commands
from tests.faults.calls import Failing, Fault
from tests.faults.projects import TEXT
from tests.faults.rig import Rig, environment, process

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="a library is compiled and preloaded"
)
SEED = "2026-11"
FAULTS = 40  # at least


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """Plain functions, each run a process of its own, whose temporary files are seen."""
    rig = Rig.make(tmp_path_factory.mktemp("calls") / "text", TEXT, process)
    commands.watch_temporary(rig)
    return rig


@pytest.fixture(scope="module")
def failing(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Failing:
    """The library."""
    return Failing.make(tmp_path_factory.mktemp("library"), rig.folder)


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_any_call_of_a_command(rig: Rig, failing: Failing, name: str) -> None:
    fault = Fault.any(Random(f"{SEED}-{name}"), commands.count(rig, failing, name))
    what, judgement = commands.trial(rig, failing, name, fault)
    assert judgement.outcome != "wrong", f"{what}: {judgement.why}"


def test_calls_fail_as_they_are_told_to(rig: Rig, failing: Failing) -> None:
    """The judge is not blind, and nor is what it judges."""
    what, judgement = commands.trial(rig, failing, "cold", Fault("sync", "all", 1, errno.EDQUOT, "from then on"))
    assert what.startswith(f"cold: sync 1 of all, EDQUOT from then on: fsync {rig.store}")
    assert (judgement.outcome, judgement.why.partition(":")[0]) == ("refused", "cannot open the store")
    what, judgement = commands.trial(rig, failing, "cold", Fault("write", "all", 1, 0, "once"))
    assert what.startswith(f"cold: write 1 of all, half of the bytes once: write {rig.store}")
    assert judgement.outcome == "rebuilt"


def test_each_call_of_a_small_run_on_a_store(tmp_path: Path) -> None:
    """In one process: a call, an error, once or from then on, one in so many of all of them."""
    failing = Failing.make(tmp_path, tmp_path / "store")
    failing.set(None)
    swept = subprocess.run(
        [sys.executable, "-P", "-m", "tests.faults.sweep", str(tmp_path), "0", "199"],
        cwd=tmp_path,
        env={**environment(), **failing.variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert swept.stderr == ""
    assert swept.stdout.strip().isdecimal(), swept.stdout
    assert int(swept.stdout) > FAULTS
