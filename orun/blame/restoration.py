"""Places of a model that are restored together, and the time that a variant takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orun.blame.diagnosis import Place
from orun.core.metrics import Estimate
from orun.core.run_record import StageResult

ENOUGH = 0.8  # share of the error or slow-down that the restored places should explain
MOST = 5  # places restored together
SHOWN = 20  # places of a diagnosis
INPUT_PARAMETERS = ("inputs", "batch", "shape", "target")  # of a measurement, for the measurement of a variant
TIMING: Mapping[str, Any] = {"time": 4.0, "samples": 6, "max_launches": 4}  # measures the cost of a variant


def count_enough(places: Sequence[Place]) -> int:
    """Return how many of the first places explain enough; 0 if even all that may be restored do not."""
    total = 0.0
    for count, place in enumerate(places[:MOST], start=1):
        total += place.share
        if total >= ENOUGH:
            return count
    return 0


def read_time_difference(timing: StageResult) -> Estimate | None:
    """Return how much longer an inference takes than with the reference; None if it was not measured."""
    metric = timing.metrics.get("cpu")
    return metric.reference.difference if metric and metric.reference else None
