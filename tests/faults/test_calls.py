"""Every call to the system can fail: a message or a good end, and then a run as a clean one.

`benchmarks/faults.py` tries hundreds more.
"""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.faults import commands, failures
from tests.faults.calls import HOW, Failing, Fault
from tests.faults.failures import trial
from tests.faults.projects import FIRST
from tests.faults.rig import Ended, Judgement, Rig, environment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="a library is compiled and preloaded"
)
SEED = "2026-11"
FAULTS = 40  # at least


@pytest.fixture(scope="module")
def failing(watched: Rig, fault_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Failing:
    """The library, with a plan for commands."""
    return Failing.make(fault_library, tmp_path_factory.mktemp("plan"), watched.folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", commands.COMMANDS)
def test_any_call_of_a_command(watched: Rig, failing: Failing, name: str) -> None:
    counts = commands.count(watched, failing, name)
    _, description, judgement = failures.some_trial(
        partial(failures.trial, watched, failing, name), failing, counts, Random(f"{SEED}-{name}")
    )
    assert judgement.outcome != "wrong", f"{description}: {judgement.why}"


CALLS = {  # what a process does -> the fault, what it prints, and the call that is told; empty where none has failed
    "print(os.read(old, 9), os.read(old, 9))": ("read", 1, 0, HOW[0], "b'abc' b'def'", "read"),
    "os.read(old, 9); print(os.read(old, 9))": ("read", 2, 0, HOW[0], "b''", ""),
    "print(os.pread(old, 9, 2), os.read(old, 9))": ("read", 1, 0, HOW[0], "b'cd' b'abcdef'", "pread64"),
    "print(refused(os.read, old, 9), os.read(old, 9))": ("read", 1, errno.EIO, HOW[2], "EIO b''", "read"),
    "print(refused(os.read, old, 9), os.read(old, 9)) ": ("read", 1, errno.EIO, HOW[0], "EIO b'abcdef'", "read"),
    "print(os.write(new, b'abcdef'), size())": ("write", 1, 0, HOW[0], "3 3", "write"),
    "print(os.write(new, b'a'), size())": ("write", 1, 0, HOW[0], "1 1", ""),
    "print(refused(os.write, new, b'abc'), size())": ("write", 1, errno.ENOSPC, HOW[2], "ENOSPC 3", "write"),
    "print(os.copy_file_range(old, new, 1 << 30), size())": ("write", 1, 0, HOW[0], "3 3", "copy_file_range"),
    "print(os.sendfile(new, old, 0, 6), size())": ("write", 1, 0, HOW[0], "3 3", "sendfile64"),
    "print(refused(mmap, old, 0))": ("map", 1, errno.ENOMEM, HOW[0], "ENOMEM", "mmap64"),
    "print(os.access('old', 4), os.access('old', 4))": ("stat", 1, errno.EIO, HOW[0], "False True", "access"),
    "print(refused(os.listdir, folder))": ("list", 1, errno.ESTALE, HOW[1], "ESTALE", "fdopendir"),
}
START = """
import errno, os
from functools import partial
from mmap import ACCESS_READ, mmap
mmap = partial(mmap, access=ACCESS_READ)
old, new, folder = os.open("old", os.O_RDONLY), os.open("new", os.O_WRONLY), os.open("folder", os.O_RDONLY)
size = lambda: os.fstat(new).st_size
def refused(call, *given):
    try:
        call(*given)
    except OSError as error:
        return errno.errorcode[error.errno]
"""


@pytest.mark.parametrize("code", CALLS)
def test_the_library_does_what_it_is_told(fault_library: Path, tmp_path: Path, code: str) -> None:
    """Half of the bytes, done all the same, and nothing where nothing can fail, which then counts for none."""
    kind, number, error, how, expected, call = CALLS[code]
    below = tmp_path / "below"
    (below / "folder").mkdir(parents=True)
    (below / "old").write_text("abcdef")
    (below / "new").touch()
    failing = Failing.make(fault_library, tmp_path, below)
    failing.set(Fault(kind, "all", number, error, how))
    command = [sys.executable, "-c", f"{START}{code}"]
    process = subprocess.run(
        command, cwd=below, env={**environment(), **failing.variables}, capture_output=True, text=True, check=False
    )
    assert (process.stdout.strip(), process.stderr) == (expected, "")
    assert failing.failed().partition(" ")[0] == call


def test_what_a_command_could_not_remove_is_not_held_against_the_next(watched: Rig) -> None:
    for name in ("tmp", "aside", "remote"):
        (watched.folder / name / "folder").mkdir(parents=True, exist_ok=True)
        (watched.folder / name / "file").touch()
    (watched.project / "pipeline.baseline.json.1-1").touch()
    assert len(failures.left_behind(watched)) == 3  # what is aside is nobody's
    commands.clear(watched)
    assert failures.left_behind(watched) == []


def test_the_judge_of_commands_is_not_blind(watched: Rig) -> None:
    commands.warm(watched)

    def judged(name: str, ended: Ended, answer: Mapping[str, object] | None = None) -> Judgement:
        return failures.judged(watched, commands.COMMANDS[name], ended, answer or {}, errno.EIO)

    assert judged("history", Ended(0, '{"series": []}', ""), {"series": [1]}) == Judgement(
        "wrong", '{"series": []} in the place of {"series": [1]}'
    )
    assert judged("history", Ended(1, "", "")) == Judgement("wrong", "exit 1: ")
    ended = watched.run(FIRST)
    assert judged("cold", ended) == Judgement("survived")
    record = Path(ended.document["folder"], "record.json")
    record.unlink()
    assert judged("cold", ended).why.startswith(f"exit 0, and cannot read {record}: ")
    strange = watched.object("ab" * 32)
    strange.parent.mkdir(exist_ok=True)
    strange.write_text("something")
    assert failures.broken_objects(watched) == ["ab" * 32]
    (watched.out / "join" / "text").unlink()
    (watched.out / "join" / "text").write_text("half")
    assert judged("cold", Ended(3, "", "")) == Judgement("wrong", "exit 3, and out/text/join/text holds something else")


def test_calls_fail_as_they_are_told_to(watched: Rig, failing: Failing) -> None:
    """The judge is not blind, and nor is what it judges."""
    description, judgement = trial(watched, failing, "cold", Fault("sync", "all", 1, errno.EDQUOT, "from then on"))
    assert description.startswith(f"cold: sync 1 of all, EDQUOT from then on: fsync {watched.store}")
    assert (judgement.outcome, judgement.why.partition(":")[0]) == ("refused", "cannot open the store")
    description, judgement = trial(watched, failing, "cold", Fault("write", "all", 1, 0, "once"))
    assert description.startswith(f"cold: write 1 of all, half of the bytes once: write {watched.store}")
    assert judgement.outcome == "rebuilt"


@pytest.mark.slow
def test_each_call_of_a_small_run_on_a_store(fault_library: Path, tmp_path: Path) -> None:
    """In one process: a call, an error, once or from then on, one in so many of all of them."""
    failing = Failing.make(fault_library, tmp_path, tmp_path / "store")
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
