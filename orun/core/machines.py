"""Machines that run stages for another: who they are, what they know of a stage, what they are ordered to do.

Plain data: it crosses from the machine that plans (the driver) to the machines that run stages (agents) and back.
"""

from __future__ import annotations

from collections.abc import Mapping

from orun.core.key_component import Components
from orun.core.reason import Reason
from orun.core.run_record import Failure
from orun.core.serialization import Record, field


class Machine(Record, frozen=True):
    """Machine that can run stages.

    Attributes:
        id: its name, unique in the fleet.
        labels: what its owner says of it, such as `accelerator: T4`; `architecture` and `system` are always there.
        cores: cores that stages may use together.
        memory: bytes that they may use together; None if it is not known.
        gpus: GPUs that they may use together.
        orun: digest of orun's code; machines of one run have the same.
        python: its version, such as `3.11.9`.
        versions: version of each library of models that is installed there, such as `onnxruntime`.
        load: load average of its last minute, when it said so.
        free: bytes that are free on the disk of its store.
        store: host and file number of its store's folder: what two processes with one store have in common.
        clock: its time when it said so, in seconds since 1970.
    """

    id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    cores: int = 1
    memory: int | None = None
    gpus: int = 0
    orun: str = ""
    python: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    load: float = 0.0
    free: int | None = None
    clock: float = 0.0
    store: str = ""


class Snapshot(Record, frozen=True):
    """State of the user's project that a stage runs in.

    Attributes:
        tree: digest of its tree in the store, which is in the remote too.
        file: path of the pipeline file in it.
        overrides: the `--set` values of the run.
    """

    tree: str
    file: str
    overrides: Mapping[str, str] = field(default_factory=dict)


class StageFacts(Record, frozen=True):
    """Facts of one machine about one stage.

    Attributes:
        components: those of its key that the machine decides: versions, target, device, variables.
        missing: why it cannot run there; empty if it can.
        skipped: why it is skipped there: a provider of a target with `missing: skip` is not there.
    """

    components: Components = ()
    missing: tuple[str, ...] = ()
    skipped: Reason | None = None


class MachineFacts(Record, frozen=True):
    """Facts of one machine about the stages of a snapshot. Most stages of a pipeline share theirs.

    Attributes:
        machine: its id.
        facts: all that differ.
        stages: which of them are those of a stage, by its id.
        packages: version of each distribution and module that is installed there.
        variables: state of each environment variable that stages find there, as `Secrets.state` returns it.
        problem: why nothing is known: the snapshot did not arrive there from the remote; empty if it did.
    """

    machine: str
    facts: tuple[StageFacts, ...] = ()
    stages: Mapping[str, int] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @classmethod
    def collect(
        cls, machine: str, stages: Mapping[str, StageFacts], packages: Mapping[str, str], variables: Mapping[str, str]
    ) -> MachineFacts:
        """Return the facts of a machine, those of its stages by their ids."""
        numbers: dict[object, int] = {}
        facts: list[StageFacts] = []
        by_stage = {}
        for stage, item in stages.items():
            identity = item.components, item.missing, repr(item.skipped)
            if identity not in numbers:
                numbers[identity] = len(facts)
                facts.append(item)
            by_stage[stage] = numbers[identity]
        return cls(machine, tuple(facts), by_stage, packages, variables)

    def find_facts(self, stage: str) -> StageFacts:
        """Return the facts about a stage; none if the machine does not know it."""
        number = self.stages.get(stage)
        return StageFacts() if number is None else self.facts[number]


class Order(Record, frozen=True):
    """Stage for an agent to run.

    Attributes:
        stage: its id.
        key: the cache key that the driver expects; the agent refuses the order if its own differs.
        snapshot: the project.
        upstream: key of each stage before it, whose result is in the remote.
        remote: URL of the remote that driver and agents share.
        components: components of the key, from which the agent tells what differs if it refuses the order.
        trees: digest of the tree of each result in `upstream`: a key may have several results.
        again: run the stage even if the agent has a result of this key.
        repair: write all objects of the result to the remote, also those that seem to be there: some did not arrive.
    """

    stage: str
    key: str
    snapshot: Snapshot
    upstream: Mapping[str, str] = field(default_factory=dict)
    remote: str = ""
    components: Components = ()
    trees: Mapping[str, str] = field(default_factory=dict)
    again: bool = False
    repair: bool = False


class LogText(Record, frozen=True):
    """Complete lines that a stage has printed, secrets masked."""

    stage: str
    text: str


class Built(Record, frozen=True):
    """An agent has pushed the result of a stage to the remote.

    Attributes:
        stage: its id.
        record: the record of the result, signed, as it is in the remote. Another machine may have made it before.
        stored: whether the agent had it before the run asked for it, so that nothing ran.
    """

    stage: str
    record: str
    stored: bool = False


class Failed(Record, frozen=True):
    """A stage failed on an agent; nothing of it was stored.

    Attributes:
        stage: its id.
        machine: the agent's machine.
        failure: the error. Paths of the project in its texts are relative to the project; `log` is the agent's path of
            the log, which the texts may name too. The driver has the same lines in a log of its own.
        lacks: the stage before it whose result did not arrive from the remote, if that is why; it had not started then.
    """

    stage: str
    machine: str
    failure: Failure
    lacks: str = ""


class Refused(Record, frozen=True):
    """An agent does not run an order, because its own key of the stage differs: facts have changed meanwhile."""

    stage: str
    machine: str
    reasons: tuple[Reason, ...] = ()


class Lost(Record, frozen=True):
    """A machine that has an order cannot be reached any more, or hands the order back because it stops.

    Attributes:
        stage: of the order.
        machine: its id.
        why: the reason.
        started: whether the stage may have started there.
    """

    stage: str
    machine: str
    why: str
    started: bool = True


class Joined(Record, frozen=True):
    """A machine has joined during the run."""

    machine: Machine
    facts: MachineFacts


class Leaving(Record, frozen=True):
    """A machine takes no more orders, because its agent stops; it still works on some that it has."""

    machine: str
