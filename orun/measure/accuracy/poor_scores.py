"""Scores so poor that a comparison with them tells little."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from orun.measure.accuracy.answers import Answers, read_answer_texts, require_array
from orun.measure.accuracy.names import DETECTION, REGRESSION, TRANSCRIPTION
from orun.measure.accuracy.request import Request
from orun.measure.dataset import Dataset
from orun.measure.metrics.boxes import read_detections, read_labels
from orun.measure.metrics.error_rate import pool_edits
from orun.measure.metrics.regression import compare_with_mean
from orun.text.lists import join_few

LEAST_PRECISION = 0.05  # precision of boxes below which their comparison tells little
MOSTLY_WRONG = 0.8  # error rate of texts from which their comparison tells little


def warn_of_poor_scores(request: Request, dataset: Dataset, answers: Answers, role: str) -> Iterator[str]:
    """Yield a sentence for each metric by which a model gets next to nothing right.

    Args:
        request: the measurement.
        dataset: the examples with their labels.
        answers: of the model.
        role: of the model.
    """
    yield from _warn_of_wrong_texts(request, dataset, answers, role)
    yield from _warn_of_wrong_boxes(request, dataset, answers, role)
    yield from _warn_of_wrong_numbers(request, dataset, answers, role)


def _warn_of_wrong_boxes(request: Request, dataset: Dataset, answers: Answers, role: str) -> Iterator[str]:
    """Yield a sentence if a model detects next to nothing right: little can lower its precision."""
    name = next((name for name in DETECTION if name in request.task), "")
    pooled = answers.pools[name](np.arange(len(dataset))) if name else None
    if pooled is None or request.boxes is None or pooled.overall >= LEAST_PRECISION:
        return
    labels_of_images: Any = dataset.labels
    labels = read_labels(labels_of_images)
    detections = read_detections(request.boxes, answers.outputs, labels)
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


def _warn_of_wrong_texts(request: Request, dataset: Dataset, answers: Answers, role: str) -> Iterator[str]:
    """Yield a sentence if a model gets most texts wrong: little can raise its error rate."""
    name = next((name for name in TRANSCRIPTION if name in request.task), "")
    everything = np.arange(len(dataset))
    pooled = answers.pools[name](everything) if name else None
    if pooled is None or pooled.overall < MOSTLY_WRONG:
        return
    texts = read_answer_texts(request, name, answers.judged, dataset.labels)
    lower = pool_edits(name, *texts, lambda text: request.normalize(text).lower())(everything)
    start = f"the {name} of the {role} is {100 * pooled.overall:.0f} %"
    if lower is not None and lower.overall < pooled.overall / 2:
        yield (
            f"{start}, and {100 * lower.overall:.0f} % if case is ignored: to ignore it, add `lowercase` to "
            "`text: {normalize: [...]}`"
        )
    else:
        yield f"{start}, so a comparison tells little: do labels and outputs have the same form?"


def _warn_of_wrong_numbers(request: Request, dataset: Dataset, answers: Answers, role: str) -> Iterator[str]:
    """Yield a sentence if a model predicts worse than the mean of the labels: mostly its outputs have another scale."""
    if not any(name in REGRESSION for name in request.task):
        return
    ours, constant = compare_with_mean(require_array(answers.judged), np.asarray(dataset.labels))
    if ours > constant > 0:
        yield (
            f"the rmse of the {role} is {ours:.4g}, and that of the mean of the labels {constant:.4g}, so a comparison "
            "tells little: do labels and outputs have the same scale? `postprocess: file.py:function` can change the "
            "outputs'"
        )
