"""Searches of the history: by the name of a metric, for the past of a run's gates, and for renamed stages."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection
from pathlib import PurePath

from orun.core.run_record import RunResult
from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.history.database import History
from orun.history.points import Point, Series, group_points
from orun.text.suggestions import format_choices, suggest


def find_points(history: History, metric: str, pipeline: str) -> tuple[Point, ...]:
    """Return the measurements of a metric, the oldest first.

    Args:
        history: where to look.
        metric: `p50`, or `latency.p50` of one stage; every metric when empty.
        pipeline: name of a pipeline; every pipeline when empty.

    Raises:
        UsageError: if there are none.
        StoreError: if the history cannot be read.
    """
    columns = {"pipeline": pipeline} if pipeline else {}
    points = history.read_points(**columns, **({"name": metric} if metric else {}))
    if points:
        return points
    names = history.read_names(**columns)
    if not names:
        message = f"nothing of {pipeline} was measured yet" if pipeline else "nothing was measured yet"
        raise UsageError(message, why=f"looked in {history.path}", hint="orun FILE")
    file = PurePath(metric)
    if file.suffix in (".yaml", ".yml"):
        known_name = quote(file.stem) if history.read_names(pipeline=file.stem) else "NAME"
        raise UsageError(
            f"no measurement of '{metric}'",
            why="the argument is a metric, not a file",
            hint=f"orun history --pipeline {known_name}",
        )
    known = sorted({f"{stage}.{name}" for stage, name in names} | {name for _, name in names})
    why = suggest(metric, known, format_choices(name for name in known if "[" not in name))
    raise UsageError(f"no measurement of '{metric}'", why=why, hint="orun history")


def find_past(history: History, result: RunResult) -> tuple[Series, ...]:
    """Return the measurements of the gated metrics of a run, each on the machine of the run's figure.

    Raises:
        StoreError: if the history cannot be read.
    """
    gated = dict.fromkeys((verdict.stage, verdict.metric) for verdict in result.verdicts)
    keys = {stage.stage: stage.key for stage in result.stages}
    comparable: list[Point] = []
    for stage, metric in gated:
        points = history.read_points(pipeline=result.pipeline, stage=stage, metric=metric)
        machine = next((point.machine for point in reversed(points) if point.key == keys.get(stage, "")), None)
        comparable += [point for point in points if point.machine == machine]
    return group_points(comparable)


def find_renamed_points(history: History, result: RunResult, stages: Collection[str]) -> tuple[Point, ...]:
    """Return the measurements of renamed stages that the history does not know yet, under their new names.

    A cached stage is a renamed one if its key is that of a stage that the pipeline no longer has.

    `stages` are all stages of the pipeline, those outside the run too.

    Raises:
        StoreError: if the history cannot be read.
    """
    known = {stage for stage, _ in history.read_names(pipeline=result.pipeline)}
    keys = Counter(stage.key for stage in result.stages)
    renamed: list[Point] = []
    for stage in result.stages:
        if stage.outcome != "cached" or not stage.metrics or stage.stage in known or keys[stage.key] > 1:
            continue
        before = {point.stage for point in history.read_points(pipeline=result.pipeline, key=stage.key)}
        if len(before) == 1 and before.isdisjoint(stages):
            past = history.read_points(pipeline=result.pipeline, stage=before.pop())
            renamed += [dataclasses.replace(point, stage=stage.stage) for point in past]
    return tuple(renamed)
