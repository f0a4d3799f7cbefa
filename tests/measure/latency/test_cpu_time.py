"""Wall and CPU time of calls, busy threads, and waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from orun.measure.latency import cpu_time, schedstat
from orun.measure.latency.cpu_time import Times, Work, concatenate, observe_work, time_inferences
from orun.measure.latency.schedstat import Counters, measure_pending_wait, measure_wait, read_counters


def work() -> None:
    sum(range(20_000))


def long_work() -> None:
    sum(range(1_000_000))


def test_each_call_is_timed() -> None:
    times = time_inferences(work, 7)
    assert times.wall.shape == times.cpu.shape == (7,)
    assert (times.wall > 0).all()
    assert (times.cpu > 0).all()


def test_lots_are_joined_and_what_was_not_counted_of_one_is_not_known_of_all() -> None:
    times, other = (Times(np.array([wall]), np.array([0.5]), np.array([0.7]), 0.25) for wall in (1.0, 2.0))
    assert concatenate([times, other]).wall.tolist() == [1.0, 2.0]
    assert concatenate([times, other]).waited == 0.5
    assert concatenate([times, replace(other, waited=None)]).waited is None


def test_time_asleep_is_no_time_on_the_cpu() -> None:
    times = time_inferences(lambda: time.sleep(0.02), 3)
    assert (times.wall >= 0.02).all()
    assert (times.cpu < times.wall / 2).all()


def test_no_call_begins_when_the_time_is_up() -> None:
    calls = count()
    assert time_inferences(lambda: next(calls), 1000, seconds=0.0).wall.shape == (1,)
    assert next(calls) == 1


def test_one_thread_works_alone() -> None:
    assert observe_work(work, 0.1).alone


def test_who_is_stopped_meanwhile_works_alone_nevertheless() -> None:
    """As when a host takes the processor away: time passes, and no thread waits for a core."""
    code = """
from orun.measure.latency.cpu_time import observe_work
print(flush=True)
print(observe_work(lambda: sum(range(20_000)), 0.5).alone)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout
        watcher.stdout.readline()
        time.sleep(0.1)
        watcher.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        watcher.send_signal(signal.SIGCONT)
        assert watcher.stdout.read() == "True\n"


def test_a_thread_that_sleeps_does_not_do_all() -> None:
    work = observe_work(lambda: time.sleep(0.01), 0.05)
    assert not work.alone
    assert not work.in_turn


def counters_of(waits: Mapping[str, float]) -> dict[str, Counters]:
    """Return counters of threads that have run until now, with the seconds that each has waited."""
    return {thread: Counters(time.perf_counter_ns(), int(seconds * 1e9), 1) for thread, seconds in waits.items()}


def test_what_other_threads_wait_for_a_core_is_not_taken_for_the_waiting_of_one_that_sleeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caller = str(threading.get_native_id())
    monkeypatch.setattr(
        schedstat, "read_counters", lambda: counters_of({caller: 0.0, "other": 0.997 * time.perf_counter()})
    )
    assert not observe_work(lambda: time.sleep(0.01), 0.05).alone


ALONE, STOLEN, SHARED = Work(1.0, 1.0, 1.0, 1.0, 1), Work(1.0, 1.0, 0.8, 0.8, 1), Work(2.0, 1.0, 0.9, 1.9, 2)


@pytest.mark.parametrize(
    ("seen", "settled", "looks"),
    [
        ([ALONE], ALONE, 1),
        ([STOLEN, ALONE], ALONE, 2),  # a moment in which a host took the processor away
        ([STOLEN] * 3, STOLEN, 3),
        ([SHARED], SHARED, 1),
    ],
)
def test_a_doubtful_look_is_repeated(
    monkeypatch: pytest.MonkeyPatch, seen: list[Work], settled: Work, looks: int
) -> None:
    left = list(seen)
    monkeypatch.setattr(cpu_time, "observe_once", lambda *_: left.pop(0))
    assert observe_work(work, 1.0) == settled
    assert len(seen) - len(left) == looks


@pytest.mark.parametrize(
    ("process", "thread", "awake", "most", "alone", "in_turn"),
    [
        (1.0, 1.0, 1.0, 1.0, True, True),
        (1.0, 0.1, 0.1, 0.97, False, True),  # a helper works while the caller waits
        (2.0, 1.0, 0.9, 1.9, False, False),  # both at once
        (0.1, 0.1, 0.1, 0.1, False, False),  # somewhere else, as on an accelerator
    ],
)
def test_who_works(process: float, thread: float, awake: float, most: float, alone: bool, in_turn: bool) -> None:
    work = Work(process, thread, awake, most, busy=0)
    assert (work.alone, work.in_turn) == (alone, in_turn)


def test_who_waits_for_a_core_would_work() -> None:
    """Else a model on two threads would be taken for one on one thread, where another process has the second core."""
    assert not Work(1.0, 1.0, 1.0, 1.0, busy=1, waiting=0.06).alone
    assert Work(1.0, 1.0, 1.0, 1.0, busy=1, waiting=0.05).alone


def test_several_threads_that_share_a_core_do_not_work_in_turn() -> None:
    """Together they take no more CPU time than one, and wait for the core meanwhile."""
    assert Work(1.0, 0.5, 0.5, 1.0, busy=2, waiting=0.5, wanted=1.25).in_turn
    assert not Work(1.0, 0.5, 0.5, 1.0, busy=2, waiting=0.5, wanted=1.3).in_turn


def test_waiting_of_the_other_threads_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = str(threading.get_native_id())
    clock = count()
    monkeypatch.setattr(
        schedstat, "read_counters", lambda: counters_of({caller: 0.25 * next(clock), "other": 1.0 * next(clock)})
    )
    observed = cpu_time.observe_once(work, 0.01)
    assert observed.waiting > 0
    assert observed.wanted > 1


def test_time_of_a_helper_is_time_of_the_process() -> None:
    with ThreadPoolExecutor(1) as helper:
        times = time_inferences(lambda: helper.submit(long_work).result(), 10)
    assert np.median(times.process) > 10 * np.median(times.cpu)


def test_a_busy_helper_thread_is_seen() -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            work()

    helper = threading.Thread(target=spin)
    helper.start()
    try:
        assert not observe_work(work, 0.1).alone
    finally:
        stop.set()
        helper.join()


counted = pytest.mark.skipif(not read_counters(), reason="this kernel does not count the time on run queues")


@counted
def test_waiting_is_counted() -> None:
    before = read_counters()
    assert str(os.getpid()) in before  # the first thread has the number of the process
    times = time_inferences(work, 5)
    assert times.waited is not None
    assert times.waited >= 0
    assert read_counters()[str(os.getpid())].waiting >= before[str(os.getpid())].waiting


@counted
@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError])  # of opening, and of reading what is open
def test_a_thread_that_ends_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch, error: type[OSError]) -> None:
    read, mine = Path.read_text, str(os.getpid())

    def gone(path: Path, encoding: str) -> str:
        if path.parent.name != mine:
            raise error
        return read(path, encoding)

    with ThreadPoolExecutor(1) as helper:
        helper.submit(long_work).result()
        monkeypatch.setattr(Path, "read_text", gone)
        assert read_counters().keys() == {mine}


@counted
def test_threads_that_ended_or_came_do_not_count() -> None:
    mine = str(os.getpid())
    assert measure_wait({mine: read_counters()[mine], "gone": Counters(0, 10**12, 1)}) == pytest.approx(0, abs=1.0)


@counted
def test_a_thread_that_gets_no_core_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel counts what a thread waited when it gets a core, so one that never does seems to sleep."""
    stop, started = threading.Event(), threading.Event()

    def sleep() -> None:
        started.set()
        stop.wait()

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    started.wait()
    time.sleep(0.05)
    sleeping = str(sleeper.native_id)
    counts = {thread: observed for thread, observed in read_counters().items() if thread == sleeping}
    assert measure_pending_wait(counts, 1.0) == 0
    monkeypatch.setattr(schedstat, "is_runnable", lambda thread: thread == sleeping)
    assert measure_pending_wait(counts, 1.0) == 1.0
    assert measure_pending_wait({sleeping: Counters(0, 0, 0)}, 1.0) == 0  # it ran since
    assert measure_pending_wait(counts, 0.009) == 0  # within a tick
    observed = cpu_time.observe_once(work, 0.02)
    assert observed.waiting > 0
    assert not observed.alone
    stop.set()
    sleeper.join()


@counted
def test_who_runs_is_runnable() -> None:
    mine = str(threading.get_native_id())
    assert schedstat.is_runnable(mine)
    assert not schedstat.is_runnable("gone")


def test_a_kernel_that_counts_nothing() -> None:
    assert measure_wait({}) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such files")
def test_zeros_are_no_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a kernel can count, and was not told to: nobody is to read that nothing waited."""
    monkeypatch.setattr(Path, "read_text", lambda _path, encoding: "0 0 0\n")  # noqa: ARG005 - as it is called
    assert time_inferences(work, 5).waited is None
    assert observe_work(work, 0.01).most > 0
