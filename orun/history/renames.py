"""Renamed stages: their past goes on under the new name.

A cached stage is a renamed one if its key is that of a stage that the pipeline no longer has.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection

from orun.core.run_record import RunResult
from orun.history.database import History
from orun.history.points import Point


def points_of_renamed(history: History, result: RunResult, stages: Collection[str]) -> tuple[Point, ...]:
    """Return the measurements of renamed stages that the history does not know yet, under their new names.

    Args:
        history: what is known.
        result: a run.
        stages: ids of all stages of its pipeline, those outside the run too.

    Raises:
        StoreError: if the history cannot be read.
    """
    known = {stage for stage, _ in history.names(pipeline=result.pipeline)}
    keys = Counter(stage.key for stage in result.stages)
    renamed: list[Point] = []
    for stage in result.stages:
        if stage.outcome != "cached" or not stage.metrics or stage.stage in known or keys[stage.key] > 1:
            continue
        before = {point.stage for point in history.points(pipeline=result.pipeline, key=stage.key)}
        if len(before) == 1 and before.isdisjoint(stages):
            past = history.points(pipeline=result.pipeline, stage=before.pop())
            renamed += [dataclasses.replace(point, stage=stage.stage) for point in past]
    return tuple(renamed)
