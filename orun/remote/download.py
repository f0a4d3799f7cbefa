"""Download from a remote: results of stages, and artifacts by their digest."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from orun.core.events import Notice
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.remote.artifacts import Artifacts, Steps
from orun.remote.connection import FAILURES, Connection
from orun.remote.envelope import RefusedError
from orun.remote.known_results import KnownResults
from orun.remote.transfers import Records, Transfers
from orun.remote.validation import validate_record
from orun.remote.variables import unkeyed
from orun.store import Action

if TYPE_CHECKING:
    from orun.core.machines import Built

POLL_SECONDS = 0.05


@dataclass
class Download:
    """A download in progress, and the operation that it waits for."""

    steps: Steps
    operation: Future[Any] | None = None


@dataclass
class Downloads:
    """Downloads of one run. Everything but the transfers happens in the thread of the run.

    Attributes:
        connection: to the remote.
        planner: decides what is up to date.
        known: results that are known to be in the remote.
        results: how many arrived.
    """

    connection: Connection
    planner: Planner
    known: KnownResults
    results: int = 0
    _running: dict[str, Download] = field(default_factory=dict)
    _ended: set[tuple[str, str]] = field(default_factory=set)
    _fetched: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._artifacts = Artifacts(self.planner.store, self.connection.emit)

    @property
    def size(self) -> int:
        """Bytes that arrived."""
        return self._artifacts.size

    def wants(self, step: Step) -> bool:
        """Return whether to look for a stage's result before it runs: once a key, never for a measurement."""
        planner, name = self.planner, step.stage.id
        is_measurement = planner.pipeline.kinds[step.stage.uses].spec.stage_class == "measurement"
        if self.connection.state == "down" or is_measurement or name in planner.force:
            return False
        return step.action == "run" and bool(step.key) and (name, step.key) not in self._ended

    def fetch(self, step: Step) -> bool:
        """Continue the download of a stage's result; return whether it has ended. Never waits.

        Raises:
            RemoteError: if the remote fails and is required.
        """
        name = step.stage.id
        if name not in self._running:
            self._running[name] = Download(self._result(step))
        if not self._advance(name):
            return False
        self._ended.add((name, step.key))
        return True

    def take(self, step: Step, built: Built) -> bool:
        """Continue to fetch a result that another machine has built; return whether that has ended. Never waits."""
        name = step.stage.id
        if name not in self._running:
            self._running[name] = Download(self._built(step, built))
        return self._advance(name)

    def is_result(self, step: Step, built: Built, action: Action) -> bool:
        """Return whether a result is the one that another machine has built: of measurements the very one."""
        spec = self.planner.pipeline.kinds[step.stage.uses].spec
        is_same = spec.stage_class != "measurement" or built.started_at in (0.0, action.started_at)
        return is_same and built.tree == action.tree

    def is_fetched(self, step: Step) -> bool:
        """Return whether the result of a stage came from the remote in this run."""
        return (step.stage.id, step.key) in self._fetched

    def fetch_models(self, models: Mapping[str, str]) -> None:
        """Fetch accepted models that are not in the store, and wait for them.

        Args:
            models: digest of the tree, by the stage that compares with it.

        Raises:
            RemoteError: if the remote fails and is required.
        """
        for name, digest in models.items():
            self._running[name] = Download(self._artifacts.fetch(name, digest, noun="the accepted model"))
        while waiting := [name for name in list(self._running) if not self._advance(name)]:
            if self.connection.state == "down":
                for name in waiting:
                    del self._running[name]
                return
            self.connection.wait(POLL_SECONDS)

    def _advance(self, name: str) -> bool:
        """Continue a download as far as results are there; return whether it has ended."""
        download = self._running[name]
        while download.operation is None or download.operation.done():
            # Not raised here: its traceback would keep this frame, and by it the store, alive.
            error = download.operation.exception() if download.operation else None
            if isinstance(error, FAILURES):
                del self._running[name]
                self.connection.fail(error, name, "read")
                return True
            result = download.operation.result() if download.operation else None
            try:
                download.operation = self.connection.submit(download.steps.send(result))
            except StopIteration:
                del self._running[name]
                return True
        return False

    def _result(self, step: Step) -> Steps:
        """Fetch what is damaged in the store, else a result of the step's key."""
        store, name = self.planner.store, step.stage.id
        for action in store.actions(step.key):
            if self.planner.changes(step.stage, action):
                continue
            if not store.check(action.tree):
                return False  # another run has stored it meanwhile
            if (yield from self._artifact(name, action)):
                text = f"{name}: what was damaged or missing was refetched from the remote"
                self.connection.emit(Notice("warning", text))
                return self._note(step)
        first, count = 0, 1  # most keys have one record
        while True:
            records = yield partial(Transfers.records, key=step.key, first=first, count=count)
            for action in self._validate(step, records):
                if not self.planner.changes(step.stage, action) and (yield from self._artifact(name, action)):
                    store.put_action(action)
                    self.known.add(action)
                    return self._note(step)
            if not records.more:
                return False
            first, count = first + count, 3 * count

    def _built(self, step: Step, built: Built) -> Steps:
        """Fetch the result that a machine has told of, not another one of its key."""
        first, count = 0, 1
        while True:
            records = yield partial(Transfers.records, key=step.key, first=first, count=count)
            for action in self._validate(step, records):
                if self.is_result(step, built, action) and (yield from self._artifact(step.stage.id, action)):
                    self.planner.store.put_action(action)
                    self.known.add(action)
                    return True
            if not records.more:
                return False
            first, count = first + count, 3 * count

    def _note(self, step: Step) -> bool:
        self.results += 1
        self._fetched.add((step.stage.id, step.key))
        return True

    def _validate(self, step: Step, records: Records) -> list[Action]:
        """Return the records that are valid results of a step."""
        actions: list[Action] = []
        problems = list(records.refused)
        for record in records.accepted:
            try:
                action = validate_record(step, record)
                present = self.planner.states_of(action.implicit_deps.environment, step.machine)
                actions.append(unkeyed(action, self.planner.pipeline.private, present))
            except RefusedError as error:
                problems.append(f"a record of key {step.key}: {error}")
        self._artifacts.refuse(step.stage.id, problems)
        return actions

    def _artifact(self, name: str, action: Action) -> Steps:
        return self._artifacts.fetch(name, action.tree, size=action.size, log=action.log)
