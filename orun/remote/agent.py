"""The process that transfers: requests come in over a socket as JSON lines, and each is answered when it is done.

It dies with the run that started it, whatever it is doing: what has arrived of an object then is nobody's.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from orun.core.serialization import decode
from orun.environment.processes import die_with
from orun.errors import UsageError
from orun.executors.local.channel import Channel
from orun.remote.envelope import RefusedError
from orun.remote.settings import Settings
from orun.remote.transfers import Piece, Transfers
from orun.remote.trust import keyring

REQUESTS = 32  # under way at the same time; each waits for transfers
TRANSFERS = 8  # at the same time


def serve(connection: Channel) -> None:
    """Answer requests until the other end is gone, which raises EOFError."""
    try:
        transfers = _transfers(decode(Settings, connection.receive()))
    except UsageError as error:
        connection.send({"refused": [error.what, error.why, error.hint]})
        return
    requests, sending = ThreadPoolExecutor(REQUESTS, "request"), threading.Lock()

    def tell(number: int, done: Future[dict[str, Any]]) -> None:
        with ending_with_a_bug(), sending:
            connection.send({"number": number, **_told(done)})

    while True:
        message = connection.receive()
        future = requests.submit(_answer, transfers, message)
        future.add_done_callback(partial(tell, message["number"]))


@contextmanager
def ending_with_a_bug() -> Iterator[None]:
    """End the process with a traceback on an error that is not foreseen: the run says that it broke, and shows it."""
    try:
        yield
    except Exception:  # noqa: BLE001 - whatever it is, in whatever thread
        traceback.print_exc()
        os._exit(1)


def _transfers(settings: Settings) -> Transfers:
    from orun.store.object_storage import Bucket

    keys = keyring(settings.trusted)
    return Transfers(Bucket(settings.url), keys, ThreadPoolExecutor(TRANSFERS, "transfer"))


def _answer(transfers: Transfers, message: Mapping[str, Any]) -> dict[str, Any]:
    pieces = [Piece(*piece) for piece in message.get("pieces", ())]
    operations: Mapping[str, Callable[[], dict[str, Any]]] = {
        "records": lambda: transfers.records(message["key"], message["first"], message["count"]),
        "read": lambda: transfers.read(message["digest"]),
        "fetch": lambda: transfers.fetch(pieces),
        "push": lambda: transfers.push(message["key"], message["record"], pieces),
    }
    return operations[message["do"]]()


def _told(done: Future[dict[str, Any]]) -> dict[str, Any]:
    """The answer to a request, or what went wrong."""
    from orun.store.object_storage import DeniedError, UnreachableError

    error = done.exception()
    if error is None:
        return {"answer": done.result()}
    kinds = {DeniedError: "denied", UnreachableError: "unreachable", RefusedError: "refused", OSError: "here"}
    kind = next((name for one, name in kinds.items() if isinstance(error, one)), "")
    if not kind:
        raise error
    return {"error": kind, "text": str(error)}


def main() -> None:
    """`python -m orun.remote.agent DESCRIPTOR PARENT`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends this process
    die_with(int(sys.argv[2]), signal.SIGKILL)
    with ending_with_a_bug(), suppress(EOFError):
        serve(Channel.of(int(sys.argv[1])))
    os._exit(0)  # whatever is under way: nobody waits for it any more


if __name__ == "__main__":
    main()
