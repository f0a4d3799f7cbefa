"""Task metrics: models scored by the labels of a dataset, and compared on the same examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from orun.core.metrics import Comparison, Estimate, Metric, with_comparisons
from orun.core.serialization import replace
from orun.measure.accuracy.answers import Answers, build_answers, require_array
from orun.measure.accuracy.custom import (
    compute_custom_scores,
    drop_undefined,
    find_undefined,
    pool_custom_metrics,
    protect_dataset,
)
from orun.measure.accuracy.names import (
    DETECTION,
    LABEL,
    MODEL,
    RECALL,
    REFERENCE,
    RETRIEVAL,
)
from orun.measure.accuracy.poor_scores import warn_of_poor_scores
from orun.measure.accuracy.request import Floats, Report, Request
from orun.measure.accuracy.run import ModelOutputs, move_classes_last
from orun.measure.accuracy.slices import Slice, list_slices
from orun.measure.dataset import Array, Dataset
from orun.measure.metrics import paired
from orun.measure.metrics.bootstrap import resample
from orun.measure.metrics.calibration import brier, log_loss
from orun.measure.metrics.curves import auc, average_precision
from orun.measure.metrics.pooled import Pooled, Rows, f1, iou, pool_part, precision, recall
from orun.measure.metrics.regression import mae
from orun.measure.metrics.task import accuracy, accuracy_at, ndcg, rank_candidates, recall_at, reciprocal_rank
from orun.text.lists import join_few

MOST_NAMED = 5  # slices that a note names

Scores = Mapping[str, Floats | Pooled]
"""By metric: one value for each example `[n]`; or one number of all examples, `[]` or `Pooled`."""

BY_LABEL: Mapping[str, Callable[[Array, Array], Floats]] = {
    "accuracy": accuracy,
    "accuracy_at_5": partial(accuracy_at, 5),
    "brier": brier,
    "log_loss": log_loss,
    "mae": mae,
    "ndcg": partial(ndcg, None),
    "ndcg_at_10": partial(ndcg, 10),
}
OF_CLASSES: Mapping[str, Callable[..., Pooled]] = {"precision": precision, "recall": recall, "f1": f1, "iou": iou}
POOLED: Mapping[str, Callable[..., Pooled | None]] = {
    **OF_CLASSES,
    "auc": auc,
    "average_precision": average_precision,
}
PARTS: Mapping[str, Callable[..., Pooled | None]] = {
    **{name: partial(pool_part, metric) for name, metric in OF_CLASSES.items()},
    "auc": partial(auc, part=True),
    "average_precision": partial(average_precision, part=True),
}


def build_task_report(
    request: Request, dataset: Dataset, examples: ModelOutputs, candidates: ModelOutputs | None
) -> Report:
    """Return the task metrics and the custom ones, each against the reference's and the baseline's.

    Args:
        request: the measurement.
        dataset: the examples with their labels.
        examples: outputs for the examples.
        candidates: outputs for the candidates.
    """
    dataset = protect_dataset(dataset)
    scores: dict[str, Scores] = {}
    answers: dict[str, Answers] = {}
    for role, kept in examples.kept.items():
        ours = answers[role] = build_answers(
            request, dataset, kept, {} if candidates is None else candidates.kept[role]
        )
        built_in = _compute_built_in(request, dataset, ours) if request.task else {}
        scores[role] = {**built_in, **compute_custom_scores(request, dataset, ours.outputs)}
    undefined = find_undefined(scores)
    everything = np.arange(len(dataset))
    overall = {role: {**by_name, **_choose(by_name, undefined, everything)} for role, by_name in scores.items()}
    metrics = {name: _build_metric(request, name, overall) for name in scores[MODEL]}
    left_out: dict[str, list[str]] = {}
    for part in list_slices(request, dataset):
        of_part = {
            role: {
                **_choose(by_name, undefined, part.examples),
                **_pool_scores(request, dataset, by_name, answers[role], part),
            }
            for role, by_name in scores.items()
        }
        for name in request.functions:
            if drop_undefined(name, of_part) or (name in undefined and name not in of_part[MODEL]):
                left_out.setdefault(name, []).append(part.name_metric(name))
        metrics |= {
            part.name_metric(name): replace(_build_metric(request, name, of_part), examples=part.count)
            for name in scores[MODEL]
            if name in of_part[MODEL]
        }
    values = {
        f"{name}/{role}": values
        for role, by_name in scores.items()
        for name, values in _select_per_example(by_name).items()
    }
    role = REFERENCE if REFERENCE in answers else MODEL
    warnings = [*warn_of_poor_scores(request, dataset, answers[role], role), *_note_undefined(undefined, left_out)]
    return Report(metrics, values, warnings=tuple(warnings))


def _note_undefined(undefined: Mapping[str, Array], slices: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a note on the examples, and one on the slices, that each metric leaves out."""
    for name, examples in undefined.items():
        number = int(np.count_nonzero(examples))
        yield f"{name} leaves out {number} of {len(examples)} examples, for which it returned nan"
    for name, left_out in slices.items():
        yield f"not measured, because {name} is not defined there: {join_few(left_out, MOST_NAMED)}"


def _choose(scores: Scores, undefined: Mapping[str, Array], rows: Rows) -> dict[str, Floats]:
    """Return the scores of the rows for which each metric is defined; metrics without such a row are left out."""
    chosen = {
        name: values[rows[~undefined[name][rows]] if name in undefined else rows]
        for name, values in _select_per_example(scores).items()
    }
    return {name: values for name, values in chosen.items() if values.size}


def _select_per_example(scores: Scores) -> dict[str, Floats]:
    """Return the scores of metrics that have one value for each example."""
    return {name: values for name, values in scores.items() if isinstance(values, np.ndarray) and values.ndim}


def _pool_scores(
    request: Request, dataset: Dataset, scores: Scores, answers: Answers, part: Slice
) -> dict[str, Floats | Pooled]:
    """Return the metrics that are one number of a slice. For a slice by label: its class against the rest."""
    by_slice: dict[str, Pooled | None] = {}
    names = [name for name in POOLED if name in request.task]
    if names:
        output, labels = (
            move_classes_last(require_array(answers.judged), request.class_axis),
            np.asarray(dataset.labels),
        )
        for name in names:
            if part.field == LABEL:
                by_slice[name] = POOLED[name](output, labels, only=part.value)
            else:
                by_slice[name] = PARTS[name](output[part.examples], labels[part.examples])
    for name, pool in answers.pools.items():
        if name in DETECTION and part.field == LABEL:
            by_slice[name] = pool(np.arange(len(dataset)), only=part.value)
        else:
            by_slice[name] = pool(part.examples)
    custom = pool_custom_metrics(request, dataset, answers.outputs, part.examples)
    by_slice |= {name: pooled for name, pooled in custom.items() if isinstance(scores[name], Pooled)}
    return {name: pooled for name, pooled in by_slice.items() if pooled is not None}


def _compute_built_in(request: Request, dataset: Dataset, answers: Answers) -> Scores:
    output, labels = answers.judged, np.asarray(dataset.labels)  # checked before the models ran
    pooled = {name: pool(np.arange(len(dataset))) for name, pool in answers.pools.items()}
    scores: dict[str, Floats | Pooled | None] = {**pooled}
    for name, measure in BY_LABEL.items():
        if name in request.task:
            scores[name] = measure(move_classes_last(require_array(output), request.class_axis), labels)
    for name, pool in POOLED.items():
        if name in request.task:
            scores[name] = pool(move_classes_last(require_array(output), request.class_axis), labels)
    if answers.candidates is not None and any(name in RETRIEVAL for name in request.task):
        rank = rank_candidates(require_array(output), require_array(answers.candidates), labels)
        scores["mrr"] = reciprocal_rank(rank)
        scores.update({name: recall_at(rank, k) for name, k in RECALL.items()})
    return {name: values for name in request.task if (values := scores[name]) is not None}


def _build_metric(request: Request, name: str, scores: Mapping[str, Scores]) -> Metric:
    value, interval, comparisons = _compare_roles(request, {role: by_name[name] for role, by_name in scores.items()})
    metric = Metric(
        value=value,
        unit=request.choose_unit(name),
        better=request.choose_direction(name),
        noise="none" if interval is None else "sample",
        interval=interval,
    )
    return with_comparisons(metric, comparisons)


def _compare_roles(
    request: Request, scores: Mapping[str, Floats | Pooled]
) -> tuple[float, Estimate | None, dict[str, Comparison]]:
    """Return a metric of the model, its interval, and its comparison with every other role."""
    ours = scores[MODEL]
    if isinstance(ours, Pooled):
        pooled = {role: values for role, values in scores.items() if isinstance(values, Pooled)}
        resampled = resample(pooled, request.seed)
        model = resampled.pop(MODEL)
        return model.value, model.interval, {role: model.compare_with(other) for role, other in resampled.items()}
    value = float(ours.mean())
    comparisons = {role: _compare(request, ours, theirs) for role, theirs in scores.items() if role != MODEL}
    return value, paired.estimate_interval(ours, request.seed) if ours.ndim else None, comparisons


def _compare(request: Request, ours: Floats, theirs: Floats | Pooled) -> Comparison:
    if isinstance(theirs, np.ndarray) and ours.ndim and theirs.ndim:
        return paired.compare(ours, theirs, request.seed)
    other = theirs.overall if isinstance(theirs, Pooled) else float(theirs.mean())
    return paired.compare_exact(float(ours.mean()), other)
