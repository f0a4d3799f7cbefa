"""Requests from several clients at once: how many are served, and how long each waits.

In a closed loop each client sends its next request when the last one is answered. In an open loop requests are due at
times that do not depend on the answers, and a request's latency counts from when it was due: one that had to wait
because all clients were busy has waited, as its user would have. Counting from when it was sent instead would leave out
just the worst (Gil Tene's "coordinated omission"; the same in Schroeder, Wierman and Harchol-Balter (2006), "Open
Versus Closed: A Cautionary Tale").
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orun.measure.latency.quantiles import quantile

PATIENCE = 2.0  # times the seconds of a round after which requests that are still due are given up

Request = Callable[[], object]


@dataclass(frozen=True)
class Traffic:
    """What is sent.

    Attributes:
        clients: requests that may be under way at once.
        rate: requests that are due a second, in an open loop; None for a closed one.
        seconds: how long.
        regular: whether they are due at equal intervals, not as independent users come (Poisson).
    """

    clients: int
    rate: float | None
    seconds: float
    regular: bool = False


@dataclass(frozen=True)
class Round:
    """What came of it.

    Attributes:
        latencies: seconds of each request, sorted; of one that was given up, the time that it had waited until then.
        answered: how many were answered.
        seconds: from the first request to the last answer.
    """

    latencies: tuple[float, ...]
    answered: int
    seconds: float

    @property
    def throughput(self) -> float:
        """Answers a second."""
        return self.answered / self.seconds

    @property
    def served(self) -> float:
        """Share of the requests that were answered."""
        return self.answered / len(self.latencies)

    @property
    def mean(self) -> float:
        """Mean latency in seconds."""
        return sum(self.latencies) / len(self.latencies)

    def quantile(self, share: float) -> float:
        """A quantile of the latencies in seconds."""
        return quantile(self.latencies, share)


@dataclass(frozen=True)
class Clock:
    """How time is told and passed; another one makes a round exact in a test."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep


@dataclass
class _Shared:
    """What the clients of a round share."""

    due: NDArray[np.float64] | None  # seconds after the start; None in a closed loop
    start: float = 0.0
    end: float = 0.0
    go: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    sent: int = 0
    latencies: list[float] = field(default_factory=list)
    last: float = 0.0
    error: BaseException | None = None


def drive(
    requests: Sequence[Request], traffic: Traffic, random: np.random.Generator, clock: Clock | None = None
) -> Round:
    """Send requests for a while.

    Args:
        requests: one for each client: sends a request and returns when it is answered.
        traffic: how many, and how often.
        random: of the times at which they are due.
        clock: how time is told.

    Raises:
        Exception: the first that a request raised.
    """
    clock = clock or Clock()
    due = None if traffic.rate is None else _due(traffic, random)
    patience = traffic.seconds if due is None else traffic.seconds * PATIENCE
    shared = _Shared(due)
    threads = [threading.Thread(target=_client, args=(request, shared, clock), daemon=True) for request in requests]
    for thread in threads:
        thread.start()
    start = shared.start = shared.last = clock.now()  # when all clients are there
    shared.end = start + patience
    shared.go.set()
    for thread in threads:
        thread.join()
    if shared.error is not None:
        raise shared.error
    answered = len(shared.latencies)
    given_up = (
        [] if due is None else [max(shared.end, shared.last) - start - one for one in due[shared.sent :].tolist()]
    )
    return Round(tuple(sorted([*shared.latencies, *given_up])), answered, shared.last - start)


def _due(traffic: Traffic, random: np.random.Generator) -> NDArray[np.float64]:
    """When requests are due, in seconds from the start: at least one, at once where none comes in the time."""
    rate = traffic.rate or 1.0
    count = max(int(traffic.seconds * rate), 1)
    if traffic.regular:
        return np.arange(count) / rate
    times = np.cumsum(random.exponential(1 / rate, count * 2 + 16))
    return times[times < traffic.seconds] if times[0] < traffic.seconds else np.zeros(1)


def _client(request: Request, shared: _Shared, clock: Clock) -> None:
    shared.go.wait()
    try:
        while (since := _next(shared, clock)) is not None:
            request()
            now = clock.now()
            with shared.lock:
                shared.latencies.append(now - since)
                shared.last = max(shared.last, now)
    except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for this one
        with shared.lock:
            shared.error = shared.error or error


def _next(shared: _Shared, clock: Clock) -> float | None:
    """When the client's next request is due, once that time has come; None when there is none, but for the first."""
    with shared.lock:
        now = clock.now()
        if shared.error is not None or (now >= shared.end and shared.sent):
            return None
        if shared.due is None:
            shared.sent += 1
            return now
        if shared.sent == len(shared.due):
            return None
        since = shared.start + float(shared.due[shared.sent])
        shared.sent += 1
    if since > now:
        clock.sleep(since - now)
    return since
