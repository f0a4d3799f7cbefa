"""Thread pool whose threads never keep the process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreadPool(Executor):
    """Executor with daemon threads.

    Python waits for the threads of a `ThreadPoolExecutor` when it ends: a remote that hangs would hang the run.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._threads: list[threading.Thread] = []
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call in a thread. After `shutdown` it is cancelled instead."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                _cancel(future)
                return future
            self._calls.put((future, partial(call, *args, **kwargs)))
            if len(self._threads) < self._size:
                self._threads.append(threading.Thread(target=self._work, daemon=True))
                self._threads[-1].start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:  # noqa: ARG002 - of the base class
        """Cancel the calls that have not started. Calls that have started go on, and nobody waits for them."""
        with self._lock:
            self._closed = True
            with suppress(Empty):  # a thread may take the last call meanwhile
                while True:
                    if (item := self._calls.get_nowait()) is not None:
                        _cancel(item[0])
            for _ in self._threads:
                self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            _run(*item)
            del item  # a thread without work keeps no result alive


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - for the thread that asks for the result
        future.set_exception(error)
    else:
        future.set_result(result)


def _cancel(future: Future[Any]) -> None:
    future.cancel()
    future.set_running_or_notify_cancel()  # wakes who waits for it
