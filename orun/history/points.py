"""A measurement as history keeps it, and the series that measurements form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orun.metrics import Better, Noise, Unit
from orun.record import RunResult
from orun.store.digests import digest_bytes

SHORT = 12  # hexadecimal digits that tell the machines of one history apart


@dataclass(frozen=True)
class Point:
    """One measured value of one stage.

    Attributes:
        pipeline, stage, uses, metric: what was measured.
        value: in `unit`; not a number where the stage yielded that.
        low, high: its 95 % interval; None for an exact value.
        unit, better, noise: see `orun.metrics.Metric`.
        host: name of the machine that measured.
        machine: digest of what the measurement is bound to on it (processor, clocks, runtime): figures of different
            machines are not comparable.
        key: of the stage.
        run: id of the run that measured it.
        measured_at: seconds since the epoch.
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


@dataclass(frozen=True)
class Series:
    """The measurements of one metric of one stage on one machine, the oldest first; at least one."""

    points: tuple[Point, ...]

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


def points_of(result: RunResult) -> tuple[Point, ...]:
    """What a run measured itself; what it took from the store was measured, and remembered, before."""
    host, machine = result.host.get("host", ""), machine_of(result.host)
    return tuple(
        Point(
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
            host=host,
            machine=machine,
            key=stage.key,
            run=result.run,
            measured_at=stage.built_at,
        )
        for stage in result.stages
        if stage.outcome == "built"
        for name, metric in stage.metrics.items()
    )


def machine_of(fingerprint: Mapping[str, str]) -> str:
    """A short digest of the fingerprint of a host."""
    return digest_bytes(json.dumps(dict(fingerprint), sort_keys=True).encode())[:SHORT]


def series_of(points: Iterable[Point]) -> tuple[Series, ...]:
    """The points grouped by pipeline, stage, metric and machine, in order of these names."""
    groups: dict[tuple[str, str, str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.pipeline, point.stage, point.metric, point.machine), []).append(point)
    return tuple(
        Series(tuple(sorted(group, key=lambda point: point.measured_at))) for _, group in sorted(groups.items())
    )
