"""Sudden death: processes of a run are killed at any instant, and the next run has to cope."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.folders import remove
from tests.faults.projects import FIRST
from tests.faults.rig import Judgement, Rig, command

MARK = "ORUN_FAULTS"  # a variable that every process of a run inherits
PATIENCE = 15.0  # seconds within which orphans must be gone
LONGEST = 0.15  # seconds from an event to the death, at most: what lies between two events is as likely to be hit
VICTIMS = ("runner", "a stage", "a server", "both", "all", "the group", "power")  # both: the runner and a stage
POWER = Path(__file__).with_name("power.py")
CHANGES = 500  # to the store that a cold run makes, about: before each of them the power may fail


@dataclass(frozen=True)
class Process:
    """A process of a run: its id, its group, its session and what it is called."""

    id: int
    group: int
    session: int
    name: str

    @property
    def is_stage(self) -> bool:
        """Whether it is the process of a stage: forked from a server, with a group of its own in their session."""
        return self.group == self.id != self.session and "zygote" in self.name


@dataclass(frozen=True)
class Death:
    """Who was killed, when, and how the run ended.

    Attributes:
        victim: one of `VICTIMS`; the runner where there was none of those who were to be killed.
        events: how many events the run had told by then; of a power cut, how many stages it had said to be built.
        code: the exit code of the run.
    """

    victim: str
    events: int
    code: int

    def __str__(self) -> str:
        return f"{self.victim} killed after {self.events} events, exit {self.code}"


def processes(token: str) -> Iterator[Process]:
    """Every process that has the token in its environment."""
    wanted = f"{MARK}={token}".encode()
    for entry in os.scandir("/proc"):
        with suppress(OSError):  # it ended meanwhile
            if entry.name.isdecimal() and wanted in Path(entry.path, "environ").read_bytes().split(b"\0"):
                process = int(entry.name)
                arguments = Path(entry.path, "cmdline").read_bytes().split(b"\0")
                yield Process(process, os.getpgid(process), os.getsid(process), b" ".join(arguments).decode())


def trial(rig: Rig, chance: Random, chosen_death: str = "") -> tuple[Death, Judgement]:
    """Kill something of a cold run; then a run must end as a clean one and keep what was stored."""
    remove(rig.store)
    victim = chosen_death or chance.choice(VICTIMS)
    if victim == "power":
        return power_cut(rig, chance.randrange(1, CHANGES))
    token = f"{os.getpid()}-{chance.getrandbits(32):x}"
    run = start(rig, token, rig.command_line(FIRST))
    events = chance.randrange(4 * len(rig.subject.stages))
    while len(happened(rig)) < events and run.poll() is None:
        time.sleep(0.002)
    time.sleep(chance.uniform(0, LONGEST))
    alive = list(processes(token))
    while victim in ("a stage", "both") and run.poll() is None and not any(process.is_stage for process in alive):
        alive = list(processes(token))
    with suppress(ProcessLookupError):
        if victim == "the group":
            os.killpg(run.pid, signal.SIGKILL)
    killed = [] if victim == "the group" else chosen(victim, run.pid, alive, chance)
    for process in killed:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    out, err = run.communicate()
    death = Death("runner" if killed == [run.pid] else victim, len(happened(rig)), run.returncode)
    if orphans := surviving(token):
        return death, Judgement("wrong", f"{len(orphans)} orphans: {orphans}")
    if run.returncode not in (0, 3, -signal.SIGKILL) or "Traceback" in out + err:
        return death, Judgement("wrong", f"exit {run.returncode}: {out}{err}")
    return death, afterwards(rig, stored(rig))


def start(rig: Rig, token: str, arguments: Sequence[str]) -> subprocess.Popen[str]:
    """Start a run in a group of its own, its processes marked with the token."""
    return subprocess.Popen(
        command(arguments),
        cwd=rig.project,
        env={**rig.environment(), MARK: token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def power_cut(rig: Rig, change: int) -> tuple[Death, Judgement]:
    """Let the power fail before a change to the store; what was said to be built by then must outlive it."""
    rig.store.mkdir()
    command = [sys.executable, "-P", str(POWER), str(rig.store), str(change)]
    cut = subprocess.run(
        command, cwd=rig.project, env=rig.environment(), capture_output=True, text=True, timeout=120, check=False
    )
    built = {line for line in cut.stdout.splitlines() if not line.startswith("changes")}
    death = Death("power", len(built), cut.returncode)
    if cut.returncode not in (0, -signal.SIGKILL):
        return death, Judgement("wrong", f"exit {cut.returncode}: {cut.stderr}")
    return death, afterwards(rig, built)


def happened(rig: Rig) -> list[bytes]:
    """The events of a cold run so far."""
    return [line for path in rig.store.glob("runs/*/events.jsonl") for line in path.read_bytes().splitlines()]


def chosen(victim: str, runner: int, alive: list[Process], chance: Random) -> list[int]:
    """The processes to kill; the runner when there is none of the kind that was asked for."""
    stages = [process.id for process in alive if process.is_stage]
    servers = [process.id for process in alive if not process.is_stage and process.id != runner]
    kinds: Mapping[str, list[int]] = {"a stage": stages, "a server": servers}
    if victim == "both" and stages:
        return chance.sample([runner, chance.choice(stages)], 2)
    if victim == "all":
        everyone = [process.id for process in alive]
        chance.shuffle(everyone)
        return everyone
    return [chance.choice(kinds[victim])] if kinds.get(victim) else [runner]


def surviving(token: str) -> list[str]:
    """What is still there of a run after a while."""
    until = time.monotonic() + PATIENCE
    while (alive := [process.name for process in processes(token)]) and time.monotonic() < until:
        time.sleep(0.02)
    return alive


def in_all(judgement: Judgement, token: str, afterwards: Callable[[], str]) -> Judgement:
    """The judgement of a run with its processes, and of what follows.

    Args:
        judgement: what the run came to by itself.
        token: what its processes were marked with.
        afterwards: what is wrong in what follows, which happens only where nothing was before.
    """
    if judgement.outcome == "wrong":
        return judgement
    if orphans := surviving(token):
        return Judgement("wrong", f"{len(orphans)} orphans: {orphans}")
    if wrong := afterwards():
        return Judgement("wrong", f"{judgement.outcome} ({judgement.why}), then {wrong}")
    return judgement


def afterwards(rig: Rig, kept: set[str], *arguments: str) -> Judgement:
    """Run again: everything as in a clean run, none of the stages in `kept` run again, nothing left behind."""
    ended = rig.run(FIRST, *arguments)
    if ended.code != 0 or ended.err:
        return Judgement("wrong", f"the next run: exit {ended.code}: {ended.out}{ended.err}")
    if damage := rig.damage(FIRST):
        return Judgement("wrong", f"the next run: exit 0 with {', '.join(damage)}")
    if twice := kept & set(ended.stages("built")):
        why = "; ".join(f"{stage}: {', '.join(ended.reasons(stage))}" for stage in sorted(twice))
        return Judgement("wrong", f"built though stored: {why}")
    if left := [path.name for name in ("tmp", "locks") for path in (rig.store / name).iterdir()]:
        return Judgement("wrong", f"left behind: {', '.join(left)}")
    built = ended.stages("built")
    return Judgement("rebuilt", ", ".join(built)) if built else Judgement("survived")


def stored(rig: Rig) -> set[str]:
    """The stages of which there is a record, which is written last of all."""
    records = (json.loads(path.read_bytes()) for path in rig.store.glob("actions/*/*/*.json"))
    return {document["record"]["stage"] for document in records}
