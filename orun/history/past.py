"""Earlier measurements of the metrics that a run's gates judged."""

from __future__ import annotations

from orun.core.run_record import RunResult
from orun.history.database import History
from orun.history.points import Point, Series, series_of


def past(history: History, result: RunResult) -> tuple[Series, ...]:
    """Return the measurements of the gated metrics of a run, each on the machine of the run's figure.

    Raises:
        StoreError: if the history cannot be read.
    """
    gated = dict.fromkeys((verdict.stage, verdict.metric) for verdict in result.verdicts)
    keys = {stage.stage: stage.key for stage in result.stages}
    comparable: list[Point] = []
    for stage, metric in gated:
        points = history.points(pipeline=result.pipeline, stage=stage, metric=metric)
        machine = next((point.machine for point in reversed(points) if point.key == keys.get(stage, "")), None)
        comparable += [point for point in points if point.machine == machine]
    return series_of(comparable)
