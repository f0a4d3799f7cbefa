"""Request and result of an accuracy measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orun.core.metrics import Better, Metric, Unit
from orun.errors import StageFailed
from orun.measure.accuracy.names import ERRORS, FIDELITY, SHARES
from orun.measure.dataset import Dataset, Values

Floats: TypeAlias = NDArray[np.float64]
Function: TypeAlias = Callable[[Mapping[str, Values], Dataset], Any]


@dataclass(frozen=True)
class Request:
    """What to find out.

    Attributes:
        stage: its id, for errors.
        metrics: names of built-in metrics.
        functions: the user's own metrics by name.
        better: their direction by name; `higher` when left out.
        outputs: the outputs to look at, all when empty; task metrics judge the first.
        batch: examples that are fed together at most.
        seed: of the bootstrap.
        slices: fields of the dataset by each of whose values every metric is told, too.
        resamples: how often a function that returns one number of all examples is called on resamples; None for never.
        source: where the examples come from, as the file says it; empty where they are made up.
        class_axis: of an output's axes the one along which the scores of an example's classes stand.
    """

    stage: str
    metrics: tuple[str, ...]
    functions: Mapping[str, Function]
    better: Mapping[str, Better]
    outputs: tuple[str, ...]
    batch: int
    seed: int
    slices: tuple[str, ...] = ()
    resamples: int | None = None
    source: str = ""
    class_axis: int = -1

    @property
    def task(self) -> tuple[str, ...]:
        """The built-in metrics that need labels."""
        return tuple(name for name in self.metrics if name not in FIDELITY)

    def unit(self, metric: str) -> Unit:
        """Unit of a metric."""
        return "ratio" if metric in SHARES else ""

    def direction(self, metric: str) -> Better:
        """In which direction a metric improves."""
        return "lower" if metric in ERRORS else self.better.get(metric, "higher")


def unlabelled(stage: str, metric: str, source: str) -> StageFailed:
    """The error of a metric that needs labels where the dataset has none.

    Args:
        stage: its id.
        metric: the name of the metric.
        source: where the examples come from, as the file says it; empty where they are made up.
    """
    if not source:
        return StageFailed(
            stage,
            f"{metric} needs labels, and inputs that are made up have none",
            hint="name examples with labels: dataset: data.py:function, or a file with `labels`",
        )
    return StageFailed(
        stage,
        f"{metric} needs labels, and the dataset {source} has none",
        hint="give it some: orun.Dataset(inputs, labels), or `labels` beside the `path` of its file",
    )


@dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        metrics: by name.
        examples: by `metric/role` or `metric[output]/role`, the value of each example, `[n]`, and for what compares
            outputs then that of each candidate.
    """

    metrics: Mapping[str, Metric]
    examples: Mapping[str, Floats]
