"""Wall and CPU time of calls, busy threads, and waiting."""

from __future__ import annotations

import os
import sys
import threading
import time
from itertools import count

import pytest

from orun.measure.oncpu import timed, waited_since, waits, works_alone


def work() -> None:
    sum(range(20_000))


def test_each_call_is_timed() -> None:
    times = timed(work, 7)
    assert times.wall.shape == times.cpu.shape == (7,)
    assert (times.wall > 0).all()
    assert (times.cpu > 0).all()


def test_time_asleep_is_no_time_on_the_cpu() -> None:
    times = timed(lambda: time.sleep(0.02), 3)
    assert (times.wall >= 0.02).all()
    assert (times.cpu < times.wall / 2).all()


def test_no_call_begins_when_the_time_is_up() -> None:
    calls = count()
    assert timed(lambda: next(calls), 1000, seconds=0.0).wall.shape == (1,)
    assert next(calls) == 1


def test_one_thread_works_alone() -> None:
    assert works_alone(work, 0.05)


def test_a_thread_that_sleeps_does_not_do_all() -> None:
    assert not works_alone(lambda: time.sleep(0.01), 0.05)


def test_a_busy_helper_thread_is_seen() -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            work()

    helper = threading.Thread(target=spin)
    helper.start()
    try:
        assert not works_alone(work, 0.1)
    finally:
        stop.set()
        helper.join()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the time on run queues")
def test_waiting_is_counted() -> None:
    before = waits()
    assert str(os.getpid()) in before  # the first thread has the number of the process
    times = timed(work, 5)
    assert times.waited is not None
    assert times.waited >= 0
    assert waits()[str(os.getpid())] >= before[str(os.getpid())]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the time on run queues")
def test_threads_that_ended_or_came_do_not_count() -> None:
    mine = str(os.getpid())
    assert waited_since({mine: waits()[mine], "gone": 1000.0}) == pytest.approx(0, abs=1.0)


def test_a_kernel_that_counts_nothing() -> None:
    assert waited_since({}) is None
