"""Locks of a stage: whom it waits for, and when a short stage stops waiting."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import orun
from orun.core.events import Event, StageWaiting
from orun.core.serialization import replace
from orun.core.source_location import Position
from orun.fs.locks import Lock
from orun.fs.machine_locks import MachineClaim, MachineLock
from orun.pipeline.model import Stage
from orun.planning.plan import Step
from orun.runner import stage_locks
from orun.runner.stage_locks import ALONE, PATIENCE, LockMode, RunLocks, StageLocks, describe_measurement
from orun.store import Store
from tests.project import Project

CLAIM = MachineClaim(4711, "/home/ann/models", "bert", "latency", seconds=90.0)
AT_NOON = time.mktime((2026, 11, 24, 12, 0, 0, 0, 0, -1))
OTHER = "the measurement latency of bert to"
WHERE = "(process 4711 in /home/ann/models)"


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Machine:
    """A machine of its own in a folder, on which somebody may measure."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()
        self.events: list[Event] = []
        self.measuring = MachineLock(exclusive=True, folder=folder, claim=CLAIM)

    def lock(self, exclusive: bool, claim: MachineClaim) -> MachineLock:
        return MachineLock(exclusive=exclusive, folder=self.folder, claim=claim if exclusive else None)

    def run_locks(self, store: Store) -> RunLocks:
        return RunLocks(store, self.events.append, "/home/bob", "tiny", self.lock, self.clock)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "machine").mkdir()
    return Machine(tmp_path / "machine")


def step(name: str) -> Step:
    stage = Stage(name, "./stages.py:make", Position("pipeline.yaml", 1, 1))
    return Step(stage, "run", (), key=name.ljust(64, "0"))


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (None, "a measurement of another orun to end"),
        (replace(CLAIM, since=AT_NOON), f"{OTHER} end at about 12:01:30 {WHERE}"),
        (replace(CLAIM, since=AT_NOON, seconds=None), f"{OTHER} end; it began at 12:00:00 {WHERE}"),
        (CLAIM, f"{OTHER} begin and end {WHERE}"),
        (replace(CLAIM, since=AT_NOON, process=os.getpid()), "the measurement latency to end at about 12:01:30"),
        (
            replace(CLAIM, stage="\x1b[31mred", pipeline="a" * 300),
            f"the measurement ?[31mred of {'a' * 200} to begin and end {WHERE}",
        ),
    ],
    ids=["nobody says so", "known", "for the first time", "not yet", "this run", "odd names"],
)
def test_who_measures(claim: MachineClaim | None, message: str) -> None:
    assert describe_measurement(claim) == message


def test_a_stage_that_waits_names_who_measures(machine: Machine, store: Store) -> None:
    locks = machine.run_locks(store)
    make = locks.prepare_locks(step("make"), LockMode.SHARED)
    with machine.measuring:
        assert machine.measuring.try_acquire()
        claim = make.machine and make.machine.find_claim()
        assert claim
        assert claim.since is not None
        assert claim == replace(CLAIM, since=claim.since)
        assert locks.try_acquire(make) == describe_measurement(claim)
    locks.refused.clear()
    assert locks.try_acquire(make) == ""
    assert [path.name for path in machine.folder.iterdir() if "claim" in path.name] == []


def test_a_short_stage_waits_ten_seconds_and_the_next_one_ten_more(machine: Machine, store: Store) -> None:
    locks = machine.run_locks(store)
    first, second = (locks.prepare_locks(step(name), LockMode.SHORT) for name in ("a", "b"))
    long = locks.prepare_locks(step("long"), LockMode.SHARED)

    def waits(stage: StageLocks) -> bool:
        locks.refused.clear()
        return bool(locks.try_acquire(stage))

    with machine.measuring:
        assert machine.measuring.try_acquire()
        assert waits(first)
        machine.clock.now = PATIENCE - 1
        assert waits(first)
        machine.clock.now = PATIENCE
        assert waits(long)
        assert locks.may_try(LockMode.SHORT)
        assert not locks.may_try(LockMode.SHARED)
        assert not waits(first)
        assert waits(second)
        machine.clock.now = 2 * PATIENCE
        assert waits(second), "one at a time"
        locks.release("a")
        assert not waits(second)
        assert waits(long)
        locks.release("b")
    assert not waits(long)


def test_who_measures_does_not_begin_beside_another(machine: Machine, store: Store) -> None:
    locks = machine.run_locks(store)
    time_ = locks.prepare_locks(step("time"), LockMode.EXCLUSIVE)
    with machine.measuring:
        assert machine.measuring.try_acquire()
        assert locks.try_acquire(time_) == ALONE
        machine.clock.now = 2 * PATIENCE
        locks.refused.clear()
        assert locks.try_acquire(time_) == ALONE
        waiting = time_.machine and time_.machine.find_claim()
        assert waiting
        assert waiting.stage == "latency", "who has it, and not who waits for it"
    assert locks.try_acquire(time_) == ALONE
    locks.refused.clear()
    assert locks.try_acquire(time_) == ""
    own = time_.machine and time_.machine.find_claim()
    assert own
    assert (own.project, own.pipeline, own.stage) == ("/home/bob", "tiny", "time")
    locks.release_all()


HOLDS = """
import sys, time
from pathlib import Path
from orun.fs.machine_locks import MachineClaim, MachineLock
claim = MachineClaim(1, "p", "q", "r")
lock = MachineLock(exclusive=True, folder=Path(sys.argv[1]), claim=claim)
print(lock.try_acquire(), flush=True)
time.sleep(60)
"""


def test_the_claim_of_a_process_that_was_killed_is_none(machine: Machine) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS, machine.folder], stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"True\n"
        asking = machine.lock(False, CLAIM)
        claim = asking.find_claim()
        assert claim
        assert (claim.process, claim.stage) == (1, "r")
        holder.kill()
    assert list(machine.folder.glob("*claim*"))
    assert asking.find_claim() is None
    assert not list(machine.folder.glob("*claim*"))


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 10_000, b'{"process": "x"}', b"\xff"])
def test_a_claim_that_somebody_else_made_up_is_none(machine: Machine, content: bytes) -> None:
    path = machine.folder / "orun-machine-claim-1.lock"
    path.write_bytes(content)
    with Lock(path, keep=True) as held:
        held.acquire()
        assert machine.lock(False, CLAIM).find_claim() is None


def test_a_claim_that_is_a_pipe_is_none(machine: Machine) -> None:
    os.mkfifo(machine.folder / "orun-machine-claim-1.lock")
    assert machine.lock(False, CLAIM).find_claim() is None


def test_a_run_of_short_stages_goes_on_beside_a_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of which nothing is known wait for its end."""
    monkeypatch.setenv("ORUN_LOCKS", str(tmp_path))
    monkeypatch.setattr(stage_locks, "PATIENCE", 0.05)
    project = Project.make(tmp_path / "project")
    project.run(to=["upper"])
    measuring = MachineLock(exclusive=True, folder=tmp_path, claim=CLAIM)
    assert measuring.try_acquire()
    waits: list[StageWaiting] = []

    def hear(event: Event) -> None:
        if isinstance(event, StageWaiting):
            waits.append(event)

    run: Callable[..., orun.RunResult] = partial(orun.run, project.folder / "pipeline.yaml", store=project.store)
    result = run(force=["make", "upper"], to=["upper"], on_event=hear)
    assert [stage.outcome for stage in result.stages] == ["built"] * 2
    assert {wait.waits_for for wait in waits} == {describe_measurement(measuring.find_claim())}

    def end(event: Event) -> None:
        hear(event)
        if isinstance(event, StageWaiting):
            time.sleep(0.2)  # four times as long as a short stage waits
            measuring.release()

    waits.clear()
    (project.folder / "pipeline.yaml").write_text(
        "name: new\nstages:\n  other: {uses: ./stages.py:make, with: {text: z}}\n", encoding="utf-8"
    )
    assert run(on_event=end)["other"].outcome == "built"
    assert [wait.stage for wait in waits] == ["other"]
