"""Metrics of the user's own: functions of what a model answered and of the dataset."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from orun.errors import StageFailed
from orun.measure.accuracy_request import Floats, Function, Request
from orun.measure.dataset import Dataset, Values, choose
from orun.measure.metrics_pooled import Pooled, Rows, of_function

CANDIDATES = "candidates."  # before the names of their outputs, which belong to no example


def own_scores(request: Request, dataset: Dataset, outputs: Mapping[str, Values]) -> dict[str, Floats | Pooled]:
    """By name one value for each example `[n]`, or what is one number of all: `[]`, or `Pooled` where it is resampled.

    Args:
        request: what was asked.
        dataset: the examples.
        outputs: of one model, by name.

    Raises:
        StageFailed: when a function returns another number of values, or one that is not finite.
    """
    pooled = own_parts(request, dataset, outputs, np.arange(len(dataset)))
    scores: dict[str, Floats | Pooled] = {}
    for name, function in request.functions.items():
        values = _finite(request, name, np.asarray(function(outputs, dataset), dtype=np.float64), len(dataset))
        scores[name] = values if values.ndim else pooled.get(name, values)
    return scores


def own_parts(request: Request, dataset: Dataset, outputs: Mapping[str, Values], examples: Rows) -> dict[str, Pooled]:
    """The functions as metrics of some of the examples, to be resampled; none where that was not asked for."""
    if request.resamples is None:
        return {}
    return {
        name: of_function(partial(_once, request, name, function, dataset, outputs), examples, request.resamples)
        for name, function in request.functions.items()
    }


def _once(
    request: Request, name: str, function: Function, dataset: Dataset, outputs: Mapping[str, Values], chosen: Rows
) -> float:
    taken = {key: values if key.startswith(CANDIDATES) else choose(values, chosen) for key, values in outputs.items()}
    value = np.asarray(function(taken, dataset.choose(chosen)), dtype=np.float64)
    if value.ndim:
        raise StageFailed(
            request.stage,
            f"the metric {name} must return one number of any examples, as it does of all",
            why=f"it returned an array of shape {list(value.shape)} of {len(chosen)} resampled ones",
        )
    return float(value)


def _finite(request: Request, name: str, values: Floats, examples: int) -> Floats:
    if values.shape not in ((), (examples,)):
        raise StageFailed(
            request.stage,
            f"the metric {name} must return one number, or one for each of the {examples} examples",
            why=f"it returned an array of shape {list(values.shape)}",
        )
    if not np.isfinite(values).all():
        raise StageFailed(request.stage, f"the metric {name} returned a number that is not finite")
    return values
