"""Settings that would let a stage measure what a gate could not decide, as the end of a sentence.

A longer `time` alone changes nothing where a measurement ended because it knew enough. `measure/latency` makes launches
until it tells a slow-down of its `resolution` from none, and a ratio to a reference to half of it; other figures become
better known with more launches. What is set is in the key of the stage, so that the next run measures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orun.core.metrics import Disturbance
from orun.measure.latency.sequential_test import FINEST, FLOOR, SHARED, Evidence, reach

# Metrics of `measure/latency`: what a user feels, and what the launches go on for.
WALL = frozenset({"p50", "p90", "p95", "p99", "mean", "min", "max"})
SPEEDUP = "speedup"
PAIRED = frozenset({"p50", "cpu", SPEEDUP})
COUNTS = ("min_launches", "launches", "rounds")  # parameters: how many there are at least
ALIKE = 0.1  # two resolutions that differ by less ask the same
SURE = 0.8  # of the width that is needed: the next launches spread otherwise
AT_ONCE = 0.25  # of the resolution: a value that happens to lie at the limit says little about how near the truth is
AMPLE = 2.0  # times the launches that would do if the next ones were as these
MOST = 100  # launches that are worth naming
TOO_NEAR = "it is too near for this stage: choose another threshold"
AGAIN = "measure again with --fresh"

Params = Mapping[str, Any]


def to_tell(metric: str, evidence: Evidence, slowdown: float, params: Params) -> str:
    """What tells a slow-down, a log ratio above 0, from none."""
    if _is_followed(metric, params):
        knew = evidence.answer(math.log1p(params["resolution"])) != "undecided"
        return _finer(math.expm1(slowdown), evidence.count, params, knew=knew)
    return _more(AMPLE * _launches(evidence, slowdown), params)


def to_narrow(metric: str, width: float, share: float, count: int, params: Params) -> str:
    """What makes an interval narrow enough.

    Args:
        metric: that is compared with another model's.
        width: half of the interval's, as a log ratio.
        share: how much of it is narrow enough, between 0 and 1.
        count: launches that it is of; 0 where that is not known.
        params: of the stage.
    """
    if SURE * share * width < _narrowest(width, count):
        return TOO_NEAR
    if _is_followed(metric, params) and math.isfinite(width):
        current = params["resolution"]
        wanted = max(2 * SURE * share * width, current * AT_ONCE)
        return _finer(wanted, count, params, knew=width <= current / 2)
    return _more(_times_narrower(count, SURE * share) if count > 1 else math.inf, params)


def to_bound(metric: str, params: Params, *, bounded: bool) -> str:
    """What makes the interval of a figure by itself narrower; `bounded` says whether it has both ends."""
    wanted = [name for name in COUNTS if name in params][: 1 if bounded else 0]
    wanted += ["samples"] if metric in WALL and "samples" in params else []
    return f"raise {' and '.join(f'`{name}`' for name in wanted)}" if wanted else AGAIN


def explain_disturbance(disturbance: Disturbance) -> str:
    """Say why times on several threads are no evidence, and the three ways on: the only place that names them.

    Without `intra_op_num_threads` a session has a thread for each core, so any other process makes one of them wait.
    """
    return (
        f"threads waited for a core in {disturbance.launches} of {disturbance.of} launches: set "
        "`session: {intra_op_num_threads: 1}` in the target, measure on a quieter machine, or set `undecided: allow` "
        "in the gate"
    )


def _is_followed(metric: str, params: Params) -> bool:
    return metric in PAIRED and isinstance(params.get("resolution"), (int, float))


def _finer(resolution: float, count: int, params: Params, *, knew: bool) -> str:
    """What to set for another resolution; `knew` says whether launches ended because they knew enough for the last."""
    if resolution < FINEST:
        return TOO_NEAR
    alike = math.isclose(resolution, params["resolution"], rel_tol=ALIKE)
    set_to = f"`resolution: {_percent(resolution)}`"
    if knew and not alike:
        return f"set {set_to}, and launches go on until they decide it"
    wanted = [set_to] if resolution < params["resolution"] and not alike else []
    wanted += ["a longer `time`", *(["more `max_launches`"] if count >= params.get("max_launches", math.inf) else [])]
    return f"its time was used up: set {' and '.join(wanted)}"


def _percent(value: float) -> str:
    """With two digits, rounded down."""
    percent = 100 * value
    digits = max(1 - math.floor(math.log10(percent)), 0)
    return f"{math.floor(percent * 10**digits + 1e-6) / 10**digits:g}%"


def _more(launches: float, params: Params) -> str:
    name = next((name for name in COUNTS if name in params), "")
    if not name:
        return AGAIN
    what = "rounds" if name == "rounds" else "launches"
    if launches > MOST:
        return f"over {MOST} {what} would decide it: choose another threshold, or measure where less disturbs"
    number = math.ceil(launches)
    most = f" and `max_launches: {number}`" if number > params.get("max_launches", math.inf) else ""
    return f"about {number} {what} would decide it: set `{name}: {number}`{most}"


def _launches(evidence: Evidence, slowdown: float) -> float:
    """Launches with which the test would answer if mean and spread stayed as they are."""
    for count in range(evidence.count + 1, MOST + 1):
        if Evidence(count, evidence.mean, evidence.spread).answer(slowdown) != "undecided":
            return count
    return math.inf


def _times_narrower(count: int, share: float) -> float:
    """Launches of which the interval of the mean is so much narrower than of `count`."""
    wanted = share * reach(count, SHARED)
    return next((more for more in range(count + 1, MOST + 1) if reach(more, SHARED) <= wanted), math.inf)


def _narrowest(width: float, count: int) -> float:
    """Half of the interval that many launches leave, as a log ratio: those of a run have something in common."""
    if not math.isfinite(width):
        return 0.0
    return reach(MOST, SHARED) * (width / reach(count, SHARED) if count > 1 else FLOOR)
