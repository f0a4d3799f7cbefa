"""Download from a remote: results of stages, and artifacts by their digest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from orun.core.events import Notice
from orun.core.serialization import replace
from orun.fs.digests import digest_bytes
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.remote.artifacts import Artifacts, Download, Steps
from orun.remote.connection import Connection
from orun.remote.envelope import RefusedError
from orun.remote.known_results import CheckedResults, KnownResults
from orun.remote.transfers import Records, Transfers
from orun.remote.validation import validate_record
from orun.remote.variables import unkey_states
from orun.store import Action

if TYPE_CHECKING:
    from orun.core.machines import Built

POLL_SECONDS = 0.05
MOST = 64  # downloads at a time; each holds the lock of its key


@dataclass
class Downloads:
    """Downloads of one run. Everything but the transfers happens in the thread of the run."""

    connection: Connection
    planner: Planner
    known: KnownResults  # to be in the remote
    left: Collection[str] = ()  # ids of stages of which only the records are fetched
    checked: CheckedResults = field(default_factory=CheckedResults)  # found complete in the remote
    results: int = 0  # how many arrived
    _running: dict[str, Download] = field(default_factory=dict)
    _ended: set[tuple[str, str]] = field(default_factory=set)
    _fetched: set[tuple[str, str]] = field(default_factory=set)
    _arrived: dict[str, Action] = field(default_factory=dict)
    _met: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._artifacts = Artifacts(self.planner.store, self.connection.emit)

    @property
    def size(self) -> int:
        """Bytes that arrived."""
        return self._artifacts.size

    def wants(self, step: Step) -> bool:
        """Return whether to look for a stage's result before it runs: once a key.

        Of a measurement only the files of a result that another machine has made for this one are looked for.
        """
        name, planner = step.stage.id, self.planner
        if self.connection.state == "down" or name in planner.force:
            return False
        if step.action != "run" or not step.key or (name, step.key) in self._ended:
            return False
        return not self._is_measurement(step) or (
            not planner.fresh and any(action in self.known for action in planner.store.list_actions(step.key))
        )

    def _is_measurement(self, step: Step) -> bool:
        return self.planner.pipeline.kinds[step.stage.uses].spec.stage_class == "measurement"

    @property
    def full(self) -> bool:
        """Whether no more results may be looked for at present."""
        return len(self._running) >= MOST

    def fetch(self, step: Step) -> bool:
        """Continue the download of a stage's result; return whether it has ended. Never waits.

        Raises:
            RemoteError: if the remote fails and is required.
        """
        name = step.stage.id
        if name not in self._running:
            self._begin(name, self._fetch_result(step))
        if not self._advance(name):
            return False
        self._ended.add((name, step.key))
        return True

    def take(self, step: Step, built: Built) -> bool:
        """Continue to fetch a result that another machine has built; return whether that has ended. Never waits."""
        name = step.stage.id
        if name not in self._running:
            self._begin(name, self._take_built(step, built))
        return self._advance(name)

    def take_arrived(self, step: Step) -> Action | None:
        """Return the result that `take` has fetched; None if it did not arrive, or is not accepted."""
        return self._arrived.pop(step.stage.id, None)

    def is_fetched(self, step: Step) -> bool:
        """Return whether the result of a stage came from the remote in this run."""
        return (step.stage.id, step.key) in self._fetched

    def fetch_models(self, models: Mapping[str, str]) -> None:
        """Fetch accepted models that are not in the store, by the stage that compares with each, and wait for them.

        Raises:
            RemoteError: if the remote fails and is required.
        """
        for name, digest in models.items():
            self._begin(name, self._artifacts.fetch(name, digest, noun="the accepted model"))
        while waiting := [name for name in list(self._running) if not self._advance(name)]:
            if self.connection.state == "down":
                for name in waiting:
                    del self._running[name]
                return
            self.connection.wait(POLL_SECONDS)

    def _begin(self, name: str, steps: Steps) -> None:
        self._running[name] = Download(steps, self.connection.submit)

    def _advance(self, name: str) -> bool:
        """Continue a download as far as results are there; return whether it has ended."""
        download = self._running[name]
        if not download.advance():
            return False
        del self._running[name]
        if download.failure:
            self.connection.fail(download.failure, name, "read")
        return True

    def _fetch_result(self, step: Step) -> Steps:
        """Fetch what is damaged or missing of a result in the store, else a result of the step's key."""
        stored = yield from self._complete_stored(step)
        if stored or self._is_measurement(step):
            return stored
        fetch = self._check if step.stage.id in self.left else partial(self._fetch_artifact, step.stage.id)

        def take(records: Records, problems: list[str]) -> Steps:
            for action in self._validate(step, records, problems):
                if not self.planner.list_changes(step.stage, action) and (yield from fetch(action)):
                    self.planner.store.put_action(action)
                    self.known.add(action)
                    return self._note(step)
            return False

        return (yield from self._artifacts.take_record(step.stage.id, step.key, take))

    def _complete_stored(self, step: Step) -> Steps:
        """Fetch what a result in the store lacks, or see that the remote has it; return whether there is a result."""
        store, name = self.planner.store, step.stage.id
        for action in store.list_actions(step.key):
            if self.planner.list_changes(step.stage, action):
                continue
            if not store.check(action.tree):
                return True  # another run has stored it meanwhile
            if name in self.left:
                if (yield from self._check(action)):
                    return True
                continue
            was_left = action in self.known and store.read_tree(action.tree) is None
            if (yield from self._fetch_artifact(name, action)):
                if not was_left:
                    text = f"{name}: what was damaged or missing was refetched from the remote"
                    self.connection.emit(Notice("warning", text))
                return self._note(step)
        return False

    def _take_built(self, step: Step, built: Built) -> Steps:
        """Take the record that a machine has sent, and fetch its files. The run has its log already."""
        name = step.stage.id
        records = yield partial(Transfers.open, record=built.record.encode())
        problems = [*records.refused]
        actions = self._validate(step, records, problems)
        self._artifacts.refuse(name, problems)
        for action in actions:
            if name in self.left:
                self.checked.add(action)
            elif not (yield from self._artifacts.fetch(name, action.tree, size=action.size)):
                return False
            self.planner.store.put_action(action)
            self.known.add(action)
            self._arrived[name] = action
        return name in self._arrived

    def _note(self, step: Step) -> bool:
        self.results += 1
        self._fetched.add((step.stage.id, step.key))
        return True

    def _validate(self, step: Step, records: Records, problems: list[str]) -> list[Action]:
        """Return the records that are valid results of a step; add to the problems why others are refused."""
        actions: list[Action] = []
        for record in records.accepted:
            try:
                action = validate_record(step, record)
                facts = self.planner.find_facts(step.machine)
                present = {name: facts.read_variable(name) for name in action.implicit_deps.environment}
                action = unkey_states(action, self.planner.pipeline.private, present)
                shared = {name: self._intern(getattr(action, name)) for name in ("host", "implicit_deps")}
                actions.append(replace(action, **shared))
            except RefusedError as error:
                problems.append(f"a record of key {step.key}: {error}")
        return actions

    def _intern(self, value: object) -> object:
        """Return an equal value of an earlier result, if there is one: a run holds thousands of results."""
        return self._met.setdefault(digest_bytes(repr(value).encode()), value)

    def _check(self, action: Action) -> Steps:
        """Find out whether an artifact is complete in the remote."""
        if not (yield partial(Transfers.is_complete, tree=action.tree)):
            return False
        self.checked.add(action)
        return True

    def _fetch_artifact(self, name: str, action: Action) -> Steps:
        return self._artifacts.fetch(name, action.tree, size=action.size, log=action.log)
