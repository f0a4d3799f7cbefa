"""Measurements as the history keeps them, and the series that they form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import subjects
from orun.core.metrics import Better, Noise, Unit
from orun.core.run_record import RunResult, StageResult
from orun.environment.hosts import hardware
from orun.fs.digests import digest_bytes
from orun.text.units import show

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
        run: id of the run that measured it.
        measured_at: seconds since the epoch.
        runtime: ONNX Runtime's package and version; empty if the measurement is not bound to it, or is older than this
            field.
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


def points_of(result: RunResult) -> tuple[Point, ...]:
    """Return what a run measured itself; cached measurements are in the history already."""
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
            host=stage.machine or result.host.get("host", ""),
            machine=machine_of(device_of(stage)),
            key=stage.key,
            run=result.run,
            measured_at=stage.built_at,
            runtime=device_of(stage).get("runtime", ""),
        )
        for stage in result.stages
        if stage.outcome == "built"
        for name, metric in stage.metrics.items()
    )


def device_of(stage: StageResult) -> dict[str, str]:
    """Return the fingerprint that the result of a stage is bound to, without further targets."""
    return subjects(stage.inputs, ComponentKind.DEVICE)


def machine_of(fingerprint: Mapping[str, str]) -> str:
    """Return a short digest of the hardware in a fingerprint; software may change within a series."""
    return digest_bytes(json.dumps(hardware(fingerprint), sort_keys=True).encode())[:SHORT]


def series_of(points: Iterable[Point]) -> tuple[Series, ...]:
    """Return the points grouped by pipeline, stage, metric and machine, in order of these names."""
    groups: dict[tuple[str, str, str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.pipeline, point.stage, point.metric, point.machine), []).append(point)
    return tuple(Series(tuple(sorted(group, key=_age))) for _, group in sorted(groups.items()))


def _age(point: Point) -> tuple[str, float]:
    """Return a sort key that puts older measurements first: run ids are in order, whatever the clock says."""
    return point.run, point.measured_at
