"""Measurements for other tools: CSV, and MLflow."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from orun.errors import MissingPackages, UsageError
from orun.history.points import Point

if TYPE_CHECKING:
    from mlflow import MlflowClient

FORBIDDEN = re.compile(r"[^\w\-. /]")  # in the name of a metric of MLflow
TAG = "orun.run"
BATCH = 1000  # metrics that MLflow takes at once


def to_csv(points: Iterable[Point]) -> str:
    """Return a line for each measurement, below a line of the column names (see `Point`)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in dataclasses.fields(Point))
    writer.writerows(dataclasses.astuple(point) for point in points)
    return text.getvalue()


def to_mlflow(points: Iterable[Point], uri: str) -> int:
    """Log measurements to an MLflow tracking server: an experiment for each pipeline, a run for each run.

    A run that is there already stays, so that the same history can be logged every night.

    Values that are not numbers are left out.

    Returns:
        How many runs were logged.

    Raises:
        UsageError: if MLflow is not installed, or refuses them.
    """
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise MissingPackages("MLflow is not installed", ["mlflow-skinny"], why=str(error)) from error
    runs: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        runs.setdefault((point.pipeline, point.run), []).append(point)
    try:
        client = MlflowClient(tracking_uri=uri)
        return sum(_log(client, pipeline, run, group) for (pipeline, run), group in runs.items())
    except (MlflowException, OSError) as error:
        raise UsageError(f"MLflow at {uri} did not take the measurements", why=str(error)) from error


def _log(client: MlflowClient, pipeline: str, run: str, points: list[Point]) -> bool:
    """Log a run unless it is there; return whether it was logged."""
    from mlflow.entities import Metric

    known = client.get_experiment_by_name(pipeline)
    experiment: Any = known.experiment_id if known else client.create_experiment(pipeline)
    if client.search_runs([experiment], f"tags.`{TAG}` = '{run}'", max_results=1):
        return False
    first = min(point.measured_at for point in points)
    tags = {"orun.host": points[0].host, "orun.machine": points[0].machine}
    logged = client.create_run(experiment, start_time=round(first * 1000), tags=tags, run_name=run)
    metrics = [
        Metric(FORBIDDEN.sub("_", f"{point.stage}.{point.metric}"), point.value, round(point.measured_at * 1000), 0)
        for point in points
        if not math.isnan(point.value)
    ]
    for begin in range(0, len(metrics), BATCH):
        client.log_batch(logged.info.run_id, metrics=metrics[begin : begin + BATCH])
    client.set_terminated(logged.info.run_id, end_time=round(max(point.measured_at for point in points) * 1000))
    client.set_tag(logged.info.run_id, TAG, run)  # last: a run that was logged in part is logged again
    return True
