"""Load from several clients at once: throughput, and the latency of each request.

In a closed loop each client sends its next request when the last one is answered. In an open loop requests are due at
times that do not depend on the answers, and latency counts from when a request was due. A request that waited for a
free client has waited as its user would have. Counting from when it was sent would leave out just the worst requests
("coordinated omission", Gil Tene; Schroeder, Wierman and Harchol-Balter 2006, "Open Versus Closed: A Cautionary Tale").
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orun.measure.latency.quantiles import quantile

PATIENCE = 2.0  # times a round's seconds, after which requests that are still due are given up

Request = Callable[[], object]


@dataclass(frozen=True)
class Traffic:
    """Requests to send.

    Attributes:
        clients: requests that may be under way at once.
        rate: requests per second in an open loop; None for a closed loop.
        seconds: duration.
        regular: whether requests are due at equal intervals, not as independent users come (Poisson).
    """

    clients: int
    rate: float | None
    seconds: float
    regular: bool = False


@dataclass(frozen=True)
class Round:
    """Result of sending requests.

    Attributes:
        latencies: seconds of each request, sorted; of a request that was given up, the time that it had waited.
        answered: requests that were answered.
        seconds: time from the first request to the last answer.
    """

    latencies: tuple[float, ...]
    answered: int
    seconds: float

    @property
    def throughput(self) -> float:
        """Answers per second."""
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
        """Return a quantile of the latencies in seconds."""
        return quantile(self.latencies, share)


@dataclass(frozen=True)
class Clock:
    """Source of time; a test passes its own to make a round exact."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep


@dataclass
class _RoundState:
    """State shared by the clients of a round."""

    due: NDArray[np.float64] | None  # seconds after the start; None in a closed loop
    start: float = 0.0
    end: float = 0.0
    go: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    sent: int = 0
    latencies: list[float] = field(default_factory=list)
    last: float = 0.0
    error: BaseException | None = None


def send_requests(
    requests: Sequence[Request], traffic: Traffic, random: np.random.Generator, clock: Clock | None = None
) -> Round:
    """Send requests as `traffic` says.

    Args:
        requests: a function for each client that sends a request and returns when it is answered.
        traffic: how many requests, and how often.
        random: of the times at which they are due.
        clock: source of time.

    Raises:
        Exception: the first that a request raised.
    """
    clock = clock or Clock()
    due = None if traffic.rate is None else _draw_due_times(traffic, random)
    patience = traffic.seconds if due is None else traffic.seconds * PATIENCE
    state = _RoundState(due)
    threads = [threading.Thread(target=_run_client, args=(request, state, clock), daemon=True) for request in requests]
    for thread in threads:
        thread.start()
    start = state.start = state.last = clock.now()  # once all clients run
    state.end = start + patience
    state.go.set()
    for thread in threads:
        thread.join()
    if state.error is not None:
        raise state.error
    answered = len(state.latencies)
    unsent = [] if due is None else due[state.sent :].tolist()
    given_up = [max(state.end, state.last) - start - due_at for due_at in unsent]
    return Round(tuple(sorted([*state.latencies, *given_up])), answered, state.last - start)


def _draw_due_times(traffic: Traffic, random: np.random.Generator) -> NDArray[np.float64]:
    """Return when requests are due, in seconds from the start. If none falls into the duration, one is due at once."""
    rate = traffic.rate or 1.0
    count = max(int(traffic.seconds * rate), 1)
    if traffic.regular:
        return np.arange(count) / rate
    times = np.cumsum(random.exponential(1 / rate, count * 2 + 16))
    return times[times < traffic.seconds] if times[0] < traffic.seconds else np.zeros(1)


def _run_client(request: Request, state: _RoundState, clock: Clock) -> None:
    state.go.wait()
    try:
        while (since := _wait_until_due(state, clock)) is not None:
            request()
            now = clock.now()
            with state.lock:
                state.latencies.append(now - since)
                state.last = max(state.last, now)
    except BaseException as error:  # noqa: BLE001 - raised again by `send_requests`
        with state.lock:
            state.error = state.error or error


def _wait_until_due(state: _RoundState, clock: Clock) -> float | None:
    """Wait until the client's next request is due and return that time; None if none is left. One is always sent."""
    with state.lock:
        now = clock.now()
        if state.error is not None or (now >= state.end and state.sent):
            return None
        if state.due is None:
            state.sent += 1
            return now
        if state.sent == len(state.due):
            return None
        since = state.start + float(state.due[state.sent])
        state.sent += 1
    if since > now:
        clock.sleep(since - now)
    return since
