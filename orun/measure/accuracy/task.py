"""Task metrics: models scored by the labels of a dataset, and compared on the same examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from orun.core.metrics import Comparison, Estimate, Metric, further
from orun.core.serialization import replace
from orun.errors import StageFailed, UsageError
from orun.measure.accuracy.custom import CANDIDATES, custom_scores, pooled_custom_metrics
from orun.measure.accuracy.names import BASELINE, LABEL, MODEL, RECALL, REFERENCE, RETRIEVAL
from orun.measure.accuracy.request import Floats, Report, Request
from orun.measure.accuracy.run import ModelOutputs, classes_last
from orun.measure.accuracy.slices import Slice, slices
from orun.measure.dataset import Array, Dataset, Values
from orun.measure.metrics import paired
from orun.measure.metrics.bootstrap import resample
from orun.measure.metrics.curves import auc, average_precision
from orun.measure.metrics.pooled import Pooled, f1, f1_of_part, iou, iou_of_part
from orun.measure.metrics.task import accuracy, accuracy_at, ndcg, ranks, recall, reciprocal_rank

Scores = Mapping[str, Floats | Pooled]
"""By metric: one value for each example `[n]`; or one number of all examples, `[]` or `Pooled`."""

BY_LABEL: Mapping[str, Callable[[Array, Array], Floats]] = {
    "accuracy": accuracy,
    "accuracy_at_5": partial(accuracy_at, 5),
    "ndcg": partial(ndcg, None),
    "ndcg_at_10": partial(ndcg, 10),
}
POOLED: Mapping[str, Callable[..., Pooled | None]] = {
    "f1": f1,
    "iou": iou,
    "auc": auc,
    "average_precision": average_precision,
}
PARTS: Mapping[str, Callable[..., Pooled | None]] = {
    "f1": f1_of_part,
    "iou": iou_of_part,
    "auc": partial(auc, part=True),
    "average_precision": partial(average_precision, part=True),
}


def task_report(
    request: Request, dataset: Dataset, judged: str, examples: ModelOutputs, candidates: ModelOutputs | None
) -> Report:
    """Return the task metrics and the custom ones, each against the reference's and the baseline's.

    Args:
        request: the measurement.
        dataset: the examples with their labels.
        judged: the output that the built-in metrics judge.
        examples: outputs for the examples.
        candidates: outputs for the candidates.
    """
    scores: dict[str, Scores] = {}
    outputs: dict[str, Mapping[str, Values]] = {}
    for role, kept in examples.kept.items():
        of_candidates = {} if candidates is None else candidates.kept[role]
        outputs[role] = {**kept, **{f"{CANDIDATES}{name}": values for name, values in of_candidates.items()}}
        built_in = _built_in(request, dataset, kept[judged], of_candidates.get(judged)) if request.task else {}
        scores[role] = {**built_in, **custom_scores(request, dataset, outputs[role])}
    metrics = {name: _metric(request, name, scores) for name in scores[MODEL]}
    for part in slices(request, dataset):
        of_part: dict[str, Scores] = {
            role: {
                **{name: values[part.examples] for name, values in _per_example(by_name).items()},
                **_pooled_scores(request, dataset, by_name, judged, outputs[role], part),
            }
            for role, by_name in scores.items()
        }
        metrics |= {
            part.name(name): replace(_metric(request, name, of_part), examples=part.count)
            for name in scores[MODEL]
            if name in of_part[MODEL]
        }
    values = {
        f"{name}/{role}": values for role, by_name in scores.items() for name, values in _per_example(by_name).items()
    }
    return Report(metrics, values)


def _per_example(scores: Scores) -> dict[str, Floats]:
    """Return the scores of metrics that have one value for each example."""
    return {name: values for name, values in scores.items() if isinstance(values, np.ndarray) and values.ndim}


def _pooled_scores(
    request: Request, dataset: Dataset, scores: Scores, judged: str, outputs: Mapping[str, Values], part: Slice
) -> dict[str, Floats | Pooled]:
    """Return the metrics that are one number of a slice. For a slice by label: its class against the rest."""
    by_slice: dict[str, Floats | Pooled] = {}
    names = [name for name in POOLED if name in request.task]
    if names:
        output, labels = classes_last(_array(outputs[judged]), request.class_axis), np.asarray(dataset.labels)
        for name in names:
            if part.field == LABEL:
                pooled = POOLED[name](output, labels, only=part.value)
            else:
                pooled = PARTS[name](output[part.examples], labels[part.examples])
            if pooled is not None:
                by_slice[name] = pooled
    custom = pooled_custom_metrics(request, dataset, outputs, part.examples)
    return by_slice | {name: pooled for name, pooled in custom.items() if isinstance(scores[name], Pooled)}


def _built_in(request: Request, dataset: Dataset, output: Values, candidates: Values | None) -> Scores:
    labels = np.asarray(dataset.labels)  # checked before the models ran
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
            rank = ranks(_array(output), _array(candidates), labels)
            scores["mrr"] = reciprocal_rank(rank)
            scores.update({name: recall(rank, k) for name, k in RECALL.items()})
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
        hint="if another output holds the scores, name it first: `outputs: [NAME]`; else write a custom metric: "
        "`metrics: [file.py:function]`",
    )


def _metric(request: Request, name: str, scores: Mapping[str, Scores]) -> Metric:
    value, interval, comparisons = _compare_roles(request, {role: by_name[name] for role, by_name in scores.items()})
    return Metric(
        value=value,
        unit=request.unit(name),
        better=request.direction(name),
        noise="none" if interval is None else "sample",
        interval=interval,
        reference=comparisons.get(REFERENCE),
        baseline=comparisons.get(BASELINE),
        references={further(role): comparison for role, comparison in comparisons.items() if further(role)},
    )


def _compare_roles(
    request: Request, scores: Mapping[str, Floats | Pooled]
) -> tuple[float, Estimate | None, dict[str, Comparison]]:
    """Return a metric of the model, its interval, and its comparison with every other role."""
    ours = scores[MODEL]
    if isinstance(ours, Pooled):
        pooled = {role: values for role, values in scores.items() if isinstance(values, Pooled)}
        resampled = resample(pooled, request.seed)
        model = resampled.pop(MODEL)
        return model.value, model.interval, {role: model.against(other) for role, other in resampled.items()}
    value = float(ours.mean())
    comparisons = {role: _compare(request, ours, theirs) for role, theirs in scores.items() if role != MODEL}
    return value, paired.interval(ours, request.seed) if ours.ndim else None, comparisons


def _compare(request: Request, ours: Floats, theirs: Floats | Pooled) -> Comparison:
    if isinstance(theirs, np.ndarray) and ours.ndim and theirs.ndim:
        return paired.compare(ours, theirs, request.seed)
    other = theirs.overall if isinstance(theirs, Pooled) else float(theirs.mean())
    return paired.exact(float(ours.mean()), other)
