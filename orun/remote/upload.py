"""Upload of a run's results to its remote, in the background."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from time import monotonic

from orun.core.events import Notice
from orun.core.serialization import encode
from orun.fs.os_errors import refusals
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.remote.client import BrokenError
from orun.remote.connection import Link, Message, TroubleError
from orun.remote.known_results import Ledger
from orun.remote.variables import held_back, keyed
from orun.store import Action
from orun.store.checksummed_json import canonical

POLL_SECONDS = 0.05
SILENCE = 1.0  # seconds that a run may go on for pushes without saying why


@dataclass
class Outgo:
    """Gives results.

    Attributes:
        link: to the remote.
        planner: knows stages and store.
        ledger: what is known to be in the remote.
        results: how many went.
        size: bytes that went.
        complete: whether every result that should be there is.
        held_back: stages whose results stay here, with the variables that are why.
    """

    link: Link
    planner: Planner
    ledger: Ledger
    results: int = 0
    size: int = 0
    complete: bool = True
    held_back: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _pushes: dict[int, Action] = field(default_factory=dict)

    @property
    def pending(self) -> int:
        """How many results are on their way."""
        return len(self._pushes)

    def push(self, step: Step, action: Action, *, new: bool) -> None:
        """Begin to give a result to the remote if it takes it and is not known to have it. Never waits.

        A new one is offered anyway: had it been there, and whole, it would have been fetched.
        """
        spec = self.planner.pipeline.kinds[step.stage.uses].spec
        if self.link.settings.mode == "read" or spec.stage_class == "measurement":
            return
        if not new and action in self.ledger:
            return
        if names := held_back(action):
            self.held_back[action.stage] = tuple(sorted(names))
            return
        if self.link.state != "usable":
            self.complete = False
            return
        record = canonical(encode(keyed(action))).decode("ascii")
        message = {"do": "push", "key": action.key, "record": record, "pieces": self._pieces(action)}
        self._pushes[self.link.ask(message)] = action

    def _pieces(self, action: Action) -> list[tuple[str, int, str]]:
        """Every object of a result: digest, size, file."""
        store, objects = self.planner.store, self.planner.store.parts.objects
        tree = store.tree(action.tree)
        sizes = {entry.digest: entry.size for entry in tree.entries} if tree else {}
        with refusals("read from the store", store.root):
            for digest in (action.tree, action.log):
                if not objects.problem(digest):
                    sizes[digest] = os.lstat(objects.path(digest)).st_size
        return [(digest, size, objects.path(digest)) for digest, size in sizes.items()]

    def gather(self) -> None:
        """Hear how pushes went. Never waits.

        Raises:
            RemoteError: when one failed and the remote is required.
        """
        for number, action in list(self._pushes.items()):
            try:
                answer = self.link.answer(number)
            except (TroubleError, BrokenError) as error:
                del self._pushes[number]
                self.complete = False
                self.link.fail(error, action.stage, "written")
            else:
                if answer is not None:
                    del self._pushes[number]
                    self._pushed(action, answer)

    def _pushed(self, action: Action, answer: Message) -> None:
        self.ledger.add(action)
        self.size += answer["sent"]
        if answer["first"] == action.tree:
            self.results += 1
            return
        text = f"{action.stage}: the remote has another result of the same inputs, which came first and stays"
        self.link.emit(Notice("info", text))

    def drain(self) -> None:
        """Wait for every push; after a while, say so.

        Raises:
            RemoteError: when one failed and the remote is required.
        """
        patient = monotonic() + SILENCE
        self.gather()
        while self._pushes:
            if patient and monotonic() > patient:
                patient = 0.0
                text = f"pushing {count(self.pending)} to the remote {self.link.settings.url}"
                self.link.emit(Notice("info", text))
            self.link.wait(POLL_SECONDS)
            self.gather()

    def abandon(self) -> None:
        """What is not there by now goes another time."""
        self.complete = self.complete and not self._pushes
        self._pushes.clear()


def count(results: int) -> str:
    """`1 result`, `2 results`."""
    return f"{results} result" if results == 1 else f"{results} results"
