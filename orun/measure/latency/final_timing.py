"""Final timing of candidates: the fastest of many launches of each, spread over minutes.

Models whose kernels are of different kinds cannot be told apart by their ratio in one minute. On a virtual machine the
neighbours share units of the processor (AMX, caches), which slows one kind down by half and another not at all, for
seconds or minutes: side by side, 8-bit integers took from .94 to 1.4 of the time of bfloat16 within ten minutes. What
others do makes none faster, so that the least of what many launches took is what the model takes by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random

from orun.measure.benchmark_case import Subject
from orun.measure.latency.abba_blocks import MODEL, Pace, launch, method_of

FEWEST = 3
PACE = Pace(warmup=0.05, samples=1, alone=0.0, quads=0.5)


def undisturbed(
    subjects: Mapping[str, Subject], seconds: float, seed: int, progress: Callable[[int], None]
) -> dict[str, float]:
    """Seconds of an inference of each model in the launch of it that was disturbed least.

    The models are launched in turn, in random order and one at a time, and all are timed by the same method.

    Args:
        subjects: by name.
        seconds: after which no further round of launches begins; three are made whatever they take.
        seed: of every random order.
        progress: called with the number of each round, from 1.

    Raises:
        OrunError: when a model cannot be opened or run.
    """
    random, until = Random(seed), time.monotonic() + seconds  # noqa: S311 - an order, not a secret
    method = method_of({name: launch({MODEL: one}, PACE, random).opened[MODEL] for name, one in subjects.items()})
    spent: dict[str, list[float]] = {name: [] for name in subjects}
    rounds = 0
    while rounds < FEWEST or time.monotonic() < until:
        rounds += 1
        progress(rounds)
        for name in random.sample(list(subjects), len(subjects)):
            spent[name].append(launch({MODEL: subjects[name]}, PACE, random, method).busy[MODEL])
    return {name: min(each) for name, each in spent.items()}
