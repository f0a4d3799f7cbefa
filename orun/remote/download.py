"""Download from a remote: results of stages, artifacts by their digest."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orun.core.events import Notice, StageWaiting
from orun.fs.os_errors import ensure_space, refusals
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.remote.client import BrokenError
from orun.remote.connection import Link, Message, TroubleError
from orun.remote.envelope import RefusedError
from orun.remote.known_results import Ledger
from orun.remote.names import UNKNOWN
from orun.remote.validation import listed, offered
from orun.remote.variables import unkeyed
from orun.store import Action, Tree
from orun.store.objects import Incoming
from orun.text.units import show

Asking = Generator[Message, Any, bool]  # asks one thing after the other; whether it got what it was for
Piece = tuple[str, int, str]  # digest, size, file: see `orun.remote.transfers.Piece`

POLL_SECONDS = 0.05
REFUSALS_SHOWN = 3  # of one stage


@dataclass
class Talk:
    """Something asked for: how it goes on, and the number of its question."""

    asking: Asking
    number: int = 0


@dataclass
class Intake:
    """Takes results.

    Attributes:
        link: to the remote.
        planner: decides what is up to date.
        ledger: what is known to be in the remote.
        results: how many came.
        size: bytes that came.
    """

    link: Link
    planner: Planner
    ledger: Ledger
    results: int = 0
    size: int = 0
    _talks: dict[str, Talk] = field(default_factory=dict)
    _asked: set[tuple[str, str]] = field(default_factory=set)
    _fetched: set[tuple[str, str]] = field(default_factory=set)

    def wants(self, step: Step) -> bool:
        """Whether a stage that would run is to be asked for first: once for each key, and never a measurement."""
        planner, name = self.planner, step.stage.id
        own = planner.pipeline.kinds[step.stage.uses].spec.stage_class == "measurement"
        if self.link.state == "down" or own or name in planner.force or step.action != "run" or not step.key:
            return False
        return (name, step.key) not in self._asked

    def fetch(self, step: Step) -> bool:
        """Go on asking for the result of a stage; whether there is an answer by now. Never waits.

        Raises:
            RemoteError: when the remote fails and is required.
        """
        name = step.stage.id
        if name not in self._talks:
            self._talks[name] = Talk(self._result(step))
        if not self._goes_on(name):
            return False
        self._asked.add((name, step.key))
        return True

    def brought(self, step: Step) -> bool:
        """Whether the result of a stage came from the remote in this run."""
        return (step.stage.id, step.key) in self._fetched

    def bring(self, models: Mapping[str, str]) -> None:
        """Wait for accepted models that are not here: digest of a tree by the stage that compares with it.

        Raises:
            RemoteError: when the remote fails and is required.
        """
        for name, digest in models.items():
            self._talks[name] = Talk(self._tree(name, digest, what="the accepted model"))
        while waiting := [name for name in list(self._talks) if not self._goes_on(name)]:
            if self.link.state == "down":
                for name in waiting:
                    del self._talks[name]
                return
            self.link.wait(POLL_SECONDS)

    def _goes_on(self, name: str) -> bool:
        """Take a talk as far as answers are there; whether it is over."""
        talk = self._talks[name]
        try:
            answer = self.link.answer(talk.number) if talk.number else None
            while answer is not None or not talk.number:
                talk.number = self.link.ask(talk.asking.send(answer))
                answer = self.link.answer(talk.number)
        except StopIteration:
            del self._talks[name]
        except (TroubleError, BrokenError) as error:
            del self._talks[name]
            self.link.fail(error, name, "read")
        return name not in self._talks

    def _result(self, step: Step) -> Asking:
        """Ask for what is damaged here, else for a result."""
        store, name = self.planner.store, step.stage.id
        for action in store.actions(step.key):
            if self.planner.changes(step.stage, action):
                continue
            if not store.check(action.tree):
                return False  # another run has stored it since that was looked up
            if (yield from self._artifact(name, action)):
                text = f"{name}: what was damaged or missing was refetched from the remote"
                self.link.emit(Notice("warning", text))
                return self._note(step)
        first, count = 0, 1  # most keys have one record: then a few more at a time
        while True:
            answer = yield {"do": "records", "key": step.key, "first": first, "count": count}
            for action in self._offered(step, answer):
                if not self.planner.changes(step.stage, action) and (yield from self._artifact(name, action)):
                    store.put_action(action)
                    self.ledger.add(action)
                    return self._note(step)
            if not answer["more"]:
                return False
            first, count = first + count, 3 * count

    def _note(self, step: Step) -> bool:
        self.results += 1
        self._fetched.add((step.stage.id, step.key))
        return True

    def _offered(self, step: Step, answer: Message) -> list[Action]:
        """The records of an answer that are to be believed."""
        found: list[Action] = []
        refused = list(answer["refused"])
        for record in answer["records"]:
            try:
                found.append(unkeyed(offered(step, record), self.planner.pipeline.private))
            except RefusedError as error:
                refused.append(f"a record of key {step.key}: {error}")
        self._refuse(step.stage.id, refused)
        return found

    def _artifact(self, name: str, action: Action) -> Asking:
        return self._tree(name, action.tree, size=action.size, log=action.log)

    def _tree(
        self, name: str, digest: str, *, size: int | None = None, log: str = "", what: str = "its result"
    ) -> Asking:
        """Bring what is missing of an artifact of so many bytes, and a log, on which nothing rests."""
        store = self.planner.store
        tree, text = store.tree(digest), ""
        if tree is None:
            answer = yield {"do": "read", "digest": digest}
            if answer["text"] is None:
                return self._refuse(name, [answer["problem"]])
            text = answer["text"]
            try:
                tree = Tree(digest, listed(text, size))
            except RefusedError as error:
                return self._refuse(name, [f"the list of files {digest}: {error}"])
        pieces = self._missing(name, tree, log)
        if expected := sum(piece[1] for piece in pieces if piece[1] != UNKNOWN):
            self.link.emit(StageWaiting(name, f"{what} from the remote, {show(expected, 'B')}"))
        answer = yield {"do": "fetch", "pieces": pieces}
        if answer["problems"]:
            return self._refuse(name, answer["problems"])
        self._take(name, pieces, answer["arrived"], text)
        return not store.check(digest)

    def _missing(self, name: str, tree: Tree, log: str) -> list[Piece]:
        """Each object of an artifact that is not here, and a place for it."""
        store, parts = self.planner.store, self.planner.store.parts
        with refusals(f"fetch {name} from the remote", store.root):
            sizes = {entry.digest: entry.size for entry in tree.entries if parts.objects.problem(entry.digest)}
            if sizes:
                ensure_space(parts.session.folder, sum(sizes.values()))
            if log and parts.objects.problem(log):
                sizes[log] = UNKNOWN
            return [(digest, size, parts.session.path("fetched")) for digest, size in sizes.items()]

    def _take(self, name: str, pieces: list[Piece], arrived: list[tuple[int, int] | None], text: str) -> None:
        """Make objects of the files that came, and of the list of files."""
        store = self.planner.store
        with refusals(f"store what was fetched of {name}", store.root):
            pairs = zip(pieces, arrived, strict=True)
            incoming = [Incoming(path, digest, *came) for (digest, _, path), came in pairs if came is not None]
            if text:
                incoming.append(store.parts.objects.from_bytes(text.encode("ascii")))
            store.parts.objects.commit(incoming)
        self.size += sum(one.size for one in incoming)

    def _refuse(self, name: str, problems: list[str]) -> bool:
        for problem in problems[:REFUSALS_SHOWN]:
            self.link.emit(Notice("warning", f"{name}: refused from the remote: {problem}"))
        if more := len(problems[REFUSALS_SHOWN:]):
            self.link.emit(Notice("warning", f"{name}: refused from the remote: {more} more"))
        return False
