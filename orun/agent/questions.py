"""Questions of drivers for the facts of this machine about a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from orun.agent.frames import FactsFailed, FactsRequest, Message
from orun.agent.orders import fetch_project
from orun.agent.portability import to_failure
from orun.agent.project_folders import ProjectFolders
from orun.agent.remotes import Remotes
from orun.core.events import Event, Notice
from orun.core.machines import Machine, MachineFacts
from orun.environment.resources import Resources
from orun.errors import OrunError, UsageError
from orun.remote.artifacts import Artifacts, Download, Steps
from orun.remote.transfers import Transfers
from orun.runner.machine_facts import collect_facts
from orun.store import Store


@dataclass(eq=False)
class Question:
    """A question whose snapshot is on its way."""

    owner: object
    request: FactsRequest
    machine: Machine
    store: Store
    folders: ProjectFolders
    remotes: Remotes
    send: Callable[[Message], None]
    _events: list[Event] = field(default_factory=list)
    _lacks_project: bool = False

    def __post_init__(self) -> None:
        self._download = Download(self._run_steps(), partial(self.remotes.submit, self.request.remote))

    def _run_steps(self) -> Steps:
        yield Transfers.forget  # a run begins: somebody may have emptied the remote since the last one
        artifacts = Artifacts(self.store, self._events.append)
        return (yield from fetch_project("project", self.request.snapshot, artifacts, self.folders))

    def advance(self) -> bool:
        """Continue as far as it goes without waiting; send the answer and return True at the end.

        Raises:
            Exception: one of `orun.remote.connection.FAILURES`, if the remote fails.
        """
        try:
            if not self._download.advance():
                return False
            if self._download.failure:
                raise self._download.failure
            answer: Message = self._collect_facts()
        except OrunError as error:
            failure = to_failure(error, self.machine.id, self.folders.read_place(self.request.snapshot))
            answer = FactsFailed(failure, self._lacks_project)
        self.send(answer)
        return True

    def _collect_facts(self) -> MachineFacts:
        """Return the facts; UsageError if the snapshot did not arrive."""
        snapshot = self.request.snapshot
        if not self.folders.has(snapshot) and self.store.check(snapshot.tree):
            self._lacks_project = True
            text = f"{self.machine.id} did not get the project from the remote {self.request.remote}"
            texts = [event.text for event in self._events if isinstance(event, Notice)]
            raise UsageError(text, why="\n".join(texts))
        pipeline = self.folders.load_project(snapshot).planner.pipeline
        resources = Resources(self.machine.cores, self.machine.memory, self.machine.gpus)
        return collect_facts(pipeline, self.machine.id, resources)
