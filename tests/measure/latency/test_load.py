"""Requests from several clients: exact figures where the test tells the time, and real threads where it does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from orun.measure.latency.load import Clock, Round, Traffic, send_requests


@dataclass
class Time:
    """A clock that only goes on when something takes time."""

    now: float = 0.0

    def clock(self) -> Clock:
        return Clock(lambda: self.now, self.take)

    def take(self, seconds: float) -> None:
        self.now += seconds

    def request(self, seconds: Callable[[int], float]) -> Callable[[], None]:
        """Requests of which the n-th takes so long."""
        numbers = iter(range(10**6))
        return lambda: self.take(seconds(next(numbers)))


def one_client(takes: Callable[[int], float], **traffic: float | bool | None) -> Round:
    time = Time()
    wanted = Traffic(clients=1, **{"rate": None, "seconds": 1.0, **traffic})  # type: ignore[arg-type]
    return send_requests([time.request(takes)], wanted, np.random.default_rng(0), time.clock())


def test_a_closed_loop_sends_when_it_was_answered() -> None:
    round_ = one_client(lambda _: 0.125)
    assert (round_.answered, round_.seconds, round_.throughput, round_.served) == (8, 1.0, 8.0, 1.0)
    assert set(round_.latencies) == {0.125}


def test_a_stall_makes_everyone_wait_who_was_due_meanwhile() -> None:
    """Eight requests a second of 1/16 s each, but the second takes 1/2 s: those due in it have waited."""
    round_ = one_client(lambda number: 0.5 if number == 1 else 0.0625, rate=8.0, regular=True)
    # due at 0, 1/8, 2/8, ...; the second ends at 5/8, the next ones at 11/16, 12/16, 13/16, 14/16, 15/16
    expected = [1 / 16, 1 / 2, 7 / 16, 3 / 8, 5 / 16, 1 / 4, 3 / 16, 1 / 8]
    assert round_.latencies == tuple(sorted(expected))
    assert round_.served == 1.0
    closed = one_client(lambda number: 0.5 if number == 1 else 0.0625)
    assert closed.quantile(0.5) == 0.0625  # which is what leaving the waiting out looks like


def test_requests_that_are_never_answered_count_with_what_they_waited() -> None:
    round_ = one_client(lambda _: 0.5, rate=8.0, regular=True)
    assert (round_.answered, len(round_.latencies), round_.served) == (4, 8, 0.5)
    assert round_.latencies == (0.5, 0.875, 1.125, 1.25, 1.25, 1.375, 1.5, 1.625)
    assert round_.throughput == 2.0


def test_independent_users_come_at_random_times() -> None:
    round_ = one_client(lambda _: 0.0, rate=400.0, seconds=10.0)
    assert len(round_.latencies) == pytest.approx(4000, abs=4 * 4000**0.5)
    again = one_client(lambda _: 0.0, rate=400.0, seconds=10.0)
    assert round_ == again


def test_a_user_who_comes_once_an_hour_is_not_waited_for() -> None:
    time = Time()
    traffic = Traffic(clients=1, rate=1 / 3600, seconds=2.0)
    round_ = send_requests([time.request(lambda _: 0.5)], traffic, np.random.default_rng(0), time.clock())
    assert (round_.answered, round_.latencies, time.now) == (1, (0.5,), 0.5)


def test_clients_send_side_by_side() -> None:
    """Three requests meet before any is answered: none of three clients waits for another."""
    meeting = threading.Barrier(3, timeout=60)
    still = Clock(lambda: 0.0, lambda _: None)
    round_ = send_requests([meeting.wait] * 3, Traffic(3, 3.0, 1.0, regular=True), np.random.default_rng(0), still)
    assert round_.answered == 3


def test_what_a_request_raises_ends_the_round() -> None:
    def fails() -> None:
        raise ValueError("no answer")

    with pytest.raises(ValueError, match="no answer"):
        send_requests([fails] * 2, Traffic(2, None, 60.0), np.random.default_rng(0))


def test_a_round_has_at_least_one_request() -> None:
    """A busy machine may come to a client only when the time is over."""
    times = iter([0.0, 5.0, 5.0, 7.0])
    round_ = send_requests(
        [lambda: None], Traffic(1, None, 1.0), np.random.default_rng(0), Clock(lambda: next(times, 9.0))
    )
    assert (round_.answered, round_.latencies, round_.seconds) == (1, (0.0,), 5.0)
