"""Custom metrics: the user's functions of a model's outputs and the dataset."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from orun.errors import UsageError
from orun.measure.accuracy.request import Floats, Function, Request, build_missing_labels_error
from orun.measure.dataset import Array, Dataset, Values, choose
from orun.measure.metrics.pooled import Pooled, Rows, pool_function

CANDIDATES = "candidates."  # prefix of the names of their outputs, which belong to no example


class _Unlabelled(Dataset):
    """Dataset without labels that raises an error if a custom metric reads them.

    Compared with None, all outputs would count as wrong without an error.
    """

    def __init__(self, dataset: Dataset, request: Request, metric: str) -> None:
        vars(self).update(vars(dataset), _dataset=dataset, _request=request, _metric=metric)

    def __getattribute__(self, name: str) -> Any:
        if name == "labels":
            request = self._request
            raise build_missing_labels_error(request, f"the metric {self._metric}", self._dataset)
        return super().__getattribute__(name)

    def __repr__(self) -> str:
        return repr(self._dataset)

    def choose(self, examples: Rows) -> Dataset:
        return _Unlabelled(self._dataset.choose(examples), self._request, self._metric)


def compute_custom_scores(
    request: Request, dataset: Dataset, outputs: Mapping[str, Values]
) -> dict[str, Floats | Pooled]:
    """Return the values of each custom metric by name.

    Args:
        request: the measurement.
        dataset: the examples.
        outputs: of one model, by name.

    Returns:
        One value for each example `[n]`; for one number of all examples `[]`, or `Pooled` if it is resampled.

    Raises:
        UsageError: if a function returns another number of values, an infinite value, or NaN for all examples.
    """
    pooled = pool_custom_metrics(request, dataset, outputs, np.arange(len(dataset)))
    scores: dict[str, Floats | Pooled] = {}
    for name, function in request.functions.items():
        values = _call(request, name, function, outputs, dataset)
        _check(name, values, len(dataset))
        scores[name] = values if values.ndim else pooled.get(name, values)
    return scores


def pool_custom_metrics(
    request: Request, dataset: Dataset, outputs: Mapping[str, Values], examples: Rows
) -> dict[str, Pooled]:
    """Return the functions as metrics of `examples`, to be resampled; none unless the request has `resamples`."""
    if request.resamples is None:
        return {}
    return {
        name: pool_function(
            partial(_call_score, request, name, function, dataset, outputs), examples, request.resamples
        )
        for name, function in request.functions.items()
    }


def _call_score(
    request: Request, name: str, function: Function, dataset: Dataset, outputs: Mapping[str, Values], examples: Rows
) -> float:
    """Call a function on some examples, of which an index may occur several times."""
    chosen = {
        key: values if key.startswith(CANDIDATES) else choose(values, examples) for key, values in outputs.items()
    }
    value = _call(request, name, function, chosen, dataset.choose(examples))
    if value.ndim:
        raise UsageError(
            f"the metric {name} returns one number of all examples, and must do so of any examples",
            why=f"it returned an array of shape {list(value.shape)} of {len(examples)} resampled examples",
        )
    return float(value)


def _call(request: Request, name: str, function: Function, outputs: Mapping[str, Values], dataset: Dataset) -> Floats:
    """Return the result of a function as an array. A note on its arguments is added to the errors that it raises."""
    returned = _call_function(request, name, function, outputs, dataset)
    kind = "nothing" if returned is None else f"a {type(returned).__name__}"
    try:
        values = np.asarray(returned)
        if _has_text(values):
            kind = "text"
        elif returned is not None:
            return values.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        pass
    raise UsageError(f"the metric {name} must return one number, or one for each example", why=f"it returned {kind}")


def _has_text(array: Array) -> bool:
    """Return whether an array has texts, which NumPy would read as numbers."""
    return array.dtype.kind in "SU" or (array.dtype.kind == "O" and any(isinstance(item, str) for item in array.flat))


def postprocess(request: Request, dataset: Dataset, outputs: Mapping[str, Values]) -> tuple[str, dict[str, Values]]:
    """Return the output that metrics judge, and all outputs with what the request's function makes of them.

    Args:
        request: the measurement.
        dataset: the examples.
        outputs: of one model, by name.

    Raises:
        UsageError: if the function returns no values for an example, or a value that is not finite.
    """
    function = request.postprocess
    if function is None:
        return next(iter(outputs)), dict(outputs)
    returned = _call_function(request, function.__name__, function, outputs, dataset)
    if not isinstance(returned, Mapping):
        returned = {function.__name__: returned}
    processed = {str(name): _check_values(str(name), values, len(dataset)) for name, values in returned.items()}
    if not processed:
        raise UsageError(f"postprocess: {function.__name__} returned no outputs")
    return next(iter(processed)), {**outputs, **processed}


def _check_values(name: str, returned: Any, examples: int) -> Values:
    rows: Values | None = None
    if isinstance(returned, np.ndarray):
        rows = returned if returned.ndim else None
    elif isinstance(returned, Iterable) and not isinstance(returned, str | bytes | Mapping):
        rows = [np.asarray(row) for row in returned]
    if rows is None or len(rows) != examples:
        raise UsageError(
            f"postprocess must return a value for each of the {examples} examples, as {name}",
            why=f"it returned {'one ' + type(returned).__name__ if rows is None else f'{len(rows)} values'}",
            hint="return an array `[n, ...]` or a list of n arrays or texts; several of them as a dict by name",
        )
    for example, row in enumerate(rows):
        if np.asarray(row).dtype.kind == "f" and not np.isfinite(row).all():
            raise UsageError(f"postprocess returned numbers that are not finite for example {example}, as {name}")
    if isinstance(rows, np.ndarray) or len({row.shape for row in rows}) > 1:
        return rows
    return np.stack(list(rows))


def _call_function(
    request: Request, name: str, function: Function, outputs: Mapping[str, Values], dataset: Dataset
) -> Any:
    """Call a function. A note on its arguments is added to the errors that it raises."""
    try:
        return function(outputs, _Unlabelled(dataset, request, name) if dataset.labels is None else dataset)
    except (AttributeError, KeyError, TypeError) as error:
        error.add_note(f"{name}(outputs, dataset): outputs has, by name, {', '.join(outputs)}; dataset inputs, labels")
        raise
    except ValueError as error:
        if "read-only" in str(error):  # NumPy's error of an array that cannot be written to
            error.add_note(f"other metrics read what {name} is given: let it change a copy, `values.copy()`")
        raise


def protect_arrays(arrays: Mapping[str, Values]) -> dict[str, Values]:
    """Return arrays by name that functions cannot change: other metrics and models are judged by them, too."""
    return {name: _protect(values) for name, values in arrays.items()}


def _protect(values: Values) -> Values:
    """Return views of arrays that cannot be written to."""
    if not isinstance(values, np.ndarray):
        return [np.asarray(_protect(value)) for value in values]
    view = values.view()
    view.flags.writeable = False
    return view


def protect_dataset(dataset: Dataset) -> Dataset:
    """Return a dataset whose arrays cannot be written to."""
    candidates = dataset.candidates
    return replace(
        dataset,
        inputs=protect_arrays(dataset.inputs),
        labels=None if dataset.labels is None else np.asarray(_protect(dataset.labels)),
        candidates=candidates and protect_arrays(candidates),
        fields={name: np.asarray(_protect(values)) for name, values in dataset.fields.items()},
    )


def _check(name: str, values: Floats, examples: int) -> None:
    if values.shape not in ((), (examples,)):
        raise UsageError(
            f"the metric {name} must return one number, or one for each of the {examples} examples",
            why=f"it returned an array of shape {list(values.shape)}",
        )
    if np.isnan(values).all():
        everywhere = " for every example" if values.ndim else ""
        raise UsageError(
            f"the metric {name} returned nan{everywhere}",
            why="NaN says that it is not defined, and then nothing is left to measure",
            hint="return a number for some of the examples, or take the metric out of `metrics`",
        )
    bad = np.flatnonzero(np.isinf(values))
    if bad.size:
        example = f" for example {bad[0]}" if values.ndim else ""
        raise UsageError(
            f"the metric {name} returned {values.flat[bad[0]]}{example}",
            hint="return NaN where it is not defined, as a division by 0: such examples are left out",
        )


def find_undefined(scores: Mapping[str, Mapping[str, Floats | Pooled]]) -> dict[str, Array]:
    """Return which examples each metric is not defined for, NaN for one of the models; only metrics with such examples.

    Args:
        scores: by model and metric.

    Raises:
        UsageError: if a metric is not defined for any example for which it is defined for another model.
    """
    undefined: dict[str, Array] = {}
    for by_name in scores.values():
        for name, values in by_name.items():
            if isinstance(values, np.ndarray) and values.ndim and np.isnan(values).any():
                undefined[name] = undefined.get(name, np.False_) | np.isnan(values)
    for name, examples in undefined.items():
        if examples.all():
            raise UsageError(
                f"the metric {name} is defined for no example of all models",
                why="it is nan for each example with the outputs of one of them",
                hint="return numbers for the same examples of every model",
            )
    return undefined


def drop_undefined(name: str, scores: Mapping[str, dict[str, Floats | Pooled]]) -> bool:
    """Drop one number of a slice, in place, that is not defined for one of the models; return whether it was dropped.

    Args:
        name: the metric.
        scores: of the slice, by model and metric.
    """
    pooled = [by_name[name] for by_name in scores.values() if name in by_name]
    numbers = [values.overall for values in pooled if isinstance(values, Pooled)]
    if not any(map(math.isnan, numbers)):
        return False
    for by_name in scores.values():
        del by_name[name]
    return True
