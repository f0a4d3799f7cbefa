"""Earlier measurements of the metrics that a run's gates judged."""

from __future__ import annotations

from collections.abc import Sequence

from orun.core.run_record import RunResult
from orun.history.database import History
from orun.history.points import Point, Series, series_of


def past(history: History, result: RunResult) -> tuple[Series, ...]:
    """The measurements of the gated metrics of a run, each on the machine that the run's figure is of.

    Raises:
        StoreError: when the history cannot be read.
    """
    gated = dict.fromkeys((verdict.stage, verdict.metric) for verdict in result.verdicts)
    keys = {stage.stage: stage.key for stage in result.stages}
    found: list[Point] = []
    for stage, metric in gated:
        points = history.points(pipeline=result.pipeline, stage=stage, metric=metric)
        machine = _machine(points, keys.get(stage, ""))
        found += [point for point in points if point.machine == machine]
    return series_of(found)


def _machine(points: Sequence[Point], key: str) -> str | None:
    """Where the newest measurement under a key was made; None where none is known."""
    return next((point.machine for point in reversed(points) if point.key == key), None)
