"""Answers of a model: its outputs as metrics against labels judge them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from orun.errors import UsageError
from orun.measure.accuracy.custom import CANDIDATES, postprocess, protect_arrays
from orun.measure.accuracy.names import DETECTION, TRANSCRIPTION
from orun.measure.accuracy.request import Request
from orun.measure.accuracy.run import move_classes_last
from orun.measure.dataset import Array, Dataset, Values
from orun.measure.metrics.boxes import read_detections, read_labels
from orun.measure.metrics.calibration import calibration_error
from orun.measure.metrics.detection import THRESHOLDS, match_boxes
from orun.measure.metrics.error_rate import LABEL_TITLE, pool_edits, read_texts
from orun.measure.metrics.pooled import Pooled
from orun.measure.metrics.regression import r2, rmse

REGRESSION: Mapping[str, Callable[[Array, Array], Callable[..., Pooled | None]]] = {"rmse": rmse, "r2": r2}


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


def build_answers(
    request: Request, dataset: Dataset, kept: Mapping[str, Values], candidates: Mapping[str, Values]
) -> Answers:
    """Return the answers of a model.

    Args:
        request: the measurement.
        dataset: the examples with their labels.
        kept: outputs of the model for the examples, by name.
        candidates: its outputs for the candidates, by name.

    Raises:
        UsageError: if a metric cannot read the outputs or the labels.
    """
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
        texts = read_answer_texts(request, rates[0], outputs[judged], labels, f"the output {judged}")
        pools |= {name: pool_edits(name, *texts, request.normalize) for name in rates}
    if "ece" in request.task:
        pools["ece"] = calibration_error(move_classes_last(require_array(outputs[judged]), request.class_axis), labels)
    pools |= {
        name: REGRESSION[name](require_array(outputs[judged]), labels) for name in REGRESSION if name in request.task
    }
    return pools


def read_answer_texts(
    request: Request, metric: str, judged: Values, labels: Any, title: str = "the output"
) -> tuple[list[str], list[str]]:
    """Return the texts of an output and of the labels."""
    values = judged if request.decode is None else request.decode(judged)
    return read_texts(metric, values, title), read_texts(metric, labels, LABEL_TITLE)


def require_array(values: Values) -> Array:
    """Return an output whose values have one shape; raise UsageError for another."""
    if isinstance(values, np.ndarray):
        return values
    shapes = sorted({str(list(value.shape)) for value in values})
    raise UsageError(
        "task metrics need outputs of one shape for all examples",
        why=f"the output that they judge, the first, has {len(shapes)} shapes, such as {shapes[0]} and {shapes[1]}",
        hint="if another output holds the scores, name it first: `outputs: [NAME]`; else write a custom metric: "
        "`metrics: [file.py:function]`",
    )
