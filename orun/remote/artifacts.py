"""Artifacts and results from a remote, by digest and by key.

The steps of a download are a generator: it yields operations, is sent their results, and returns whether it got what it
was for. `Download` runs the operations; everything else happens in the caller's thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from orun.core.events import Event, Notice, StageWaiting
from orun.environment.secret_variables import Secrets
from orun.fs.os_errors import convert_os_errors, ensure_space
from orun.remote.connection import FAILURES
from orun.remote.envelope import RefusedError
from orun.remote.names import UNKNOWN
from orun.remote.transfers import Fetched, Piece, Records, Transfers
from orun.remote.validation import validate_file_list, validate_result
from orun.remote.variables import unkey_states
from orun.store import Store, Tree
from orun.store.objects import Incoming
from orun.text.units import show

Steps = Generator[Callable[[Transfers], Any], Any, bool]

REFUSALS_SHOWN = 3  # of one stage


class Download:
    """Download in progress, which never waits.

    Attributes:
        failure: one of `orun.remote.connection.FAILURES`, with which an operation ended the download; None if none did.
    """

    def __init__(self, steps: Steps, submit: Callable[[Callable[[Transfers], Any]], Future[Any]]) -> None:
        self.failure: Exception | None = None
        self._steps = steps
        self._submit = submit
        self._operation: Future[Any] | None = None

    def advance(self) -> bool:
        """Continue as far as results are there; return whether it has ended.

        Raises:
            OrunError: that the steps raise.
        """
        while self._operation is None or self._operation.done():
            # Not raised here: its traceback would keep this frame, and by it the store, alive.
            error = self._operation.exception() if self._operation else None
            if isinstance(error, FAILURES):
                self.failure = error
                return True
            result = self._operation.result() if self._operation else None
            try:
                self._operation = self._submit(self._steps.send(result))
            except StopIteration:
                return True
        return False


@dataclass
class Artifacts:
    """Downloads into a store."""

    store: Store
    emit: Callable[[Event], None]
    size: int = 0  # bytes that arrived

    def fetch(
        self, name: str, digest: str, *, size: int | None = None, log: str = "", noun: str = "its result"
    ) -> Steps:
        """Fetch the missing objects of an artifact.

        Args:
            name: the stage that it belongs to, for notices.
            digest: of its tree.
            size: bytes of its files; None if not known.
            log: digest of the log that comes with it; empty if none does.
            noun: the artifact in notices.
        """
        store, file_list = self.store, b""
        tree = store.read_tree(digest)
        if tree is None:
            answer = yield partial(Transfers.read_file_list, digest=digest)
            if isinstance(answer, RefusedError):
                return self.refuse(name, [str(answer)])
            file_list = answer
            try:
                tree = Tree(digest, validate_file_list(file_list, size))
            except RefusedError as error:
                return self.refuse(name, [f"the list of files {digest}: {error}"])
        pieces = self._list_missing(name, tree, log)
        if expected := sum(piece.size for piece in pieces if piece.size != UNKNOWN):
            self.emit(StageWaiting(name, f"{noun} from the remote, {show(expected, 'B')}"))
        fetched = yield partial(Transfers.fetch, pieces=pieces)
        if fetched.problems:
            return self.refuse(name, fetched.problems)
        self._store(name, pieces, fetched, file_list)
        return not store.check(digest)

    def fetch_result(self, name: str, key: str, tree: str, secrets: Secrets, *, noun: str, artifact: bool) -> Steps:
        """Fetch the result of a key, wherever it was made, unless the store has it. Its log stays there.

        Args:
            name: the stage, for notices.
            key: the key.
            tree: digest of the tree of its result; empty if any will do.
            secrets: the variables whose values do not count.
            noun: the result in notices.
            artifact: fetch the artifact too, and not only the record.
        """
        for action in self.store.list_actions(key):
            if tree in ("", action.tree) and not (artifact and self.store.check(action.tree)):
                return True

        def take(records: Records, problems: list[str]) -> Steps:
            for record in records.accepted:
                try:
                    action = unkey_states(validate_result(key, record), secrets)
                except RefusedError as error:
                    problems.append(f"a record of key {key}: {error}")
                    continue
                if tree not in ("", action.tree):
                    continue
                if artifact and not (yield from self.fetch(name, action.tree, size=action.size, noun=noun)):
                    continue
                self.store.put_action(action)
                return True
            return False

        return (yield from self.take_record(name, key, take))

    def take_record(self, name: str, key: str, take: Callable[[Records, list[str]], Steps]) -> Steps:
        """Read the records of a key, a few at a time, until one is taken; else say why records were refused.

        Args:
            name: the stage, for notices.
            key: the key.
            take: returns whether it took one of these records, and adds to the problems why it refused others.
        """
        problems: list[str] = []
        first, count = 0, 1  # most keys have one record
        while True:
            records = yield partial(Transfers.read_records, key=key, first=first, count=count)
            problems += records.refused
            if (yield from take(records, problems)):
                return True
            if not records.more:
                return self.refuse(name, problems)
            first, count = first + count, 3 * count

    def refuse(self, name: str, problems: Sequence[str]) -> bool:
        """Emit why something from the remote is refused; return False."""
        for problem in problems[:REFUSALS_SHOWN]:
            self.emit(Notice("warning", f"{name}: refused from the remote: {problem}"))
        if more := len(problems[REFUSALS_SHOWN:]):
            self.emit(Notice("warning", f"{name}: refused from the remote: {more} more"))
        return False

    def _list_missing(self, name: str, tree: Tree, log: str) -> list[Piece]:
        """Return each object of an artifact that is not in the store, with a temporary file for it."""
        parts = self.store.parts
        with convert_os_errors(f"fetch {name} from the remote", self.store.root):
            sizes = {entry.digest: entry.size for entry in tree.entries if parts.objects.find_problem(entry.digest)}
            if sizes:
                ensure_space(parts.session.folder, sum(sizes.values()))
            if log and parts.objects.find_problem(log):
                sizes[log] = UNKNOWN
            return [Piece(digest, size, parts.session.choose_path("fetched")) for digest, size in sizes.items()]

    def _store(self, name: str, pieces: list[Piece], fetched: Fetched, file_list: bytes) -> None:
        """Make objects of the files that arrived, and of the list of files."""
        objects = self.store.parts.objects
        with convert_os_errors(f"store what was fetched of {name}", self.store.root):
            pairs = zip(pieces, fetched.arrived, strict=True)
            incoming = [Incoming(piece.path, piece.digest, *arrived) for piece, arrived in pairs if arrived]
            if file_list:
                incoming.append(objects.from_bytes(file_list))
            objects.commit(incoming)
        self.size += sum(file.size for file in incoming)


def list_pieces(store: Store, digest: str, *other_objects: str) -> list[Piece]:
    """Return what a store has of the objects of an artifact, and of other objects, to be pushed."""
    tree, objects = store.read_tree(digest), store.parts.objects
    sizes = {entry.digest: entry.size for entry in tree.entries} if tree else {}
    with convert_os_errors("read from the store", store.root):
        for name in (digest, *other_objects):
            if not objects.find_problem(name):
                sizes[name] = os.lstat(objects.locate(name)).st_size
    return [Piece(name, size, objects.locate(name)) for name, size in sizes.items()]
