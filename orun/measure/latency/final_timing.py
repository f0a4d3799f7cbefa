"""Final timing of candidates: the fastest of many launches of each, spread over minutes.

The ratio of models with different kernels is not stable over one minute. On a virtual machine, neighbours share units
of the processor (AMX, caches). That slows one kind of kernel by half and another not at all, for seconds or minutes:
within ten minutes 8-bit integers took from 0.94 to 1.4 of the time of bfloat16. Other processes make no model faster,
so the least over many launches is the time of an undisturbed model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random

from orun.measure.benchmark_case import MODEL, BenchmarkCase
from orun.measure.latency.launch import Pace, run_launch
from orun.measure.latency.timing_method import choose_method
from orun.measure.workers import WorkerProcess

FEWEST_ROUNDS = 3
PACE = Pace(warmup=0.05, samples=1, alone=0.0, abba_seconds=0.5)


def time_candidates(
    cases: Mapping[str, BenchmarkCase], seconds: float, seed: int, progress: Callable[[int], None]
) -> dict[str, float]:
    """Return the seconds of an inference of each model in its least disturbed launch.

    The models are launched in random order and one at a time. All are timed by the same method.

    Args:
        cases: by name.
        seconds: time after which no further round of launches begins; three rounds are made whatever they take.
        seed: of every random order.
        progress: called with the number of each round, from 1.

    Raises:
        OrunError: if a model cannot be opened or run.
    """
    random, until = Random(seed), time.monotonic() + seconds  # noqa: S311 - an order, not a secret
    method = choose_method(
        {name: run_launch({MODEL: case}, PACE, random, WorkerProcess).sessions[MODEL] for name, case in cases.items()}
    )
    spent: dict[str, list[float]] = {name: [] for name in cases}
    number = 0
    while number < FEWEST_ROUNDS or time.monotonic() < until:
        number += 1
        progress(number)
        for name in random.sample(list(cases), len(cases)):
            launch = run_launch({MODEL: cases[name]}, PACE, random, WorkerProcess, method)
            spent[name].append(launch.inference_seconds[MODEL])
    return {name: min(launches) for name, launches in spent.items()}
