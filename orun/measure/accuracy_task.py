"""The metrics that score a model by the labels of a dataset, compared example by example with other models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from orun.codec import replace
from orun.errors import StageFailed, UsageError
from orun.measure import metrics_task, paired
from orun.measure.accuracy_names import BASELINE, MODEL, RECALL, REFERENCE, RETRIEVAL
from orun.measure.accuracy_request import Floats, Report, Request
from orun.measure.accuracy_run import Answers
from orun.measure.dataset import Array, Dataset, Values
from orun.measure.slices import slices
from orun.metrics import Comparison, Metric, further

Scores = Mapping[str, Floats]
"""By metric: one value for each example `[n]`, or one for all of them `[]`."""

BY_LABEL: Mapping[str, Callable[[Array, Array], Floats]] = {
    "accuracy": metrics_task.accuracy,
    "accuracy_at_5": partial(metrics_task.accuracy_at, 5),
    "f1": metrics_task.f1,
    "auc": metrics_task.auc,
    "average_precision": metrics_task.average_precision,
}


def task_report(request: Request, dataset: Dataset, judged: str, given: Answers, found: Answers | None) -> Report:
    """The task metrics and the user's own, each against the reference's and the baseline's.

    Args:
        request: what was asked.
        dataset: the examples with their labels.
        judged: the output that the built-in metrics judge.
        given: what the models answered to the examples.
        found: and to the candidates.
    """
    scores: dict[str, Scores] = {}
    for role, outputs in given.kept.items():
        candidates = {} if found is None else found.kept[role]
        both = {**outputs, **{f"candidates.{name}": values for name, values in candidates.items()}}
        built_in = _built_in(request, dataset, outputs[judged], candidates.get(judged)) if request.task else {}
        scores[role] = {**built_in, **_own(request, dataset, both)}
    metrics = {name: _metric(request, name, scores) for name in scores[MODEL]}
    for part in slices(request, dataset):
        chosen = {role: _taken(by_name, part.examples) for role, by_name in scores.items()}
        metrics |= {
            part.name(name): replace(_metric(request, name, chosen), examples=part.count) for name in chosen[MODEL]
        }
    examples = {
        f"{name}/{role}": values for role, by_name in scores.items() for name, values in by_name.items() if values.ndim
    }
    return Report(metrics, examples)


def _taken(scores: Scores, examples: NDArray[np.intp]) -> Scores:
    """The scores of some examples; a metric that is one number for all has none."""
    return {name: values[examples] for name, values in scores.items() if values.ndim}


def _built_in(request: Request, dataset: Dataset, output: Values, candidates: Values | None) -> Scores:
    labels = np.asarray(dataset.labels)  # that there are any was checked before the models ran
    scores: dict[str, Floats] = {}
    try:
        for name, measure in BY_LABEL.items():
            if name in request.task:
                scores[name] = measure(_array(output), labels)
        if candidates is not None and any(name in RETRIEVAL for name in request.task):
            rank = metrics_task.ranks(_array(output), _array(candidates), labels)
            scores["mrr"] = metrics_task.reciprocal_rank(rank)
            scores.update({name: metrics_task.recall(rank, k) for name, k in RECALL.items()})
    except UsageError as error:
        raise StageFailed(request.stage, error.what, why=error.why, hint=error.hint) from error
    return {name: scores[name] for name in request.task}


def _array(values: Values) -> Array:
    if isinstance(values, np.ndarray):
        return values
    shapes = sorted({str(list(value.shape)) for value in values})
    raise UsageError(
        "task metrics need outputs of one shape for all examples",
        why=f"the model's outputs have {len(shapes)} shapes, such as {shapes[0]} and {shapes[1]}",
        hint="score them with a function of your own: metrics: [file.py:function]",
    )


def _own(request: Request, dataset: Dataset, outputs: Mapping[str, Values]) -> Scores:
    scores: dict[str, Floats] = {}
    for name, function in request.functions.items():
        values = np.asarray(function(outputs, dataset), dtype=np.float64)
        if values.shape not in ((), (len(dataset),)):
            raise StageFailed(
                request.stage,
                f"the metric {name} must return one number, or one for each of the {len(dataset)} examples",
                why=f"it returned an array of shape {list(values.shape)}",
            )
        if not np.isfinite(values).all():
            raise StageFailed(request.stage, f"the metric {name} returned a number that is not finite")
        scores[name] = values
    return scores


def _metric(request: Request, name: str, scores: Mapping[str, Scores]) -> Metric:
    ours = scores[MODEL][name]
    return Metric(
        value=float(ours.mean()),
        unit=request.unit(name),
        better=request.direction(name),
        noise="sample" if ours.ndim else "none",
        interval=paired.interval(ours, request.seed) if ours.ndim else None,
        reference=_comparison(request, name, scores, REFERENCE),
        baseline=_comparison(request, name, scores, BASELINE),
        references={further(role): found for role in scores if (found := _further(request, name, scores, role))},
    )


def _further(request: Request, name: str, scores: Mapping[str, Scores], role: str) -> Comparison | None:
    return _comparison(request, name, scores, role) if further(role) else None


def _comparison(request: Request, name: str, scores: Mapping[str, Scores], role: str) -> Comparison | None:
    if role not in scores:
        return None
    ours, theirs = scores[MODEL][name], scores[role][name]
    if ours.ndim and theirs.ndim:
        return paired.compare(ours, theirs, request.seed)
    return paired.exact(float(ours.mean()), float(theirs.mean()))
