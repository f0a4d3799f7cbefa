"""What a run takes from its remote and gives to it, stage by stage.

A stage that is not up to date here is asked for there: its records are looked at here, where it is known what the stage
would read; then the files that are missing come. A result that was made here goes there in the background. When the
remote fails, the run says so once and goes on without it, unless it is required.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal

from orun.codec import encode
from orun.errors import Interrupted, RemoteError
from orun.events import Event, Notice, StageWaiting
from orun.planner import Planner, Step
from orun.remote.client import BrokenError, Client
from orun.remote.envelope import RefusedError
from orun.remote.ledger import Ledger
from orun.remote.offers import listed, offered
from orun.remote.settings import Settings
from orun.remote.transfers import UNKNOWN
from orun.store import Action, Tree
from orun.store.objects import Incoming
from orun.store.refusals import ensure_space, refusals
from orun.store.sealed import canonical
from orun.units import show

Message = dict[str, Any]
Fetch = Generator[Message, Any, bool]
Piece = tuple[str, int, str]  # digest, size, file: see `orun.remote.transfers.Piece`

POLL_SECONDS = 0.05
SILENCE = 1.0  # seconds that a run may go on for pushes without saying why
REFUSALS_SHOWN = 3  # of one stage


class TroubleError(Exception):
    """The remote could not do what it was asked for: `kind` is that of the agent's answer."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass
class Talk:
    """A stage's fetch under way: what is asked, and under which number."""

    steps: Fetch
    number: int = 0


@dataclass
class Traffic:
    """What went over so far."""

    fetched: int = 0
    pushed: int = 0
    bytes_fetched: int = 0
    bytes_pushed: int = 0


@dataclass
class Exchange:
    """The remote of one run.

    Attributes:
        settings: where it is, and what for.
        planner: decides what is up to date.
        emit: takes notices.
        traffic: what went over.
        state: `usable`, `read` when it takes nothing more, or `down`.
        complete: whether every result that should be there is.
    """

    settings: Settings
    planner: Planner
    emit: Callable[[Event], None]
    traffic: Traffic = field(default_factory=Traffic)
    state: Literal["usable", "read", "down"] = "usable"
    complete: bool = True

    def __post_init__(self) -> None:
        self._client = Client(self.settings)
        self._ledger = Ledger(self.planner.store.root, self.settings.url)
        self._talks: dict[str, Talk] = {}
        self._asked: set[tuple[str, str]] = set()
        self._fetched: set[tuple[str, str]] = set()
        self._pushes: dict[int, Action] = {}

    # Taking

    def wants(self, step: Step) -> bool:
        """Whether a stage that would run is to be asked for first: once for each key, and never a measurement."""
        planner, name = self.planner, step.stage.id
        own = planner.pipeline.kinds[step.stage.uses].spec.stage_class == "measurement"
        if self.state == "down" or own or name in planner.force or step.action != "run" or not step.key:
            return False
        return (name, step.key) not in self._asked

    def fetch(self, step: Step) -> bool:
        """Go on asking for the result of a stage; whether there is an answer by now. Never waits.

        Raises:
            RemoteError: when the remote fails and is required.
        """
        name = step.stage.id
        try:
            if name not in self._talks:
                self._talks[name] = Talk(self._fetch(step))
                self._next(name, None)
            while name in self._talks:
                answer = self._client.answer(self._talks[name].number)
                if answer is None:
                    return False
                self._next(name, answer)
        except (TroubleError, BrokenError) as error:
            self._talks.pop(name, None)
            self._fail(error, name, "read")
        self._asked.add((name, step.key))
        return True

    def brought(self, step: Step) -> bool:
        """Whether the result of a stage came from the remote in this run."""
        return (step.stage.id, step.key) in self._fetched

    def wait(self, timeout: float) -> None:
        """Wait for an answer, at most so many seconds."""
        self._client.wait(timeout)

    def _next(self, name: str, answer: Mapping[str, Any] | None) -> None:
        """Take a fetch from one answer to its next question, or to its end."""
        talk = self._talks[name]
        try:
            message = talk.steps.send(None if answer is None else _good(answer))
        except StopIteration:
            del self._talks[name]
        else:
            talk.number = self._client.ask(message)

    def _fetch(self, step: Step) -> Fetch:
        """Ask for what is damaged here, else for a result; whether there is one now."""
        store, name = self.planner.store, step.stage.id
        for action in store.actions(step.key):
            if not self._changes(step, action) and (yield from self._tree(name, action)):
                self.emit(Notice("warning", f"{name}: what was damaged or missing was refetched from the remote"))
                self._note(step, action)
                return True
        first, count = 0, 1  # most keys have one record: then a few more at a time
        while True:
            answer = yield {"do": "records", "key": step.key, "first": first, "count": count}
            for action in self._offered(step, answer):
                if not self._changes(step, action) and (yield from self._tree(name, action)):
                    store.put_action(action)
                    self._note(step, action)
                    return True
            if not answer["more"]:
                return False
            first, count = first + count, 3 * count

    def _offered(self, step: Step, answer: Message) -> list[Action]:
        """The records of an answer that are to be believed."""
        found: list[Action] = []
        refused = list(answer["refused"])
        for record in answer["records"]:
            try:
                found.append(offered(step, record))
            except RefusedError as error:
                refused.append(f"a record of key {step.key}: {error}")
        self._refused(step.stage.id, refused)
        return found

    def _changes(self, step: Step, action: Action) -> list[str]:
        return self.planner.changes(step.stage, action)

    def _tree(self, name: str, action: Action) -> Generator[Message, Any, bool]:
        """Bring what is missing of an artifact; whether it is whole now."""
        store = self.planner.store
        text = ""
        tree = store.tree(action.tree)
        if tree is None:
            answer = yield {"do": "read", "digest": action.tree}
            if answer["text"] is None:
                return self._refused(name, [answer["problem"]])
            text = answer["text"]
            try:
                tree = Tree(action.tree, listed(text, action.size))
            except RefusedError as error:
                return self._refused(name, [f"the list of files {action.tree}: {error}"])
        pieces = self._missing(tree)
        if size := sum(piece[1] for piece in pieces):
            with refusals(f"fetch {name} from the remote", store.root):
                ensure_space(store.parts.session.folder, size)
            self.emit(StageWaiting(name, f"its result from the remote, {show(size, 'B')}"))
        if store.parts.objects.problem(action.log):
            pieces.append((action.log, UNKNOWN, store.parts.session.path("log")))  # nothing rests on it
        answer = yield {"do": "fetch", "pieces": pieces}
        if answer["problems"]:
            return self._refused(name, answer["problems"])
        self._take(pieces, answer["arrived"], text)
        return not store.check(action.tree)

    def _missing(self, tree: Tree) -> list[Piece]:
        """Each object of a tree that is not here, and a place for it."""
        parts = self.planner.store.parts
        sizes = {entry.digest: entry.size for entry in tree.entries if parts.objects.problem(entry.digest)}
        return [(digest, size, parts.session.path("fetched")) for digest, size in sizes.items()]

    def _take(self, pieces: list[Piece], arrived: list[tuple[int, int] | None], text: str) -> None:
        """Make objects of the files that came, and of the list of files."""
        store = self.planner.store
        with refusals("store what was fetched", store.root):
            incoming = [
                Incoming(path, digest, *came)
                for (digest, _, path), came in zip(pieces, arrived, strict=True)
                if came is not None
            ]
            if text:
                incoming.append(store.parts.objects.from_bytes(text.encode("ascii")))
            store.parts.objects.commit(incoming)
        self.traffic.bytes_fetched += sum(one.size for one in incoming)

    def _note(self, step: Step, action: Action) -> None:
        self.traffic.fetched += 1
        self._fetched.add((step.stage.id, step.key))
        self._ledger.add(action)

    def _refused(self, name: str, problems: list[str]) -> bool:
        for problem in problems[:REFUSALS_SHOWN]:
            self.emit(Notice("warning", f"{name}: refused from the remote: {problem}"))
        if more := len(problems[REFUSALS_SHOWN:]):
            self.emit(Notice("warning", f"{name}: refused from the remote: {more} more"))
        return False

    # Giving

    def push(self, step: Step, action: Action, *, new: bool) -> None:
        """Begin to give a result to the remote if it takes it and is not known to have it. Never waits.

        A new one is offered anyway: had it been there, and whole, it would have been fetched.
        """
        spec = self.planner.pipeline.kinds[step.stage.uses].spec
        if self.settings.mode == "read" or spec.stage_class == "measurement" or (not new and action in self._ledger):
            return
        if self.state != "usable":
            self.complete = False
            return
        record = canonical(encode(action)).decode("ascii")
        message = {"do": "push", "key": action.key, "record": record, "pieces": self._pieces(action)}
        self._pushes[self._client.ask(message)] = action

    def _pieces(self, action: Action) -> list[Piece]:
        """Every object of a result: digest, size, file."""
        store = self.planner.store
        tree, objects = store.tree(action.tree), store.parts.objects
        sizes = {entry.digest: entry.size for entry in tree.entries} if tree else {}
        for digest in (action.tree, action.log):
            path = objects.path(digest)
            with refusals("read from the store", store.root):
                if not objects.problem(digest):
                    sizes[digest] = _size(path)
        return [(digest, size, objects.path(digest)) for digest, size in sizes.items()]

    def gather(self) -> None:
        """Hear how pushes went. Never waits.

        Raises:
            RemoteError: when one failed and the remote is required.
        """
        for number, action in list(self._pushes.items()):
            try:
                answer = self._client.answer(number)
                if answer is None:
                    continue
                del self._pushes[number]
                self._pushed(action, _good(answer))
            except (TroubleError, BrokenError) as error:
                self._pushes.pop(number, None)
                self.complete = False
                self._fail(error, action.stage, "written")

    def _pushed(self, action: Action, answer: Message) -> None:
        self._ledger.add(action)
        self.traffic.bytes_pushed += answer["sent"]
        if answer["first"] == action.tree:
            self.traffic.pushed += 1
            return
        text = f"{action.stage}: the remote has another result of the same inputs, which came first and stays"
        self.emit(Notice("info", text))

    def finish(self) -> None:
        """Wait until everything is there, and say what went over.

        Raises:
            RemoteError: when something did not get there and the remote is required.
            Interrupted: when the user does not wait for it.
        """
        try:
            self._drain()
        except KeyboardInterrupt:
            text = f"{len(self._pushes)} results are not in the remote; the next run offers them again"
            self.emit(Notice("warning", text))
            raise Interrupted("interrupted") from None
        finally:
            self.close()
        traffic = self.traffic
        if traffic.fetched or traffic.pushed:
            told = [f"{traffic.fetched} fetched ({show(traffic.bytes_fetched, 'B')})"] if traffic.fetched else []
            told += [f"{traffic.pushed} pushed ({show(traffic.bytes_pushed, 'B')})"] if traffic.pushed else []
            self.emit(Notice("info", f"remote {self.settings.url}: {', '.join(told)}"))

    def _drain(self) -> None:
        """Wait for every push; after a while, say so."""
        patient = monotonic() + SILENCE
        self.gather()
        while self._pushes:
            if patient and monotonic() > patient:
                patient = 0.0
                noun = "result" if len(self._pushes) == 1 else "results"
                self.emit(Notice("info", f"pushing {len(self._pushes)} {noun} to the remote {self.settings.url}"))
            self._client.wait(POLL_SECONDS)
            self.gather()

    def close(self) -> None:
        """End every transfer; what is not there by now comes or goes another time."""
        self.complete = self.complete and not self._pushes
        self._pushes.clear()
        self._talks.clear()
        self._client.close()

    # Failing

    def _fail(self, error: TroubleError | BrokenError, name: str, doing: Literal["read", "written"]) -> None:
        """Say what failed and go on with less, or not at all."""
        kind = error.kind if isinstance(error, TroubleError) else "broken"
        if kind in {"here", "refused"}:
            way = "fetched from" if doing == "read" else "pushed to"
            self.emit(Notice("warning", f"{name}: not {way} the remote: {error}"))
            return
        words = {"denied": doing, "unreachable": "reached", "broken": f"{doing}: the process that transfers broke"}
        what = f"the remote {self.settings.url} cannot be {words[kind]}"
        if self.settings.required:
            self.close()
            hint = "See that it is there and lets you in, or go on without it: --remote off"
            raise RemoteError(what, why=str(error), hint=hint)
        before = self.state
        if before == "usable" or doing == "read":
            self.state = "read" if kind == "denied" and doing == "written" else "down"
        if self.state != before:
            without = (
                "nothing more is pushed, as with --remote-mode read"
                if self.state == "read"
                else "the run goes on without it"
            )
            self.emit(Notice("warning", f"{what}; {without}: {error}"))


def _good(answer: Mapping[str, Any]) -> Any:
    """What the agent answered; TroubleError when it could not."""
    if "error" in answer:
        raise TroubleError(answer["error"], answer["text"])
    return answer["answer"]


def _size(path: str) -> int:
    return os.lstat(path).st_size
