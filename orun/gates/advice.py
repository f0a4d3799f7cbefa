"""Settings that would let a stage measure what a gate could not decide, as reasons.

A longer `time` alone changes nothing where a measurement ended because it knew enough. `measure/latency` makes launches
until it can tell a slow-down of its `resolution` from none, and knows a ratio to a reference to half of it. More
launches narrow other figures. The settings are in the key of the stage, so the next run measures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orun.core.metrics import Disturbance
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.measure.latency.sequential_test import FINEST, FLOOR, SHARED, Evidence, compute_reach

# Metrics of `measure/latency`: wall times, and those for which launches go on.
WALL = frozenset({"p50", "p90", "p95", "p99", "mean", "min", "max"})
SPEEDUP = "speedup"
PAIRED = frozenset({"p50", "cpu", SPEEDUP})
COUNTS = ("min_launches", "launches", "rounds")  # parameters that set the least number
ALIKE = 0.1  # resolutions that differ by less are the same setting
WIDTH_MARGIN = 0.8  # of the width that is needed: the next launches may spread more
LEAST_STEP = 0.25  # of the current resolution: no finer one is advised, as a value may be at the limit by chance
LAUNCH_MARGIN = 2.0  # times the launches that are enough if the next launches are like these
MOST = 100  # launches that are worth a try

Params = Mapping[str, Any]


def advise_for_slowdown(metric: str, evidence: Evidence, slowdown: float, params: Params) -> Reason:
    """Return settings with which a slow-down of this size, a log ratio above 0, is detected."""
    if _is_followed(metric, params):
        ended_early = evidence.answer(math.log1p(params["resolution"])) != "undecided"
        return _advise_resolution(math.expm1(slowdown), evidence.count, params, ended_early=ended_early)
    return _advise_launches(LAUNCH_MARGIN * _estimate_launches_to_detect(evidence, slowdown), params)


def advise_for_ratio(metric: str, width: float, share: float, count: int, params: Params) -> Reason:
    """Return settings that make the interval of a ratio narrow enough.

    Args:
        metric: that is compared with another model's.
        width: half of the interval's, as a log ratio.
        share: how much of it is narrow enough, between 0 and 1.
        count: its launches; 0 where that is not known.
        params: of the stage.
    """
    if WIDTH_MARGIN * share * width < _compute_narrowest(width, count):
        return build_reason(ReasonCode.TOO_NEAR)
    if _is_followed(metric, params) and math.isfinite(width):
        current = params["resolution"]
        wanted = max(2 * WIDTH_MARGIN * share * width, current * LEAST_STEP)
        return _advise_resolution(wanted, count, params, ended_early=width <= current / 2)
    return _advise_launches(
        _estimate_launches_to_narrow(count, WIDTH_MARGIN * share) if count > 1 else math.inf, params
    )


def advise_for_figure(metric: str, params: Params, *, bounded: bool) -> Reason:
    """Return settings that narrow the interval of a figure alone; `bounded` says whether it has both ends."""
    wanted = [name for name in COUNTS if name in params][: 1 if bounded else 0]
    wanted += ["samples"] if metric in WALL and "samples" in params else []
    return build_reason(ReasonCode.RAISE_PARAMETERS, names=wanted) if wanted else build_reason(ReasonCode.MEASURE_AGAIN)


def explain_disturbance(disturbance: Disturbance) -> Reason:
    """Return why times are no evidence."""
    return build_reason(
        ReasonCode.DISTURBED, launches=disturbance.launches, of=disturbance.of, shared=disturbance.shared or None
    )


def _is_followed(metric: str, params: Params) -> bool:
    return metric in PAIRED and isinstance(params.get("resolution"), (int, float))


def _advise_resolution(resolution: float, count: int, params: Params, *, ended_early: bool) -> Reason:
    """Return settings for another resolution; `ended_early` says whether launches ended before the time was up."""
    if resolution < FINEST:
        return build_reason(ReasonCode.TOO_NEAR)
    alike = math.isclose(resolution, params["resolution"], rel_tol=ALIKE)
    setting = _format_percent(resolution)
    if ended_early and not alike:
        return build_reason(ReasonCode.SET_RESOLUTION, resolution=setting)
    finer = resolution < params["resolution"] and not alike
    at_limit = count >= params.get("max_launches", math.inf)
    return build_reason(ReasonCode.TIME_USED_UP, resolution=setting if finer else None, max_launches=at_limit or None)


def _format_percent(value: float) -> str:
    """Return a proportion in percent with two digits, rounded down."""
    percent = 100 * value
    digits = max(1 - math.floor(math.log10(percent)), 0)
    return f"{math.floor(percent * 10**digits + 1e-6) / 10**digits:g}%"


def _advise_launches(launches: float, params: Params) -> Reason:
    name = next((name for name in COUNTS if name in params), "")
    if not name:
        return build_reason(ReasonCode.MEASURE_AGAIN)
    if launches > MOST:
        return build_reason(ReasonCode.TOO_MANY_LAUNCHES, parameter=name, most=MOST)
    number = math.ceil(launches)
    above_limit = number > params.get("max_launches", math.inf)
    return build_reason(ReasonCode.MORE_LAUNCHES, parameter=name, number=number, max_launches=above_limit or None)


def _estimate_launches_to_detect(evidence: Evidence, slowdown: float) -> float:
    """Return the launches with which the test would answer if mean and spread stayed the same."""
    for count in range(evidence.count + 1, MOST + 1):
        if Evidence(count, evidence.mean, evidence.spread).answer(slowdown) != "undecided":
            return count
    return math.inf


def _estimate_launches_to_narrow(count: int, share: float) -> float:
    """Return the launches whose interval of the mean is narrower by this share than that of `count`."""
    wanted = share * compute_reach(count, SHARED)
    return next((more for more in range(count + 1, MOST + 1) if compute_reach(more, SHARED) <= wanted), math.inf)


def _compute_narrowest(width: float, count: int) -> float:
    """Return half of the interval that many launches leave, as a log ratio: launches of a run share an error."""
    if not math.isfinite(width):
        return 0.0
    return compute_reach(MOST, SHARED) * (width / compute_reach(count, SHARED) if count > 1 else FLOOR)
