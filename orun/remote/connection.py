"""Connection of one run to its remote: runs transfers in threads, and holds the rule for a remote that fails."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Event as Flag
from typing import Literal, TypeVar

from orun.core.events import Event, Notice
from orun.environment.secret_variables import Secrets
from orun.errors import RemoteError
from orun.executors import Mask
from orun.remote.envelope import RefusedError
from orun.remote.settings import Settings
from orun.remote.thread_pool import DaemonThreadPool
from orun.remote.transfers import Transfers
from orun.remote.trust import read_keyring
from orun.store.object_storage import Bucket, DeniedError, UnreachableError

T = TypeVar("T")

REQUESTS = 32  # operations at the same time; each waits for its transfers
TRANSFERS = 8  # transfers at the same time
FAILURES = (DeniedError, UnreachableError, RefusedError, OSError)  # of an operation


@dataclass
class Connection:
    """Runs operations on a remote in threads; belongs to the thread of the run."""

    settings: Settings
    emit: Callable[[Event], None]
    wake: Callable[[], None] = lambda: None  # called by another thread when an operation has ended
    state: Literal["usable", "read", "down"] = "usable"  # `read` when it accepts nothing more

    def __post_init__(self) -> None:
        self._requests = DaemonThreadPool(REQUESTS)
        self._transfers = DaemonThreadPool(TRANSFERS)
        self._closed = Flag()
        self._news = Flag()
        self._opened: Future[Transfers] | None = None

    def submit(self, operation: Callable[[Transfers], T]) -> Future[T]:
        """Start an operation.

        Returns:
            Its result, which may raise one of `FAILURES`; UsageError if a key is not usable.
        """
        opened, news, wake = self._opened, self._news, self.wake
        if opened is None or (opened.done() and opened.exception()):  # it may be there by now
            opened = self._opened = self._requests.submit(_open, self.settings, self._transfers, self._closed)
        future = self._requests.submit(lambda: operation(opened.result()))

        def tell(_: Future[T]) -> None:  # without this object, which must not outlive the run
            news.set()
            wake()

        future.add_done_callback(tell)
        return future

    def wait(self, timeout: float) -> None:
        """Wait until an operation has ended, at most so many seconds."""
        self._news.wait(timeout)
        self._news.clear()

    def close(self) -> None:
        """Cancel all operations without waiting. Requests that are under way end by themselves."""
        self._closed.set()
        self._requests.shutdown()
        self._transfers.shutdown()

    def fail(self, error: Exception, stage: str, operation: Literal["read", "written"]) -> None:
        """Report one of `FAILURES` in the transfer of a stage's result, and decide how the run continues.

        Raises:
            RemoteError: if the remote is required.
        """
        reason = Mask.of(Secrets()).hide_in_text(str(error))
        if isinstance(error, RefusedError | OSError):
            direction = "fetched from" if operation == "read" else "pushed to"
            self.emit(Notice("warning", f"{stage}: not {direction} the remote: {reason}"))
            return
        denied = isinstance(error, DeniedError)
        text = f"the remote {self.settings.url} cannot be {operation if denied else 'reached'}"
        if self.settings.required:
            self.close()
            hint = "See that it is there and lets you in, or go on without it: --remote off"
            raise RemoteError(text, why=reason, hint=hint)
        if self.state == "down" or (self.state == "read" and operation == "written"):
            return  # it was reported
        if denied and operation == "written":
            self.state, consequence = "read", "nothing more is pushed, as with --remote-mode read"
        else:
            self.state, consequence = "down", "the run goes on without it"
        self.emit(Notice("warning", f"{text}; {consequence}: {reason}"))


def _open(settings: Settings, pool: DaemonThreadPool, closed: Flag) -> Transfers:
    """Connect to the remote. Threads that outlive the run reach nothing of it from here."""
    create = settings.mode == "read-write" and not settings.required
    return Transfers(Bucket(settings.url, create=create), read_keyring(settings.trusted), pool, closed)
