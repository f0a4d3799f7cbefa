"""Settings that would let a stage measure what a gate could not decide, as reasons.

A longer `time` alone changes nothing where a measurement ended because it knew enough. `measure/latency` makes launches
until it tells a slow-down of its `resolution` from none, and a ratio to a reference to half of it. More launches narrow
other figures. The settings are in the key of the stage, so the next run measures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orun.core.metrics import Disturbance
from orun.core.reason import Reason, reason
from orun.core.reason_codes import ReasonCode
from orun.measure.latency.sequential_test import FINEST, FLOOR, SHARED, Evidence, reach

# Metrics of `measure/latency`: wall times, and those for which launches go on.
WALL = frozenset({"p50", "p90", "p95", "p99", "mean", "min", "max"})
SPEEDUP = "speedup"
PAIRED = frozenset({"p50", "cpu", SPEEDUP})
COUNTS = ("min_launches", "launches", "rounds")  # parameters that set the least number
ALIKE = 0.1  # resolutions that differ by less are the same setting
SURE = 0.8  # of the width that is needed: the next launches may spread more
AT_ONCE = 0.25  # of the resolution: the least that is advised, as a value at the limit may be there by chance
AMPLE = 2.0  # times the launches that would do if the next launches were like these
MOST = 100  # launches that are worth a try

Params = Mapping[str, Any]


def to_tell(metric: str, evidence: Evidence, slowdown: float, params: Params) -> Reason:
    """Return what tells a slow-down, a log ratio above 0, from none."""
    if _is_followed(metric, params):
        knew = evidence.answer(math.log1p(params["resolution"])) != "undecided"
        return _finer(math.expm1(slowdown), evidence.count, params, knew=knew)
    return _more(AMPLE * _launches(evidence, slowdown), params)


def to_narrow(metric: str, width: float, share: float, count: int, params: Params) -> Reason:
    """Return what makes an interval narrow enough.

    Args:
        metric: that is compared with another model's.
        width: half of the interval's, as a log ratio.
        share: how much of it is narrow enough, between 0 and 1.
        count: its launches; 0 where that is not known.
        params: of the stage.
    """
    if SURE * share * width < _narrowest(width, count):
        return reason(ReasonCode.TOO_NEAR)
    if _is_followed(metric, params) and math.isfinite(width):
        current = params["resolution"]
        wanted = max(2 * SURE * share * width, current * AT_ONCE)
        return _finer(wanted, count, params, knew=width <= current / 2)
    return _more(_times_narrower(count, SURE * share) if count > 1 else math.inf, params)


def to_bound(metric: str, params: Params, *, bounded: bool) -> Reason:
    """Return what narrows the interval of a figure by itself; `bounded` says whether it has both ends."""
    wanted = [name for name in COUNTS if name in params][: 1 if bounded else 0]
    wanted += ["samples"] if metric in WALL and "samples" in params else []
    return reason(ReasonCode.RAISE_PARAMETERS, names=wanted) if wanted else reason(ReasonCode.MEASURE_AGAIN)


def disturbed(disturbance: Disturbance) -> Reason:
    """Return why times are no evidence."""
    return reason(
        ReasonCode.DISTURBED, launches=disturbance.launches, of=disturbance.of, shared=disturbance.shared or None
    )


def _is_followed(metric: str, params: Params) -> bool:
    return metric in PAIRED and isinstance(params.get("resolution"), (int, float))


def _finer(resolution: float, count: int, params: Params, *, knew: bool) -> Reason:
    """Return what to set for another resolution; `knew` says whether launches ended because they knew enough."""
    if resolution < FINEST:
        return reason(ReasonCode.TOO_NEAR)
    alike = math.isclose(resolution, params["resolution"], rel_tol=ALIKE)
    setting = _percent(resolution)
    if knew and not alike:
        return reason(ReasonCode.SET_RESOLUTION, resolution=setting)
    finer = resolution < params["resolution"] and not alike
    at_limit = count >= params.get("max_launches", math.inf)
    return reason(ReasonCode.TIME_USED_UP, resolution=setting if finer else None, max_launches=at_limit or None)


def _percent(value: float) -> str:
    """Return a proportion in percent with two digits, rounded down."""
    percent = 100 * value
    digits = max(1 - math.floor(math.log10(percent)), 0)
    return f"{math.floor(percent * 10**digits + 1e-6) / 10**digits:g}%"


def _more(launches: float, params: Params) -> Reason:
    name = next((name for name in COUNTS if name in params), "")
    if not name:
        return reason(ReasonCode.MEASURE_AGAIN)
    if launches > MOST:
        return reason(ReasonCode.TOO_MANY_LAUNCHES, parameter=name, most=MOST)
    number = math.ceil(launches)
    above_limit = number > params.get("max_launches", math.inf)
    return reason(ReasonCode.MORE_LAUNCHES, parameter=name, number=number, max_launches=above_limit or None)


def _launches(evidence: Evidence, slowdown: float) -> float:
    """Return the launches with which the test would answer if mean and spread stayed the same."""
    for count in range(evidence.count + 1, MOST + 1):
        if Evidence(count, evidence.mean, evidence.spread).answer(slowdown) != "undecided":
            return count
    return math.inf


def _times_narrower(count: int, share: float) -> float:
    """Return the launches whose interval of the mean is narrower by this share than that of `count`."""
    wanted = share * reach(count, SHARED)
    return next((more for more in range(count + 1, MOST + 1) if reach(more, SHARED) <= wanted), math.inf)


def _narrowest(width: float, count: int) -> float:
    """Return half of the interval that many launches leave, as a log ratio: launches of a run share an error."""
    if not math.isfinite(width):
        return 0.0
    return reach(MOST, SHARED) * (width / reach(count, SHARED) if count > 1 else FLOOR)
