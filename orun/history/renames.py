"""Stages that have another name since: their past goes on under the new one.

A stage that takes from the store what one measured that the pipeline has no more, under the very same key, is that one.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection

from orun.core.run_record import RunResult
from orun.history.database import History
from orun.history.points import Point


def taken_over(history: History, result: RunResult, stages: Collection[str]) -> tuple[Point, ...]:
    """The measurements of such stages, of which nothing is known yet, under their new names.

    Args:
        history: what is known.
        result: a run.
        stages: ids of all stages that its pipeline has, also of those that it left out.

    Raises:
        StoreError: when the history cannot be read.
    """
    known = {stage for stage, _ in history.names(pipeline=result.pipeline)}
    keys = Counter(one.key for one in result.stages)
    found: list[Point] = []
    for one in result.stages:
        if one.outcome != "cached" or not one.metrics or one.stage in known or keys[one.key] > 1:
            continue
        before = {point.stage for point in history.points(pipeline=result.pipeline, key=one.key)}
        if len(before) == 1 and before.isdisjoint(stages):
            past = history.points(pipeline=result.pipeline, stage=before.pop())
            found += [dataclasses.replace(point, stage=one.stage) for point in past]
    return tuple(found)
