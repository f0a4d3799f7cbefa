"""Metrics of the user's own: functions of what a model answered and of the dataset."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from orun.errors import StageFailed
from orun.measure.accuracy.request import Floats, Function, Request, unlabelled
from orun.measure.dataset import Dataset, Values, choose
from orun.measure.metrics.pooled import Pooled, Rows, of_function

CANDIDATES = "candidates."  # before the names of their outputs, which belong to no example


class _Unlabelled(Dataset):
    """A dataset without labels, as a function is given it: one that asks for them would hold its outputs against None.

    That compares as wrong, without an error: 0 % of what may be all right. One that does not ask sees no difference.
    """

    def __init__(self, plain: Dataset, request: Request, metric: str) -> None:
        vars(self).update(vars(plain), _plain=plain, _request=request, _metric=metric)

    def __getattribute__(self, name: str) -> Any:
        if name == "labels":
            raise unlabelled(self._request.stage, f"the metric {self._metric}", self._request.source)
        return super().__getattribute__(name)

    def __repr__(self) -> str:
        return repr(self._plain)

    def choose(self, examples: Rows) -> Dataset:
        return _Unlabelled(self._plain.choose(examples), self._request, self._metric)


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
        values = _finite(request, name, _called(request, name, function, outputs, dataset), len(dataset))
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
    value = _called(request, name, function, taken, dataset.choose(chosen))
    if value.ndim:
        raise StageFailed(
            request.stage,
            f"the metric {name} must return one number of any examples, as it does of all",
            why=f"it returned an array of shape {list(value.shape)} of {len(chosen)} resampled ones",
        )
    return float(value)


def _called(request: Request, name: str, function: Function, outputs: Mapping[str, Values], dataset: Dataset) -> Floats:
    """What a function returns, as an array; what it raises says what it is called with."""
    try:
        returned = function(outputs, _Unlabelled(dataset, request, name) if dataset.labels is None else dataset)
    except (AttributeError, KeyError, TypeError) as error:
        error.add_note(f"{name}(outputs, dataset): outputs has, by name, {', '.join(outputs)}; dataset inputs, labels")
        raise
    try:
        if returned is not None:
            return np.asarray(returned, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise StageFailed(
        request.stage,
        f"the metric {name} must return one number, or one for each example",
        why=f"it returned {'nothing' if returned is None else f'a {type(returned).__name__}'}",
    )


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
