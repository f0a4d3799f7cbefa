"""Measurements as the history keeps them, and the series that they form."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import index_by_subject
from orun.core.metrics import Better, Noise, Unit
from orun.core.run_record import RunResult, StageResult
from orun.environment.hosts import select_hardware
from orun.fs.digests import digest_bytes
from orun.text.units import show

SeriesName = tuple[str, str, str, str]  # pipeline, stage, metric, machine
SHORT = 12  # hexadecimal digits that tell the machines of one history apart


@dataclass(frozen=True)
class Point:
    """Measured value of a stage.

    Attributes:
        pipeline, stage, uses, metric: what was measured.
        value: the value in `unit`; NaN if the stage returned NaN.
        low, high: its 95 % interval; None for an exact value.
        unit, better, noise: see `orun.core.metrics.Metric`.
        host: name of the machine that measured; its id if it is one of a fleet.
        machine: digest of the hardware that the measurement is bound to: processor and GPU; for times also the host and
            its clocks. Figures of different machines are not comparable.
        key: cache key of the stage.
        run: id of the run that measured it, or that used it again after another value.
        measured_at: when that was, in seconds since the epoch.
        runtime: ONNX Runtime's package and version; empty if the measurement is not bound to it.
    """

    pipeline: str
    stage: str
    uses: str
    metric: str
    value: float
    low: float | None
    high: float | None
    unit: Unit
    better: Better
    noise: Noise
    host: str
    machine: str
    key: str
    run: str
    measured_at: float
    runtime: str = ""

    @property
    def series(self) -> SeriesName:
        """Name of the series that it belongs to."""
        return self.pipeline, self.stage, self.metric, self.machine


@dataclass(frozen=True)
class Series:
    """Measurements of one metric of one stage on one machine, the oldest first; at least one."""

    points: tuple[Point, ...]

    def __repr__(self) -> str:
        return f"Series({self.name!r}, points={len(self.points)}, last={show(self.last.value, self.last.unit)!r})"

    @property
    def name(self) -> str:
        """`latency.p50`."""
        return f"{self.last.stage}.{self.last.metric}"

    @property
    def last(self) -> Point:
        """The newest measurement."""
        return self.points[-1]

    @property
    def values(self) -> tuple[float, ...]:
        """The measured values in their order."""
        return tuple(point.value for point in self.points)


def list_points(result: RunResult) -> tuple[Point, ...]:
    """Return what a run measured itself; cached measurements are in the history already."""
    built = (stage for stage in result.stages if stage.outcome == "built")
    return tuple(point for stage in built for point in _iter_points(result, stage, stage.built_at))


def list_points_used_again(result: RunResult, last: Mapping[SeriesName, float]) -> tuple[Point, ...]:
    """Return the cached values of a run that differ from the last of their series, as after an edit was reverted.

    Times are left out: they are measurements of their moment.

    A series without a last value is left out.
    """
    cached = (stage for stage in result.stages if stage.outcome == "cached")
    points = (point for stage in cached for point in _iter_points(result, stage, result.started_at))
    return tuple(
        point
        for point in points
        if point.noise != "timing" and point.series in last and differ(point.value, last[point.series])
    )


def differ(value: float, other: float) -> bool:
    """Return whether two values differ; two NaN do not."""
    return value != other and not (math.isnan(value) and math.isnan(other))


def _iter_points(result: RunResult, stage: StageResult, moment: float) -> Iterator[Point]:
    """Yield the figures of a stage of a run as measurements of this moment."""
    device = select_device(stage)
    for name, metric in stage.metrics.items():
        yield Point(
            pipeline=result.pipeline,
            stage=stage.stage,
            uses=stage.uses,
            metric=name,
            value=metric.value,
            low=metric.interval.low if metric.interval else None,
            high=metric.interval.high if metric.interval else None,
            unit=metric.unit,
            better=metric.better,
            noise=metric.noise,
            host=stage.machine or result.host.get("host", ""),
            machine=digest_hardware(device),
            key=stage.key,
            run=result.run,
            measured_at=moment,
            runtime=device.get("runtime", ""),
        )


def select_device(stage: StageResult) -> dict[str, str]:
    """Return the fingerprint that the result of a stage is bound to, without further targets."""
    return index_by_subject(stage.inputs, ComponentKind.DEVICE)


def digest_hardware(fingerprint: Mapping[str, str]) -> str:
    """Return a short digest of the hardware in a fingerprint; software may change within a series."""
    return digest_bytes(json.dumps(select_hardware(fingerprint), sort_keys=True).encode())[:SHORT]


def group_points(points: Iterable[Point]) -> tuple[Series, ...]:
    """Return the points grouped by pipeline, stage, metric and machine, in order of these names."""
    groups: dict[SeriesName, list[Point]] = {}
    for point in points:
        groups.setdefault(point.series, []).append(point)
    # Older measurements come first: run ids are in order, whatever the clock says.
    by_age = (sorted(group, key=lambda point: (point.run, point.measured_at)) for _, group in sorted(groups.items()))
    return tuple(Series(tuple(group)) for group in by_age)
