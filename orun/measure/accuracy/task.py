"""Task metrics: models scored by the labels of a dataset, and compared on the same examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from orun.core.metrics import Comparison, Estimate, Metric, with_comparisons
from orun.core.serialization import replace
from orun.errors import UsageError
from orun.measure.accuracy.custom import (
    CANDIDATES,
    compute_custom_scores,
    pool_custom_metrics,
    postprocess,
    protect_arrays,
    protect_dataset,
)
from orun.measure.accuracy.names import (
    DETECTION,
    LABEL,
    MODEL,
    RECALL,
    REFERENCE,
    RETRIEVAL,
    TRANSCRIPTION,
)
from orun.measure.accuracy.request import Floats, Report, Request
from orun.measure.accuracy.run import ModelOutputs, move_classes_last
from orun.measure.accuracy.slices import Slice, list_slices
from orun.measure.dataset import Array, Dataset, Values
from orun.measure.metrics import paired
from orun.measure.metrics.bootstrap import resample
from orun.measure.metrics.boxes import read_detections, read_labels
from orun.measure.metrics.calibration import brier, calibration_error, log_loss
from orun.measure.metrics.curves import auc, average_precision
from orun.measure.metrics.detection import THRESHOLDS, match_boxes
from orun.measure.metrics.error_rate import LABEL_TITLE, pool_edits, read_texts
from orun.measure.metrics.pooled import Pooled, f1, iou, pool_f1_of_part, pool_iou_of_part
from orun.measure.metrics.regression import mae, r2, rmse
from orun.measure.metrics.task import accuracy, accuracy_at, ndcg, rank_candidates, recall, reciprocal_rank
from orun.text.lists import join_few

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
POOLED: Mapping[str, Callable[..., Pooled | None]] = {
    "f1": f1,
    "iou": iou,
    "auc": auc,
    "average_precision": average_precision,
}
REGRESSION: Mapping[str, Callable[[Array, Array], Callable[..., Pooled | None]]] = {"rmse": rmse, "r2": r2}
PARTS: Mapping[str, Callable[..., Pooled | None]] = {
    "f1": pool_f1_of_part,
    "iou": pool_iou_of_part,
    "auc": partial(auc, part=True),
    "average_precision": partial(average_precision, part=True),
}
LEAST_PRECISION = 0.05  # precision of boxes below which their comparison tells little
MOSTLY_WRONG = 0.8  # error rate of texts from which their comparison tells little


@dataclass(frozen=True, eq=False)
class Answers:
    """Outputs of one model, and the metrics that take a part of the examples.

    Attributes:
        outputs: by name, with what `postprocess` made of them, and those for the candidates.
        judged: the output that built-in metrics judge: the first, or the first that `postprocess` made.
        candidates: that output for the candidates; None without candidates.
        pools: metrics of boxes, texts, calibration and predicted numbers, each a function of the indices of examples.
    """

    outputs: Mapping[str, Values]
    judged: Values
    candidates: Values | None
    pools: Mapping[str, Callable[..., Pooled | None]]


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
        ours = answers[role] = _build_answers(
            request, dataset, kept, {} if candidates is None else candidates.kept[role]
        )
        built_in = _compute_built_in(request, dataset, ours) if request.task else {}
        scores[role] = {**built_in, **compute_custom_scores(request, dataset, ours.outputs)}
    metrics = {name: _build_metric(request, name, scores) for name in scores[MODEL]}
    for part in list_slices(request, dataset):
        of_part: dict[str, Scores] = {
            role: {
                **{name: values[part.examples] for name, values in _select_per_example(by_name).items()},
                **_pool_scores(request, dataset, by_name, answers[role], part),
            }
            for role, by_name in scores.items()
        }
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
    texts = _warn_of_wrong_texts(request, dataset, answers, role)
    boxes = _warn_of_wrong_boxes(request, dataset, answers, role)
    return Report(metrics, values, warnings=(*texts, *boxes))


def _warn_of_wrong_boxes(
    request: Request, dataset: Dataset, answers: Mapping[str, Answers], role: str
) -> Iterator[str]:
    """Yield a sentence if a model detects next to nothing right: little can lower its precision."""
    name = next((name for name in DETECTION if name in request.task), "")
    pooled = answers[role].pools[name](np.arange(len(dataset))) if name else None
    if pooled is None or request.boxes is None or pooled.overall >= LEAST_PRECISION:
        return
    labels_of_images: Any = dataset.labels
    labels = read_labels(labels_of_images)
    detections = read_detections(request.boxes, answers[role].outputs, labels)
    labelled = sorted({int(number) for image in labels for number in image.classes})
    detected = sorted({int(number) for image in detections for number in image.classes[image.scores > 0]})
    start = f"the {name} of the {role} is {100 * pooled.overall:.2g} %"
    if detected and not {*detected} & {*labelled}:
        expected, returned = (join_few([str(number) for number in numbers]) for numbers in (labelled, detected))
        yield f"{start}: the labels have the classes {expected}, and the model returns {returned}"
    else:
        yield (
            f"{start}, so a comparison tells little: check `format` in `detections`, the order of the classes and the "
            "scale of the boxes"
        )


def _warn_of_wrong_texts(
    request: Request, dataset: Dataset, answers: Mapping[str, Answers], role: str
) -> Iterator[str]:
    """Yield a sentence if a model gets most texts wrong: little can raise its error rate."""
    name = next((name for name in TRANSCRIPTION if name in request.task), "")
    everything = np.arange(len(dataset))
    pooled = answers[role].pools[name](everything) if name else None
    if pooled is None or pooled.overall < MOSTLY_WRONG:
        return
    texts = _read_texts(request, name, answers[role].judged, dataset.labels)
    lower = pool_edits(name, *texts, lambda text: request.normalize(text).lower())(everything)
    start = f"the {name} of the {role} is {100 * pooled.overall:.0f} %"
    if lower is not None and lower.overall < pooled.overall / 2:
        yield (
            f"{start}, and {100 * lower.overall:.0f} % if case is ignored: to ignore it, add `lowercase` to "
            "`text: {normalize: [...]}`"
        )
    else:
        yield f"{start}, so a comparison tells little: do labels and outputs have the same form?"


def _read_texts(
    request: Request, metric: str, judged: Values, labels: Any, title: str = "the output"
) -> tuple[list[str], list[str]]:
    """Return the texts of an output and of the labels."""
    values = judged if request.decode is None else request.decode(judged)
    return read_texts(metric, values, title), read_texts(metric, labels, LABEL_TITLE)


def _build_answers(
    request: Request, dataset: Dataset, kept: Mapping[str, Values], candidates: Mapping[str, Values]
) -> Answers:
    judged, outputs = postprocess(request, dataset, protect_arrays(kept))
    return Answers(
        outputs=protect_arrays({**outputs, **{f"{CANDIDATES}{name}": values for name, values in candidates.items()}}),
        judged=outputs[judged],
        candidates=candidates.get(judged),
        pools=_build_pools(request, dataset, judged, outputs),
    )


def _build_pools(
    request: Request, dataset: Dataset, judged: str, outputs: Mapping[str, Values]
) -> dict[str, Callable[..., Pooled | None]]:
    labels: Any = dataset.labels
    pools: dict[str, Callable[..., Pooled | None]] = {}
    if any(name in DETECTION for name in request.task) and request.boxes:
        boxes = read_labels(labels)
        match = match_boxes(boxes, read_detections(request.boxes, outputs, boxes))
        pools |= {name: partial(match, THRESHOLDS[name]) for name in DETECTION if name in request.task}
    if rates := [name for name in TRANSCRIPTION if name in request.task]:
        texts = _read_texts(request, rates[0], outputs[judged], labels, f"the output {judged}")
        pools |= {name: pool_edits(name, *texts, request.normalize) for name in rates}
    if "ece" in request.task:
        pools["ece"] = calibration_error(move_classes_last(_require_array(outputs[judged]), request.class_axis), labels)
    pools |= {
        name: REGRESSION[name](_require_array(outputs[judged]), labels) for name in REGRESSION if name in request.task
    }
    return pools


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
            move_classes_last(_require_array(answers.judged), request.class_axis),
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
            scores[name] = measure(move_classes_last(_require_array(output), request.class_axis), labels)
    for name, pool in POOLED.items():
        if name in request.task:
            scores[name] = pool(move_classes_last(_require_array(output), request.class_axis), labels)
    if answers.candidates is not None and any(name in RETRIEVAL for name in request.task):
        rank = rank_candidates(_require_array(output), _require_array(answers.candidates), labels)
        scores["mrr"] = reciprocal_rank(rank)
        scores.update({name: recall(rank, k) for name, k in RECALL.items()})
    return {name: values for name in request.task if (values := scores[name]) is not None}


def _require_array(values: Values) -> Array:
    if isinstance(values, np.ndarray):
        return values
    shapes = sorted({str(list(value.shape)) for value in values})
    raise UsageError(
        "task metrics need outputs of one shape for all examples",
        why=f"the output that they judge, the first, has {len(shapes)} shapes, such as {shapes[0]} and {shapes[1]}",
        hint="if another output holds the scores, name it first: `outputs: [NAME]`; else write a custom metric: "
        "`metrics: [file.py:function]`",
    )


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
