"""A fleet of invented machines in this process: each order gets a file as its result, or the answer of the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import time

from orun.core.component_kinds import ComponentKind
from orun.core.events import Event
from orun.core.key_component import KeyComponent
from orun.core.machines import (
    Built,
    Failed,
    Joined,
    LogText,
    Lost,
    Machine,
    MachineFacts,
    Order,
    Refused,
    Snapshot,
)
from orun.core.reason import build_reason
from orun.core.run_record import Failure
from orun.core.serialization import replace
from orun.environment.resources import Resources
from orun.pipeline import load
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.remote.envelope import sign
from orun.remote.settings import Settings
from orun.remote.sync import Sync
from orun.remote.trust import Keyring
from orun.remote.upload import encode_record
from orun.runner.fleet import FleetMessage
from orun.runner.machine_facts import collect_facts
from orun.store import Action, ImplicitDependencies, Store

SNAPSHOT = Snapshot("0" * 64, "pipeline.yaml")
Answer = Callable[["FakeFleet", Order, str], list[FleetMessage]]


@dataclass
class FakeFleet:
    """Machines that answer each order at the next `wait`.

    Attributes:
        file: the pipeline file.
        folder: holds the store of the machines.
        labels: of each machine, by its id.
        cores: of each machine.
        answers: answers to the next orders of a stage, by its id; a result when there is none.
        drivers: version of the GPU's driver by machine: a component of every key there.
        missing: why a machine cannot run a stage, by both.
        orders: the orders so far, with their machines.
        busiest: how many orders were under way at once, by machine.
        stores: of machines, by their ids.
        closed: how often the fleet was closed.
        news: messages that come before all others.
        gone: machines that left the fleet.
        waiting: orders without an answer, with their machines.
    """

    file: Path
    folder: Path
    labels: Mapping[str, Mapping[str, str]]
    cores: int = 2
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    drivers: dict[str, str] = field(default_factory=dict)
    missing: dict[tuple[str, str], str] = field(default_factory=dict)
    orders: list[tuple[str, str]] = field(default_factory=list)
    busiest: dict[str, int] = field(default_factory=dict)
    stores: dict[str, str] = field(default_factory=dict)
    closed: int = 0
    news: list[FleetMessage] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    waiting: list[tuple[Order, str]] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)

    def machines(self) -> tuple[Machine, ...]:
        """Those that are there."""
        there = ((name, labels) for name, labels in self.labels.items() if name not in self.gone)
        return tuple(Machine(name, labels, self.cores, store=self.stores.get(name, "")) for name, labels in there)

    def facts(self, snapshot: Snapshot, remote: str) -> tuple[MachineFacts, ...]:
        """The facts of this machine, changed a little."""
        assert snapshot == SNAPSHOT
        assert remote.startswith("file://")
        self._known = {machine.id for machine in self.machines()}
        here = collect_facts(load(self.file, {}), "", Resources(self.cores, None, 0))
        return tuple(self._facts(here, machine.id) for machine in self.machines())

    def look(self, snapshot: Snapshot, remote: str) -> None:
        """Say at the next `wait` who is there that was not at the last look."""
        known = self._known
        facts = {facts.machine: facts for facts in self.facts(snapshot, remote)}
        self.news += [Joined(each, facts[each.id]) for each in self.machines() if each.id not in known]

    def _facts(self, here: MachineFacts, name: str) -> MachineFacts:
        driver = self.drivers.get(name)
        more = (KeyComponent(ComponentKind.DEVICE, "gpu driver_version", value=driver),) if driver else ()
        stages = {
            stage: replace(
                here.find_facts(stage),
                components=(*here.find_facts(stage).components, *more),
                missing=(self.missing[name, stage],)
                if (name, stage) in self.missing
                else here.find_facts(stage).missing,
            )
            for stage in here.stages
        }
        return MachineFacts.collect(name, stages, here.packages, here.variables)

    def start(self, order: Order, machine: str) -> None:
        """Take an order."""
        self.orders.append((order.stage, machine))
        self.waiting.append((order, machine))
        under_way = sum(name == machine for _, name in self.waiting)
        self.busiest[machine] = max(self.busiest.get(machine, 0), under_way)

    def wait(self, timeout: float) -> list[FleetMessage]:
        """Answer the first order."""
        del timeout
        if news := self.news:
            self.news = []
            return news
        if not self.waiting:
            return []
        order, machine = self.waiting.pop(0)
        answers = self.answers.get(order.stage)
        answer = answers.pop(0) if answers else build
        return answer(self, order, machine)

    def wake(self) -> None:
        """Nothing waits."""

    def cancel(self, stage: str) -> None:
        """Forget an order."""
        self.waiting = [(order, machine) for order, machine in self.waiting if order.stage != stage]

    def close(self) -> None:
        """Forget all orders."""
        self.closed += 1
        self.waiting.clear()

    def machine_of(self, stage: str) -> list[str]:
        """The machines that had an order of a stage, in order."""
        return [machine for name, machine in self.orders if name == stage]


def build(fleet: FakeFleet, order: Order, machine: str) -> list[FleetMessage]:
    """Store and push a file as the result."""
    store = Store.open(fleet.folder)
    planner = Planner(load(fleet.file, {}), store)
    stage = planner.pipeline.stage(order.stage)
    output = store.make_session_folder(order.stage)
    (output / "text").write_text(f"{order.stage} on {machine}")
    log = output.parent / f"{output.name}.log"
    log.write_text("done\n")
    tree = store.add_tree(output)
    action = Action(
        key=order.key,
        components=order.components,
        implicit_deps=ImplicitDependencies(),
        tree=tree.digest,
        size=tree.size,
        metrics={},
        log=store.add_file(log),
        pipeline=planner.pipeline.name,
        stage=order.stage,
        host={
            "host": machine,
            "machine": machine,
            **{c.subject: c.value for c in order.components if c.kind == ComponentKind.DEVICE},
        },
        started_at=time(),
        seconds=0.1,
        cpu_seconds=0.1,
        peak_memory=1,
    )
    store.put_action(action)
    events: list[Event] = []
    sync = Sync(Settings(order.remote, "read-write"), planner, events.append)
    assert sync.uploads.share(Step(stage, "run", ()), action, repair=order.repair) == ""
    sync.finish()
    store.close()
    return [
        LogText(order.stage, f"built on {machine}\n"),
        Built(order.stage, sign(encode_record(action), Keyring()).decode()),
    ]


def lose(fleet: FakeFleet, order: Order, machine: str) -> list[FleetMessage]:
    """The machine is gone, with every order that it has."""
    fleet.gone.add(machine)
    lost = [order, *(item for item, name in fleet.waiting if name == machine)]
    fleet.waiting = [(item, name) for item, name in fleet.waiting if name != machine]
    return [Lost(item.stage, machine, "no answer for 15 s") for item in lost]


def hand_back(fleet: FakeFleet, order: Order, machine: str) -> list[FleetMessage]:
    """The agent stops before the stage starts."""
    fleet.gone.add(machine)
    return [Lost(order.stage, machine, "its agent stops", started=False)]


def damage_objects(remote: str) -> None:
    """Change a byte of each object in a remote."""
    for path in Path(remote.removeprefix("file://")).glob("objects/*/*"):
        path.chmod(0o644)
        path.write_bytes(b"?" + path.read_bytes()[1:])


def build_damaged(fleet: FakeFleet, order: Order, machine: str) -> list[FleetMessage]:
    """The result is damaged on its way to the remote."""
    messages = build(fleet, order, machine)
    damage_objects(order.remote)
    return messages


def lack(fleet: FakeFleet, order: Order, machine: str) -> list[FleetMessage]:
    """The machine finds the result of `make` damaged in the remote."""
    del fleet
    damage_objects(order.remote)
    failure = Failure("StageFailed", f"{machine} did not get the result of make", "it was damaged")
    return [Failed(order.stage, machine, failure, lacks="make")]


def push_nothing(fleet: FakeFleet, order: Order, machine: str) -> list[FleetMessage]:
    """The result does not arrive in the remote, or not with a good signature."""
    del fleet, machine
    return [Built(order.stage, "no record")]


def fail(fleet: FakeFleet, order: Order, machine: str) -> list[FleetMessage]:
    """The stage raises."""
    del fleet
    command = f"orun pipeline.yaml --only {order.stage}"
    failure = Failure(
        "StageFailed",
        f"{order.stage} raised ValueError: no",
        "at stages.py:7",
        f"Ship it\nIts log: /agent/log\nRun it alone: {command}",
        "/agent/log",
        "Ship it",
        command,
    )
    return [LogText(order.stage, "Traceback\n"), Failed(order.stage, machine, failure)]


def refuse(fleet: FakeFleet, order: Order, machine: str) -> list[FleetMessage]:
    """The driver of the machine's GPU has changed."""
    fleet.drivers[machine] = f"{float(fleet.drivers.get(machine, '580.0')) + 0.5}"
    changed = build_reason("device-changed", subject="gpu driver_version", old="580.0", new=fleet.drivers[machine])
    return [Refused(order.stage, machine, (changed,))]
