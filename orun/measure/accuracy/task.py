"""The metrics that score a model by the labels of a dataset, compared on the same examples with other models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from orun.core.metrics import Comparison, Estimate, Metric, further
from orun.core.serialization import replace
from orun.errors import StageFailed, UsageError
from orun.measure.accuracy.custom import CANDIDATES, own_parts, own_scores
from orun.measure.accuracy.names import BASELINE, LABEL, MODEL, RECALL, REFERENCE, RETRIEVAL
from orun.measure.accuracy.request import Floats, Report, Request
from orun.measure.accuracy.run import Answers, classes_last
from orun.measure.accuracy.slices import Slice, slices
from orun.measure.dataset import Array, Dataset, Values
from orun.measure.metrics import paired
from orun.measure.metrics import pooled as metrics_pooled
from orun.measure.metrics import task as metrics_task
from orun.measure.metrics.bootstrap import resample
from orun.measure.metrics.pooled import Pooled

Scores = Mapping[str, Floats | Pooled]
"""By metric: one value for each example `[n]`, or what is one number of all of them: `[]`, or `Pooled`."""

BY_LABEL: Mapping[str, Callable[[Array, Array], Floats]] = {
    "accuracy": metrics_task.accuracy,
    "accuracy_at_5": partial(metrics_task.accuracy_at, 5),
}
POOLED: Mapping[str, Callable[..., Pooled | None]] = {
    "f1": metrics_pooled.f1,
    "auc": metrics_pooled.auc,
    "average_precision": metrics_pooled.average_precision,
}
PARTS: Mapping[str, Callable[..., Pooled | None]] = {
    "f1": metrics_pooled.f1_of_part,
    "auc": partial(metrics_pooled.auc, part=True),
    "average_precision": partial(metrics_pooled.average_precision, part=True),
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
    answers: dict[str, Mapping[str, Values]] = {}
    for role, outputs in given.kept.items():
        candidates = {} if found is None else found.kept[role]
        answers[role] = {**outputs, **{f"{CANDIDATES}{name}": values for name, values in candidates.items()}}
        built_in = _built_in(request, dataset, outputs[judged], candidates.get(judged)) if request.task else {}
        scores[role] = {**built_in, **own_scores(request, dataset, answers[role])}
    metrics = {name: _metric(request, name, scores) for name in scores[MODEL]}
    for part in slices(request, dataset):
        chosen = {
            role: _taken(by_name, part) | _pooled_parts(request, dataset, by_name, judged, answers[role], part)
            for role, by_name in scores.items()
        }
        metrics |= {
            part.name(name): replace(_metric(request, name, chosen), examples=part.count)
            for name in scores[MODEL]
            if name in chosen[MODEL]
        }
    examples = {
        f"{name}/{role}": values
        for role, by_name in scores.items()
        for name, values in by_name.items()
        if isinstance(values, np.ndarray) and values.ndim
    }
    return Report(metrics, examples)


def _taken(scores: Scores, part: Slice) -> dict[str, Floats | Pooled]:
    """The scores of some examples, of metrics that have one for each."""
    return {
        name: values[part.examples] for name, values in scores.items() if isinstance(values, np.ndarray) and values.ndim
    }


def _pooled_parts(
    request: Request, dataset: Dataset, scores: Scores, judged: str, answers: Mapping[str, Values], part: Slice
) -> dict[str, Floats | Pooled]:
    """Metrics that are one number of a slice: of a label that of its class against the rest, else of its examples."""
    found: dict[str, Floats | Pooled] = {}
    names = [name for name in POOLED if name in request.task]
    if names:
        output, labels = classes_last(_array(answers[judged]), request.class_axis), np.asarray(dataset.labels)
        for name in names:
            if part.field == LABEL:
                pooled = POOLED[name](output, labels, only=part.value)
            else:
                pooled = PARTS[name](output[part.examples], labels[part.examples])
            if pooled is not None:
                found[name] = pooled
    own = own_parts(request, dataset, answers, part.examples)
    return found | {name: pooled for name, pooled in own.items() if isinstance(scores[name], Pooled)}


def _built_in(request: Request, dataset: Dataset, output: Values, candidates: Values | None) -> Scores:
    labels = np.asarray(dataset.labels)  # that there are any was checked before the models ran
    scores: dict[str, Floats | Pooled] = {}
    try:
        for name, measure in BY_LABEL.items():
            if name in request.task:
                scores[name] = measure(classes_last(_array(output), request.class_axis), labels)
        for name, pool in POOLED.items():
            if name in request.task:
                pooled = pool(classes_last(_array(output), request.class_axis), labels)
                scores.update({} if pooled is None else {name: pooled})
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
        why=f"the output that they judge, the first, has {len(shapes)} shapes, such as {shapes[0]} and {shapes[1]}",
        hint="where another one holds the scores, name it first: `outputs: [NAME]`; else score this one with a "
        "function of your own: `metrics: [file.py:function]`",
    )


def _metric(request: Request, name: str, scores: Mapping[str, Scores]) -> Metric:
    value, interval, compared = _compared(request, {role: by_name[name] for role, by_name in scores.items()})
    return Metric(
        value=value,
        unit=request.unit(name),
        better=request.direction(name),
        noise="none" if interval is None else "sample",
        interval=interval,
        reference=compared.get(REFERENCE),
        baseline=compared.get(BASELINE),
        references={further(role): found for role, found in compared.items() if further(role)},
    )


def _compared(
    request: Request, scores: Mapping[str, Floats | Pooled]
) -> tuple[float, Estimate | None, dict[str, Comparison]]:
    """A metric of the model with its interval, and against every other role's."""
    ours = scores[MODEL]
    if isinstance(ours, Pooled):
        found = resample({role: one for role, one in scores.items() if isinstance(one, Pooled)}, request.seed)
        ours_found = found.pop(MODEL)
        return ours_found.value, ours_found.interval, {role: ours_found.against(one) for role, one in found.items()}
    value = float(ours.mean())
    compared = {role: _compare(request, ours, one) for role, one in scores.items() if role != MODEL}
    return value, paired.interval(ours, request.seed) if ours.ndim else None, compared


def _compare(request: Request, ours: Floats, theirs: Floats | Pooled) -> Comparison:
    if isinstance(theirs, np.ndarray) and ours.ndim and theirs.ndim:
        return paired.compare(ours, theirs, request.seed)
    other = theirs.overall if isinstance(theirs, Pooled) else float(theirs.mean())
    return paired.exact(float(ours.mean()), other)
