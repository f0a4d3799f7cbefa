"""Accuracy measurement: a model's outputs against a reference's, and against the labels of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from orun.errors import UsageError
from orun.measure.accuracy.fidelity import build_fidelity_report
from orun.measure.accuracy.names import (
    DETECTION,
    FIDELITY,
    REFERENCE,
    RETRIEVAL,
    TRANSCRIPTION,
)
from orun.measure.accuracy.request import Report, Request, build_missing_labels_error
from orun.measure.accuracy.run import TEXT, Plan, choose_outputs, run_models
from orun.measure.accuracy.task import build_task_report
from orun.measure.dataset import Array, Dataset, count
from orun.measure.metrics.boxes import read_labels
from orun.measure.metrics.error_rate import LABEL_TITLE, read_texts

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Progress = Callable[[int, int, str], None]


def evaluate(
    sessions: Mapping[str, InferenceSession], dataset: Dataset, request: Request, progress: Progress
) -> Report:
    """Run every model over the dataset and compute the metrics.

    Args:
        sessions: `model`, and any of `reference`, `reference.<name>` and `baseline`.
        dataset: the examples.
        request: what to measure.
        progress: called as progress(examples done, of examples, "examples").

    Raises:
        UsageError: if these models and this dataset do not have what a metric needs, or a model fails on the dataset.
    """
    _check(request, dataset, sessions)
    types = choose_outputs(sessions, request.outputs)
    judged = next(iter(types))
    everything = request.functions or request.postprocess or request.boxes
    fidelity = tuple(name for name in request.metrics if name in FIDELITY)
    # Models may detect different numbers of boxes, which only fidelity metrics cannot compare.
    alike = bool(fidelity) or not (request.postprocess or request.boxes)
    plan = Plan(
        origin=request.origin,
        highest=request.highest,
        outputs=tuple(types),
        alike=tuple(types) if alike else (),
        compared=tuple(name for name, kind in types.items() if kind != TEXT) if fidelity else (),
        families=fidelity,
        kept=tuple(types) if everything else (judged,) if request.task else (),
        batch=request.batch,
        class_axis=request.class_axis,
    )
    tick = _build_ticker(dataset, progress)
    examples = run_models(sessions, dataset.inputs, plan, "example", tick)
    candidates = None
    if dataset.candidates is not None:
        candidates = run_models(sessions, dataset.candidates, plan, "candidate", tick)
    reports = [build_fidelity_report(request, dataset, types, examples, candidates)]
    if request.task or request.functions:
        reports.append(build_task_report(request, dataset, examples, candidates))
    return Report(
        {name: metric for report in reports for name, metric in report.metrics.items()},
        {name: values for report in reports for name, values in report.examples.items()},
        reports[0].uncompared,
        reports[-1].warnings,
    )


def _check(request: Request, dataset: Dataset, sessions: Mapping[str, InferenceSession]) -> None:
    for name in request.metrics:
        if name in FIDELITY:
            if REFERENCE not in sessions:
                raise UsageError(
                    f"{name} compares with a reference, and none is connected",
                    hint="connect one: needs: {model: ..., reference: ...}",
                )
        elif dataset.labels is None:
            raise build_missing_labels_error(request, name, dataset)
        elif name in RETRIEVAL and dataset.candidates is None:
            raise UsageError(
                f"{name} needs candidates, and the dataset has none",
                hint="return orun.Dataset(inputs, labels, candidates) from the dataset's function",
            )
        elif name in RETRIEVAL and request.postprocess is not None:
            raise UsageError(f"{name} judges the model's outputs, and `postprocess` replaces them")
        else:
            _check_labels(name, dataset.labels)


def _check_labels(metric: str, labels: Array) -> None:
    """Read the labels of boxes and texts, so that wrong ones are refused before the models run."""
    if metric in DETECTION:
        read_labels(labels)
    elif metric in TRANSCRIPTION:
        read_texts(metric, labels, LABEL_TITLE)


def _build_ticker(dataset: Dataset, progress: Progress) -> Callable[[int], None]:
    total = len(dataset) + (0 if dataset.candidates is None else count(dataset.candidates))
    done = 0

    def tick(examples: int) -> None:
        nonlocal done
        done += examples
        progress(done, total, "examples")

    return tick
