"""The metrics that compare a model's outputs with the reference's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from orun.core.metrics import Metric
from orun.core.serialization import replace
from orun.errors import StageFailed
from orun.measure.accuracy.names import BASELINE, FIDELITY, MODEL, named
from orun.measure.accuracy.request import Floats, Report, Request
from orun.measure.accuracy.run import CLASSES, FLOATS, Answers
from orun.measure.accuracy.slices import slices
from orun.measure.dataset import Dataset
from orun.measure.metrics import paired
from orun.measure.metrics.fidelity import PER_EXAMPLE, SUMMARIES, Difference, concatenate

Differences = Mapping[str, Mapping[str, Difference]]


def fidelity_report(
    request: Request, dataset: Dataset, types: Mapping[str, str], given: Answers, found: Answers | None
) -> Report:
    """Each metric for the worst output and, where several outputs were named, for each of them.

    Args:
        request: what was asked.
        dataset: the examples; metrics of its slices leave the candidates out.
        types: the outputs with their types.
        given: what the models answered to the examples.
        found: and to the candidates.
    """
    differences, parts = _joined(given, found), slices(request, dataset)
    metrics: dict[str, Metric] = {}
    examples: dict[str, Floats] = {}
    for asked in (name for name in request.metrics if name in FIDELITY):
        outputs = _comparable(request.stage, asked, types)
        for role, by_output in differences.items():
            examples.update({f"{named(asked, name)}/{role}": PER_EXAMPLE[asked](by_output[name]) for name in outputs})
        for metric in FIDELITY[asked]:
            metrics[metric] = _metric(request, metric, asked, outputs, differences)
            if len(request.outputs) > 1:
                metrics.update({named(metric, n): _metric(request, metric, asked, (n,), differences) for n in outputs})
            for part in parts:
                taken = _taken(given.differences, part.examples)
                found_there = _metric(request, metric, asked, outputs, taken)
                metrics[part.name(metric)] = replace(found_there, examples=part.count)
    return Report(metrics, examples)


def _taken(differences: Differences, examples: NDArray[np.intp]) -> Differences:
    return {
        role: {name: difference.take(examples) for name, difference in by_output.items()}
        for role, by_output in differences.items()
    }


def _joined(given: Answers, found: Answers | None) -> Differences:
    if found is None:
        return given.differences
    return {
        role: {name: concatenate((difference, found.differences[role][name])) for name, difference in by_output.items()}
        for role, by_output in given.differences.items()
    }


def _comparable(stage: str, asked: str, types: Mapping[str, str]) -> tuple[str, ...]:
    """The outputs for which a metric means something: classes agree or not, but have no angle."""
    allowed = (*FLOATS, *CLASSES) if asked.startswith("agreement") else FLOATS
    names = tuple(name for name, kind in types.items() if kind in allowed)
    if not names:
        listed = ", ".join(f"{name} is {kind}" for name, kind in types.items())
        raise StageFailed(stage, f"no output can be compared by {asked}", why=listed)
    return names


def _metric(request: Request, metric: str, asked: str, outputs: tuple[str, ...], differences: Differences) -> Metric:
    better = request.direction(asked)
    worst = max if better == "lower" else min
    values = {
        role: worst(SUMMARIES[metric](by_output[name]) for name in outputs) for role, by_output in differences.items()
    }
    return Metric(
        value=values[MODEL],
        unit=request.unit(asked),
        better=better,
        baseline=paired.exact(values[MODEL], values[BASELINE]) if BASELINE in values else None,
    )
