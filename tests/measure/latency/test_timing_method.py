"""Choice of the method, and the time of an inference by each."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from orun.measure.latency import timing_method
from orun.measure.latency.abba_blocks import Block, Pair, compute_log_ratios
from orun.measure.latency.cpu_time import Times, Work
from orun.measure.latency.timing_method import (
    Method,
    choose_method,
    compute_inference_seconds,
    compute_log_ratio,
    compute_waiting_share,
)
from tests.measure.support import ALONE, launched

SEVERAL = Work(process=2.0, thread=1.0, awake=0.9, most=1.9, busy=2)
ASLEEP = Work(process=2.0, thread=0.9, awake=0.89, most=1.9, busy=2)
CROWDED = replace(SEVERAL, busy=3)
IN_TURN = Work(process=1.0, thread=0.1, awake=0.1, most=0.97, busy=2)


@pytest.mark.parametrize(
    ("work", "processor", "method"),
    [
        (ALONE, True, "thread"),
        (ALONE, False, "thread"),
        (SEVERAL, True, "threads"),
        (SEVERAL, False, "wall"),
        (CROWDED, True, "wall"),
        (ASLEEP, True, "wall"),
        (IN_TURN, True, "process"),
        (IN_TURN, False, "wall"),
    ],
)
def test_the_method_follows_from_the_threads_that_work(
    monkeypatch: pytest.MonkeyPatch, work: Work, processor: bool, method: str
) -> None:
    monkeypatch.setattr(timing_method, "count_usable_cores", lambda: 2)
    session = launched({"model": [0.01]}, {}).sessions["model"]
    assert choose_method({"model": session, "reference": replace(session, work=work, processor=processor)}) == method


def times(*wall: float) -> Times:
    seconds = np.array(wall)
    return Times(seconds, 0.5 * seconds, 0.25 * seconds, None)


def test_a_block_counts_by_the_median_of_its_inferences() -> None:
    ours, theirs = times(0.004, 0.002, 0.001), times(0.001, 0.001, 0.007)
    pairs = [Pair("baseline", [Block("model", ours), Block("baseline", theirs)])] * 2
    methods: tuple[Method, ...] = ("threads", "wall")
    for method in methods:
        assert compute_log_ratios(pairs, "baseline", method) == [math.log(0.002 / 0.001)] * 2
    assert [compute_inference_seconds(ours, method, 100) for method in methods] == [0.001, 0.002]


def test_on_one_thread_a_block_counts_by_its_fastest_inferences() -> None:
    """After another process had the core, inferences find the caches filled with its data."""
    cpu, process = np.array([9.0, *range(8, 28)]), np.array([5.0, *range(4, 24)])
    long = Times(np.ones(21), cpu, process, None)
    assert (compute_inference_seconds(long, "thread", 10), compute_inference_seconds(long, "process", 10)) == (9.0, 5.0)
    assert (compute_inference_seconds(long, "thread", 9), compute_inference_seconds(long, "process", 9)) == (17.0, 13.0)


@pytest.mark.parametrize("method", ["thread", "process"])
def test_the_least_of_four_inferences_is_not_compared_with_a_single_one(method: Method) -> None:
    seconds = np.array([0.002, 0.003, 0.003, 0.004])
    single, four = Times(seconds[:1], seconds[:1], seconds[:1], None), Times(seconds, seconds, seconds, None)
    assert compute_log_ratio(four, single, method) == math.log(0.003 / 0.002)


def test_waiting_is_a_share_of_the_time_of_inferences() -> None:
    seconds = np.array([0.1, 0.3])
    assert compute_waiting_share(Times(seconds, 0.5 * seconds, seconds, waited=0.1)) == 0.25
    assert compute_waiting_share(Times(seconds, seconds, seconds, waited=None)) is None
