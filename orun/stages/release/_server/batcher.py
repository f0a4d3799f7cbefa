"""Batcher: joins requests that wait at the same time along their first axis, and runs them as one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Feed = Mapping[str, Array]
Run = Callable[[Feed], Awaitable[Sequence[Array]]]


@dataclass(eq=False)
class Waiting:
    """Request that waits for its batch."""

    feed: Feed
    rows: int
    outputs: asyncio.Future[Sequence[Array]]


@dataclass(eq=False)
class Queue:
    """Requests of one shape apart from the first axis, and the timer that ends their wait."""

    requests: list[Waiting] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None

    @property
    def rows(self) -> int:
        """Rows that wait."""
        return sum(request.rows for request in self.requests)


class Batcher:
    """Queue before a model.

    A batch starts when it is full or its first request has waited for `delay`. A request that alone has more rows than
    a batch runs alone. If a batch fails, each of its requests runs alone: a bad one must not fail the others.

    Args:
        run: runs the model on a feed.
        size: most rows of a batch.
        delay: seconds that a request may wait for others.
    """

    def __init__(self, run: Run, size: int, delay: float) -> None:
        self._run, self._size, self._delay = run, size, delay
        self._queues: dict[tuple[object, ...], Queue] = {}
        self._tasks = set[asyncio.Task[None]]()

    async def run(self, feed: Feed) -> Sequence[Array]:
        """Return the outputs for a feed, whose arrays all have the same first axis."""
        rows = len(next(iter(feed.values())))
        loop = asyncio.get_running_loop()
        request = Waiting(feed, rows, loop.create_future())
        key = tuple((name, array.dtype.str, array.shape[1:]) for name, array in sorted(feed.items()))
        if (queue := self._queues.get(key)) and queue.rows + rows > self._size:
            self._start(key)
        queue = self._queues.setdefault(key, Queue())
        queue.requests.append(request)
        if queue.rows >= self._size:
            self._start(key)
        elif queue.timer is None:
            queue.timer = loop.call_later(self._delay, self._start, key)
        return await request.outputs

    def _start(self, key: tuple[object, ...]) -> None:
        queue = self._queues.pop(key)
        if queue.timer:
            queue.timer.cancel()
        task = asyncio.get_running_loop().create_task(self._run_batch(queue.requests))
        self._tasks.add(task)  # the loop itself holds tasks only weakly
        task.add_done_callback(self._tasks.discard)

    async def _run_batch(self, requests: Sequence[Waiting]) -> None:
        if len(requests) > 1:
            joined = {name: np.concatenate([request.feed[name] for request in requests]) for name in requests[0].feed}
            try:
                outputs = await self._run(joined)
            except Exception:  # noqa: BLE001 - each request meets its own error below
                outputs = []
            ends = np.cumsum([request.rows for request in requests])
            if outputs and all(len(output) == ends[-1] for output in outputs):
                parts = zip(*(np.split(output, ends[:-1]) for output in outputs), strict=True)
                for request, part in zip(requests, parts, strict=True):
                    _answer(request, part)
                return
        for request in requests:
            try:
                _answer(request, await self._run(request.feed))
            except Exception as error:  # noqa: BLE001 - raised again where the request waits
                if not request.outputs.done():
                    request.outputs.set_exception(error)


def _answer(request: Waiting, outputs: Sequence[Array]) -> None:
    if not request.outputs.done():  # its client may have gone
        request.outputs.set_result(outputs)
