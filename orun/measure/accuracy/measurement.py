"""Accuracy of a model: what it answers against a reference's answers, and against the labels of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from orun.errors import StageFailed
from orun.measure.accuracy.fidelity import fidelity_report
from orun.measure.accuracy.names import BASELINE, FIDELITY, MODEL, REFERENCE, RETRIEVAL
from orun.measure.accuracy.request import Report, Request, unlabelled
from orun.measure.accuracy.run import TEXT, Plan, answer, choose_outputs
from orun.measure.accuracy.task import task_report
from orun.measure.dataset import Dataset, count

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

__all__ = ["BASELINE", "MODEL", "REFERENCE", "Report", "Request", "evaluate"]

Progress = Callable[[int, int, str], None]


def evaluate(
    sessions: Mapping[str, InferenceSession], dataset: Dataset, request: Request, progress: Progress
) -> Report:
    """Run every model over the dataset and work out the metrics.

    Args:
        sessions: `model`, and `reference`, `reference.<name>` and `baseline` where there are such.
        dataset: the examples.
        request: what to find out.
        progress: told how many examples are done.

    Raises:
        StageFailed: when a metric cannot be had from these models and this dataset, or a model fails on it.
    """
    _check(request, dataset, sessions)
    types = choose_outputs(request.stage, sessions, request.outputs)
    judged = next(iter(types))
    plan = Plan(
        stage=request.stage,
        outputs=tuple(types),
        compared=tuple(name for name, kind in types.items() if kind != TEXT),
        kept=tuple(types) if request.functions else (judged,) if request.task else (),
        batch=request.batch,
        class_axis=request.class_axis,
    )
    tick = _ticker(dataset, progress)
    given = answer(sessions, dataset.inputs, plan, "example", tick)
    found = None if dataset.candidates is None else answer(sessions, dataset.candidates, plan, "candidate", tick)
    reports = [fidelity_report(request, dataset, types, given, found)]
    if request.task or request.functions:
        reports.append(task_report(request, dataset, judged, given, found))
    return Report(
        {name: metric for report in reports for name, metric in report.metrics.items()},
        {name: values for report in reports for name, values in report.examples.items()},
    )


def _check(request: Request, dataset: Dataset, sessions: Mapping[str, InferenceSession]) -> None:
    for name in request.metrics:
        if name in FIDELITY:
            if REFERENCE not in sessions:
                raise StageFailed(
                    request.stage,
                    f"{name} compares with a reference, and none is connected",
                    hint="connect one: needs: {model: ..., reference: ...}",
                )
        elif dataset.labels is None:
            raise unlabelled(request.stage, name, request.source)
        elif name in RETRIEVAL and dataset.candidates is None:
            raise StageFailed(
                request.stage,
                f"{name} needs candidates, and the dataset has none",
                hint="return orun.Dataset(inputs, labels, candidates) from the dataset's function",
            )


def _ticker(dataset: Dataset, progress: Progress) -> Callable[[int], None]:
    total = len(dataset) + (0 if dataset.candidates is None else count(dataset.candidates))
    done = 0

    def tick(examples: int) -> None:
        nonlocal done
        done += examples
        progress(done, total, "examples")

    return tick
