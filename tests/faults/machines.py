"""Faults of a run on several machines: deaths, stops, cut links, changed facts, full disks, wrong clocks and keys.

A trial starts a run, brings a fault about at some moment, and takes it away at the end. The run must end with the right
results or a clear error, leave no process on any machine, store nothing wrong, and the next run must continue.
"""

# ruff: noqa: ARG001  (every fault takes the same arguments)

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from tests.faults.deaths import processes
from tests.faults.rig import CHECKOUT, Ended, Judgement
from tests.faults.site import AGENTS, MEASUREMENT, Run, Site

DISK = "4m"  # of an agent whose disk is full
KILLED, INTERRUPTED = -signal.SIGKILL, 130
LONGEST = 0.6  # seconds from an event to the fault: a stage lasts as long
EVENTS = 16  # about as many as a run has


@dataclass
class Incident:
    """A fault under way.

    Attributes:
        text: what it is.
        codes: exit codes of the run that are right beside 0 and 3.
        spared: stages that the next run may build again.
        after: takes the fault away when the run has ended; the agents are started again where they have ended.
    """

    text: str
    codes: tuple[int, ...] = ()
    spared: tuple[str, ...] = (MEASUREMENT,)
    after: Callable[[], None] = lambda: None


Fault = Callable[[Site, Random, Run], Incident]


def kill_agent(site: Site, chance: Random, run: Run) -> Incident:
    """SIGKILL of an agent."""
    return Incident(f"agent {_kill_some_agent(site, chance, run)} killed")


def _kill_some_agent(site: Site, chance: Random, run: Run) -> str:
    """Kill an agent, more often the one that runs a stage; return its machine."""
    machine = chance.choice((run.machine(), *AGENTS))
    site.agents[machine].kill()
    return machine


def kill_and_restart_agent(site: Site, chance: Random, run: Run) -> Incident:
    """The same, and a service manager starts it again."""
    machine = _kill_some_agent(site, chance, run)
    site.agents[machine].wait()
    site.start_agent(machine)
    return Incident(f"agent {machine} killed, started again")


def kill_both_agents(site: Site, chance: Random, run: Run) -> Incident:
    """SIGKILL of every agent; after a while one comes back."""
    for agent in site.agents.values():
        agent.kill()
        agent.wait()
    machine = chance.choice(AGENTS)
    time.sleep(chance.uniform(0, 3))
    site.start_agent(machine)
    return Incident(f"both agents killed, {machine} started again", (2,))


def kill_stage(site: Site, chance: Random, run: Run) -> Incident:
    """SIGKILL of a stage's process."""
    until = time.monotonic() + 5
    while time.monotonic() < until and run.process.poll() is None:
        each = [process for name in AGENTS for process in processes(f"{site.token}-{name}")]
        if stages := [process for process in each if process.is_stage]:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(stages).id, signal.SIGKILL)
            return Incident("a stage killed")
    return Incident("no stage ran")


def stop_agent(site: Site, chance: Random, run: Run) -> Incident:
    """SIGTERM to an agent, sometimes twice."""
    machine, twice = chance.choice((run.machine(), *AGENTS)), chance.random() < 0.3
    for _ in range(1 + twice):
        site.agents[machine].send_signal(chance.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)))
        time.sleep(0.1)
    return Incident(f"agent {machine} told to stop{' twice' if twice else ''}")


def pause_agent(site: Site, chance: Random, run: Run) -> Incident:
    """SIGSTOP of an agent; its stage goes on, and its result comes late."""
    machine, seconds = run.machine(), chance.choice((1.0, 3.0, 30.0))
    agent = site.agents[machine]
    agent.send_signal(signal.SIGSTOP)
    _later(run, seconds)
    agent.send_signal(signal.SIGCONT)
    return Incident(f"agent {machine} stopped for {seconds:.0f} s")


def cut_link(site: Site, chance: Random, run: Run) -> Incident:
    """The link of a machine is cut, for a moment or until the end of the run."""
    machine, seconds = chance.choice((run.machine(), run.machine(), "head")), chance.choice((2.0, 40.0))
    site.network.cut(machine)
    try:
        _later(run, seconds)
    finally:
        site.network.mend(machine)
    text = f"link of {machine} cut for {seconds:.0f} s"
    return Incident(text, after=partial(_end_agents, site)) if site.is_ray and machine == "head" else Incident(text)


def _end_agents(site: Site) -> None:
    """End all agents, which may be about to end because they have lost the head."""
    for machine in list(site.agents):
        site.end_agent(machine)


def kill_driver(site: Site, chance: Random, run: Run) -> Incident:
    """SIGKILL of the driver."""
    run.process.kill()
    return Incident("driver killed", (KILLED,))


def interrupt_driver(site: Site, chance: Random, run: Run) -> Incident:
    """Ctrl-C of the driver, sometimes twice, or SIGTERM."""
    twice, number = chance.random() < 0.3, chance.choice((signal.SIGINT, signal.SIGTERM))
    for _ in range(1 + twice):
        with suppress(ProcessLookupError):
            run.process.send_signal(number)
        time.sleep(0.05)
    return Incident(f"driver got {number.name}{' twice' if twice else ''}", (INTERRUPTED, -number, 128 + number))


def pause_driver(site: Site, chance: Random, run: Run) -> Incident:
    """SIGSTOP of the driver, as when a laptop sleeps."""
    seconds = chance.choice((2.0, 25.0))
    run.process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    run.process.send_signal(signal.SIGCONT)
    return Incident(f"driver stopped for {seconds:.0f} s")


def change_tool(site: Site, chance: Random, run: Run) -> Incident:
    """Another version of a tool on one machine or both, after the plan."""
    machines = AGENTS if chance.random() < 0.5 else (chance.choice(AGENTS),)
    for machine in machines:
        site.set_tool(machine, "2.0")

    def after() -> None:
        for machine in machines:
            site.set_tool(machine, "1.0")

    return Incident(f"the tool changed on {' and '.join(machines)}", spared=(MEASUREMENT, "tooled"), after=after)


def change_orun(site: Site, chance: Random, run: Run) -> Incident:
    """An upgrade of orun on an agent's machine; the agent runs a copy of the checkout."""
    machine = chance.choice(AGENTS)
    copy = _copy_of_orun(site)
    site.end_agent(machine)
    site.start_agent(machine, checkout=copy)
    with (copy / "orun" / "errors.py").open("a") as file:
        file.write("# edited\n")

    def after() -> None:
        site.end_agent(machine)

    return Incident(f"agent {machine} replaced, then its orun edited", after=after)


def come_with_another_orun(site: Site, chance: Random, run: Run) -> Incident:
    """An agent comes back with another orun."""
    machine = chance.choice(AGENTS)
    copy = _copy_of_orun(site)
    with (copy / "orun" / "errors.py").open("a") as file:
        file.write("# edited\n")
    site.end_agent(machine)
    site.start_agent(machine, checkout=copy)

    def after() -> None:
        site.end_agent(machine)

    return Incident(f"agent {machine} replaced by one of another orun", (2,), after=after)


def damage_remote(site: Site, chance: Random, run: Run) -> Incident:
    """A byte of an object changes in the remote, or the object vanishes."""
    paths = sorted(site.remote.glob("objects/??/*"), key=lambda path: path.stat().st_mtime)[-4:]
    if not paths:
        return Incident("nothing in the remote yet")
    path, vanishes = chance.choice(paths), chance.random() < 0.3
    if vanishes:
        path.unlink()
    else:
        data = bytearray(path.read_bytes() or b"?")
        data[chance.randrange(len(data))] ^= 1
        path.chmod(0o644)
        path.write_bytes(data)
        site.damaged.add(path)
    return Incident(f"an object {'removed from' if vanishes else 'damaged in'} the remote")


MOMENTS: Mapping[str, Fault] = {
    "agent killed": kill_agent,
    "agent killed, restarted": kill_and_restart_agent,
    "both agents killed": kill_both_agents,
    "stage killed": kill_stage,
    "agent told to stop": stop_agent,
    "agent paused": pause_agent,
    "link cut": cut_link,
    "driver killed": kill_driver,
    "driver interrupted": interrupt_driver,
    "driver paused": pause_driver,
    "tool changed": change_tool,
    "orun edited": change_orun,
    "another orun": come_with_another_orun,
    "remote damaged": damage_remote,
}
"""Faults that happen at some moment of a run."""


@contextmanager
def wrong_clock(site: Site, chance: Random) -> Iterator[str]:
    """A clock that is hours or years wrong."""
    machine = chance.choice(AGENTS)
    ahead = chance.choice((-1, 1)) * chance.choice((90.0, 3600.0, 86400.0 * 30, 86400.0 * 365 * 20))
    site.end_agent(machine)
    site.start_agent(machine, ahead=ahead)
    yield f"the clock of {machine} is {ahead:.0f} s ahead"
    site.end_agent(machine)


@contextmanager
def wrong_key(site: Site, chance: Random) -> Iterator[str]:
    """An agent signs with a key that nobody trusts."""
    machine = chance.choice(AGENTS)
    site.end_agent(machine)
    site.keys[machine] = "a key that nobody else has"
    try:
        site.start_agent(machine)
        yield f"{machine} signs with another key"
    finally:
        del site.keys[machine]
        site.end_agent(machine)


@contextmanager
def full_disk(site: Site, chance: Random) -> Iterator[str]:
    """An agent's disk is full but for a few blocks."""
    machine, free = chance.choice(AGENTS), chance.choice((0, 1, 2, 4, 8, 16, 32)) * 4096
    site.end_agent(machine)
    store = site.folder / machine / "store"
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(store)], check=True)
    try:
        site.start_agent(machine)
        ballast = store / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 16)):
                pass
        os.truncate(ballast, max(ballast.stat().st_size - free, 0))
        yield f"{free} bytes free on {machine}"
        ballast.unlink()
    finally:
        if machine in site.agents:
            site.end_agent(machine)
        subprocess.run(["umount", "--lazy", str(store)], check=True)
        shutil.rmtree(store)


CONDITIONS: Mapping[str, Callable[[Site, Random], AbstractContextManager[str]]] = {
    "wrong clock": wrong_clock,
    "wrong key": wrong_key,
    "full disk": full_disk,
}
"""Faults that last for a whole run."""


def kill_head(site: Site, chance: Random, run: Run) -> Incident:
    """SIGKILL of Ray's head; agents and runs end with it."""
    assert site.head
    site.head.kill()
    site.head.wait()
    return Incident("head killed", after=partial(_end_agents, site))


OF_RAY: Mapping[str, Fault] = {
    "head killed": kill_head,
    **{
        name: MOMENTS[name]
        for name in (
            *("agent killed", "link cut", "agent paused", "agent told to stop"),
            *("driver killed", "driver interrupted"),
        )
    },
}
"""Faults of machines that meet through Ray."""


def trial(site: Site, chance: Random, chosen_trial: str = "") -> tuple[str, str, Judgement]:
    """Run with a fault, then without it; return the fault's name, its description, and the judgement."""
    faults = OF_RAY if site.is_ray else MOMENTS
    name = chosen_trial or chance.choice([*faults, *(() if site.is_ray else CONDITIONS)])
    mark = f"m{chance.getrandbits(48):x}"
    site.prepare()
    with CONDITIONS[name](site, chance) if name in CONDITIONS else nullcontext() as condition:
        run = site.run(mark)
        if condition is None:
            run.wait_for(chance.randrange(EVENTS))
            time.sleep(chance.uniform(0, LONGEST))
            incident = faults[name](site, chance, run)
        else:
            incident = Incident(condition)
        ended = run.end()
        judgement = _judge(site, run, ended, incident)
        incident.after()
    label = f"Ray: {name}" if site.is_ray else name
    if judgement.outcome in ("survived", "refused"):
        judgement = _continue(site, run, incident, judgement)
    return label, incident.text, judgement


def _judge(site: Site, run: Run, ended: Ended, incident: Incident) -> Judgement:
    """Return what a run came to."""
    if ended.code not in (0, 3, *incident.codes) or "Traceback" in ended.out + ended.err or "bug in orun" in ended.err:
        return Judgement("wrong", f"exit {ended.code}: {ended.out[-3000:]}{ended.err[-3000:]}")
    if orphans := site.orphans():
        return Judgement("orphans", f"{len(orphans)}: {orphans}")
    if ended.code == 0:
        damage = site.damage(run.mark, ended)
        return Judgement("wrong", f"exit 0 with {damage}") if damage else Judgement("survived")
    if ended.code in incident.codes and ended.code != 2:
        return Judgement("refused", f"exit {ended.code}")
    document = ended.document
    failed = [stage["failure"] for stage in document.get("stages", ()) if stage.get("failure")]
    errors = [document["error"]] if document.get("error") else failed
    if not errors or not all(error["problem"] for error in errors):
        return Judgement("wrong", f"exit {ended.code} without an error: {ended.out}{ended.err}")
    return Judgement("refused", " / ".join(f"{error['problem']}: {error.get('why', '')}" for error in errors))


def _continue(site: Site, run: Run, incident: Incident, judgement: Judgement) -> Judgement:
    """Return the judgement once the next run has ended."""
    for machine, agent in list(site.agents.items()):
        if agent.poll() is not None:
            del site.agents[machine]
            if survivors := site.survivors(machine):
                return Judgement("orphans", f"of agent {machine}: {survivors}")
    site.prepare()
    built = run.built()
    again = site.run(run.mark)
    ended = again.end()
    if ended.code != 0 or "Traceback" in ended.err:
        printed = f"{ended.out[-3000:]}{ended.err[-2000:]}"
        return Judgement("lost", f"{judgement.why}; the next run: exit {ended.code}: {printed}")
    if damage := site.damage(run.mark, ended):
        return Judgement("wrong", f"{judgement.why}; the next run: exit 0 with {damage}")
    if twice := (built & again.built()) - set(incident.spared):
        return Judgement("lost", f"{judgement.why}; built again though it was stored: {', '.join(sorted(twice))}")
    if orphans := site.orphans():
        return Judgement("orphans", f"of the next run: {orphans}")
    if broken := site.broken_objects():
        return Judgement("wrong", f"{judgement.why}; damaged: {', '.join(broken)}")
    return judgement


def _later(run: Run, seconds: float) -> None:
    """Wait so long, or until the run has ended."""
    with suppress(subprocess.TimeoutExpired):
        run.process.wait(seconds)


def _copy_of_orun(site: Site) -> Path:
    """Return a checkout with the same orun."""
    copy = site.folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(CHECKOUT / "orun", copy / "orun", ignore=shutil.ignore_patterns("__pycache__"))
    return copy
