"""False alarms of `orun watch` over the lives of simulated releases, and the delay with which it finds planted drifts.

A life is a release with a reference of its own, drawn anew, and a log in which every record is looked at. It has a
statistic of each kind in `KINDS`. An alarm is any statistic that is ever named.

    python -m benchmarks.watch              100,000 days without drift, and the delays: minutes
    python -m benchmarks.watch --lives 50   fewer lives of 100 days
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

import orun
from orun.drift.e_process import DriftTest

Array = NDArray[Any]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]

DAYS = 100  # of a life
REQUESTS = 24  # sampled a day, one an hour
CLASSES = np.arange(10.0)
ALPHA: float = signature(orun.watch).parameters["alpha"].default  # chance of ever naming what has not drifted
STATISTICS = 30  # among which the delays are measured: each must reach STATISTICS / ALPHA
EXAMPLES = 1000  # of a reference, for the delays
LONGEST = 5000  # requests after a drift
PER_DAY = "one per day"
TOGETHER = 50  # lives that are simulated at once: their capital then stays in the processor's caches


def _partly(random: np.random.Generator, shape: tuple[int, ...], share: float, value: float, usual: Array) -> Array:
    """Return usual values of which a share has another value."""
    return np.where(random.random(shape) < share, value, usual)


KINDS: Mapping[str, Draw] = {
    "normal": lambda random, shape: random.normal(size=shape),
    "Cauchy": lambda random, shape: random.standard_cauchy(size=shape),
    "length": lambda random, shape: np.round(random.lognormal(4, 0.8, shape)),
    "class": lambda random, shape: random.choice(CLASSES, shape),
    "missing": lambda random, shape: _partly(random, shape, 0.02, np.inf, random.exponential(size=shape)),
}
DRIFTS: Mapping[str, tuple[str, Draw]] = {
    "mean + 0.25 sd": ("normal", lambda random, shape: random.normal(0.25, 1, shape)),
    "mean + 0.5 sd": ("normal", lambda random, shape: random.normal(0.5, 1, shape)),
    "mean + 1 sd": ("normal", lambda random, shape: random.normal(1, 1, shape)),
    "spread x 1.5": ("normal", lambda random, shape: random.normal(0, 1.5, shape)),
    "spread x 0.5": ("normal", lambda random, shape: random.normal(0, 0.5, shape)),
    "heavy tails, twice as wide": ("Cauchy", lambda random, shape: 2 * random.standard_cauchy(size=shape)),
    "texts half as long": ("length", lambda random, shape: np.round(random.lognormal(4, 0.8, shape) / 2)),
    "1 of 10 classes vanishes": ("class", lambda random, shape: random.choice(np.delete(CLASSES, 4), shape)),
    "missing values 2 % to 10 %": (
        "missing",
        lambda random, shape: _partly(random, shape, 0.1, np.inf, random.exponential(size=shape)),
    ),
    "5 % of requests broken": (
        "normal",
        lambda random, shape: _partly(random, shape, 0.05, 1e3, random.normal(size=shape)),
    ),
    "all requests broken": ("normal", lambda random, shape: random.normal(1e3, 1, shape)),
}


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lives", type=int, default=1000, help=f"lives of {DAYS} days; a tenth in some rows")
    parser.add_argument("--plants", type=int, default=200, help="lives with each planted drift")
    options = parser.parse_args()
    few = max(1, options.lives // 10)
    print(f"alarms in lives of {DAYS} days without drift, {REQUESTS} sampled requests a day, alpha {ALPHA:.0%}\n")
    print(f"{'traffic':28} {'examples':>8} {'records':>12} {'days':>8} {'alarms':>14}")
    for name, traffic, examples, records, lives in (
        ("independent requests", independent, 500, "all", options.lives),
        ("independent requests", independent, 50, "all", few),
        ("daily cycle", daily_cycle, 500, "all", few),
        ("daily cycle", daily_cycle, 500, PER_DAY, options.lives),
        ("days differ", different_days, 500, "all", few),
        ("days differ", different_days, 500, PER_DAY, options.lives),
    ):
        alarms = false_alarms(lives, examples, traffic, REQUESTS if records == PER_DAY else 1)
        share = f"{alarms} = {alarms / lives:.1%}"
        print(f"{name:28} {examples:8} {records:>12} {lives * DAYS:8,} {share:>14}", flush=True)
    print(f"\nrequests until a drift is found, among {STATISTICS} statistics, {EXAMPLES} examples, alpha {ALPHA:.0%}\n")
    print(f"{'drift':28} {'from the first request':>24} {'after 1000 requests':>24}")
    for name, (kind, drift) in DRIFTS.items():
        columns = [delays(options.plants, KINDS[kind], drift, before) for before in (0, 1000)]
        print(f"{name:28} {columns[0]:>24} {columns[1]:>24}", flush=True)


def independent(random: np.random.Generator, values: Array, *, is_log: bool) -> Array:
    """Return requests as they are drawn, `[records, columns]`."""
    del random, is_log
    return values


def daily_cycle(random: np.random.Generator, values: Array, *, is_log: bool) -> Array:
    """Return requests whose level goes up and down with the hour; examples are of any hour."""
    hours = np.arange(len(values))[:, None] if is_log else random.integers(0, 24, values.shape)
    return values + np.sin(hours / 24 * 2 * np.pi)


def different_days(random: np.random.Generator, values: Array, *, is_log: bool) -> Array:
    """Return requests whose level is another one each day; examples are of any day."""
    levels = random.normal(0, 0.5, values.shape)
    return values + (np.repeat(levels[: len(values) // REQUESTS], REQUESTS, axis=0) if is_log else levels)


def false_alarms(lives: int, examples: int, traffic: Callable[..., Array], every: int = 1) -> int:
    """Return the number of lives with an alarm.

    Args:
        lives: how many to simulate.
        examples: size of each reference.
        traffic: what becomes of independent values.
        every: one of so many records in a row counts, chosen at random.
    """
    groups = [min(TOGETHER, lives - start) for start in range(0, lives, TOGETHER)]
    return sum(_alarms(count, examples, traffic, every, seed) for seed, count in enumerate(groups))


def _alarms(lives: int, examples: int, traffic: Callable[..., Array], every: int, seed: int) -> int:
    random = np.random.default_rng(seed)

    def draw(records: int, *, is_log: bool) -> Array:
        values = np.concatenate([kind(random, (records, lives)) for kind in KINDS.values()], axis=1)
        return traffic(random, values, is_log=is_log)

    test = DriftTest.begin(list(draw(examples, is_log=False).T), random)
    is_alarm = np.zeros(lives, bool)
    for _ in range(DAYS):
        values = draw(REQUESTS, is_log=True)
        chosen = random.integers(0, every, len(values) // every) + np.arange(0, len(values), every)
        capital = test.add(values[chosen], chosen.astype(float)).capital
        reached = (capital.max(axis=0) >= len(KINDS) / ALPHA).reshape(len(KINDS), lives)
        is_alarm |= reached.any(axis=0)
    return int(is_alarm.sum())


def delays(lives: int, usual: Draw, drift: Draw, before: int, seed: int = 0) -> str:
    """Return the median and the 90 % quantile of the requests until a drift is found.

    Args:
        lives: how many to simulate.
        usual: values without drift.
        drift: values with it.
        before: requests before the drift.
        seed: of everything.
    """
    random = np.random.default_rng(seed)
    test = DriftTest.begin(list(usual(random, (EXAMPLES, lives)).T), random)
    records = 50
    noticed_at = np.full(lives, np.inf)
    for start in range(-before, LONGEST, records):
        values = (usual if start < 0 else drift)(random, (records, lives))
        is_enough = test.add(values, np.arange(records, dtype=float)).capital >= STATISTICS / ALPHA
        first = np.where(is_enough.any(axis=0), start + 1 + is_enough.argmax(axis=0), np.inf)
        noticed_at = np.minimum(noticed_at, first)
        if np.isfinite(noticed_at).all():
            break
    half, most = (np.quantile(noticed_at, level, method="higher") for level in (0.5, 0.9))
    return f"{_shown(half)}, 90 % by {_shown(most)}"


def _shown(requests: float) -> str:
    return f"{requests:.0f}" if np.isfinite(requests) else f"> {LONGEST}"


if __name__ == "__main__":
    main()
