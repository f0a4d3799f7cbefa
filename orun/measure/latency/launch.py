"""Launch: models in fresh processes, timed alone and then in ABBA blocks. The unit of evidence.

A process is stuck with its memory layout and the placement of its threads. Restarts average that out, so launches, not
inferences, are independent samples (Kalibera and Jones 2013, "Rigorous Benchmarking in Reasonable Time"). The value of
a launch is the median log ratio of its pairs. Huge pages remove most of what is left of memory placement: see
`orun.measure.latency.huge_pages`. A launch with too few pairs in which each thread had a core is disturbed, and no
evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random

import numpy as np

from orun.measure.benchmark_case import MODEL, BenchmarkCase, SessionInfo, Worker
from orun.measure.latency.abba_blocks import (
    FEWEST_ABBA_BLOCKS,
    AbbaBlocks,
    compute_log_ratios,
    count_inferences,
    find_least_yardstick,
    join_times,
)
from orun.measure.latency.cpu_cores import LONGEST_WATCHED, CoreWatch, find_quietest_core
from orun.measure.latency.cpu_time import Times, concatenate
from orun.measure.latency.cuda_streams import StreamTimes, concatenate_streams
from orun.measure.latency.timing_method import (
    Method,
    choose_method,
    compute_inference_seconds,
    compute_waiting_share,
    shares_cores,
)

CROWDED = 0.1  # share of the time for which threads wait for a core, from which a launch tells no ratio of two kernels
STREAM_SECONDS = 0.1  # of inferences on a device's stream, of each model, twice in a launch


@dataclass(frozen=True)
class Pace:
    """Durations of the parts of a launch.

    Attributes:
        warmup: seconds of inference before the first sample of a session.
        samples: inferences of the model alone.
        alone: seconds that they may take.
        abba_seconds: what the ABBA blocks against one other model may take; `abba_blocks.PATIENCE` times as much with
            waiting.
        error: standard error of a log ratio at which ABBA blocks end.
        longest: seconds that warm-up may take while a model still gets faster; 0 if that is known.
    """

    warmup: float
    samples: int
    alone: float
    abba_seconds: float
    error: float = 0.0
    longest: float = 0.0


@dataclass(frozen=True, eq=False)
class Launch:
    """Result of one launch, by the model's name.

    Attributes:
        method: the time that models are compared by.
        core: the core that all processes were pinned to, or None.
        sessions: what opening each session took.
        alone: inferences of the model one after another, while the other models rest.
        interleaved: all inferences of each model in the ABBA blocks.
        inference_seconds: time of an inference by `method`, in seconds.
        pairs: log ratio of the model's time to another's in each pair of blocks, by the other's name.
        log_ratios: median of `pairs`, by the other's name.
        waiting: seconds for which threads waited for a core in each second of inference in the ABBA blocks, or None.
        disturbed: whether too few pairs count. Figures are then of all pairs, else of the pairs that count.
        crowded: whether several threads worked at once, and waited for a core for more than `CROWDED` of the time.
        streamed: inferences on the device's stream, of the models that ask for it.
        yardstick: least reading; infinite if cores were not watched.
    """

    method: Method
    core: int | None
    sessions: Mapping[str, SessionInfo]
    alone: Times
    interleaved: Mapping[str, Times]
    inference_seconds: Mapping[str, float]
    pairs: Mapping[str, Sequence[float]]
    log_ratios: Mapping[str, float]
    waiting: float | None
    disturbed: bool = False
    crowded: bool = False
    streamed: Mapping[str, StreamTimes] = field(default_factory=dict)
    yardstick: float = math.inf

    @property
    def watched(self) -> bool:
        """Whether pairs count only if nothing else used the core."""
        return math.isfinite(self.yardstick)


def run_launch(
    cases: Mapping[str, BenchmarkCase],
    pace: Pace,
    random: Random,
    start: Callable[[BenchmarkCase], Worker],
    method: Method | None = None,
    watch: CoreWatch | None = None,
) -> Launch:
    """Start a process for each model, time them alone and against one another, and end them.

    Args:
        cases: by name; `model` is compared with each of the others.
        pace: how long the parts take.
        random: decides every order.
        start: starts the process that runs a model.
        method: the time that models are compared by; None chooses it by the threads that work.
        watch: over the cores, in this launch and others of the measurement; None begins one.

    Raises:
        OrunError: if a model cannot be opened or run.
    """
    with ExitStack() as stack:
        core = find_quietest_core()
        workers: dict[str, Worker] = {}
        sessions: dict[str, SessionInfo] = {}
        for name in random.sample(list(cases), len(cases)):
            workers[name] = stack.enter_context(start(cases[name]))
            sessions[name] = workers[name].open(pace.warmup, pace.longest)
        method = method or choose_method(sessions)
        resting = shares_cores(sessions, method)
        if resting:
            for worker in workers.values():
                worker.rest()
        alone = workers[MODEL].time(pace.samples, pace.alone)  # on the cores and pages that a user would have
        pinned = core if method == "thread" else None
        _prepare_blocks(workers, pinned)
        counts = count_inferences(sessions)
        watched = method == "thread" and all(map(_suffers_on_shared_core, sessions.values()))
        watch = (watch or CoreWatch()) if watched else None
        abba = AbbaBlocks(workers, counts, method, pace.abba_seconds, pace.error, random, resting=resting, watch=watch)
        every = abba.run(sessions)
        selected = abba.select(every)
        compared = [name for name in cases if name != MODEL]
        disturbed = any(
            sum(pair.other == name for pair in selected) < 2 * FEWEST_ABBA_BLOCKS for name in compared or [MODEL]
        )
        pairs = every if disturbed else selected
        blocks = [block for pair in pairs for block in pair.blocks]
        waiting = compute_waiting_share(concatenate([block.times for pair in every for block in pair.blocks]))
        interleaved = {name: join_times(name, blocks) for name in cases}
        ratios = {name: compute_log_ratios(pairs, name, method) for name in compared}
        return Launch(
            method=method,
            core=pinned,
            sessions=sessions,
            alone=alone,
            interleaved=interleaved,
            inference_seconds={
                name: compute_inference_seconds(times, method, min(counts.values()))
                for name, times in interleaved.items()
            },
            pairs=ratios,
            log_ratios={name: float(np.median(values)) for name, values in ratios.items()},
            waiting=waiting,
            disturbed=disturbed,
            crowded=abba.needs_cores and (waiting or 0.0) > CROWDED,
            streamed=time_streams({name: workers[name] for name, case in cases.items() if case.streamed}, pace, random),
            yardstick=find_least_yardstick(every),
        )


def _suffers_on_shared_core(session: SessionInfo) -> bool:
    """Return whether another user of the core slows the model, and is noticed: on an accelerator its thread waits."""
    return session.processor and session.each <= LONGEST_WATCHED


def _prepare_blocks(workers: Mapping[str, Worker], core: int | None) -> None:
    for worker in workers.values():
        if core is not None:
            worker.pin(core)
        worker.collapse()
        worker.time(1)


def time_streams(workers: Mapping[str, Worker], pace: Pace, random: Random) -> dict[str, StreamTimes]:
    """Time each model on its device's stream, in an order and back, so that a linear drift cancels."""
    for worker in workers.values():
        worker.open_stream(pace.warmup)
    order = random.sample(list(workers), len(workers))
    rounds = [(name, workers[name].time_stream(STREAM_SECONDS)) for name in (*order, *reversed(order))]
    return {name: concatenate_streams([times for owner, times in rounds if owner == name]) for name in workers}
