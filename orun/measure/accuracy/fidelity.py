"""Fidelity metrics: a model's outputs compared with the reference's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from orun.core.metrics import Metric
from orun.core.serialization import replace
from orun.errors import UsageError
from orun.measure.accuracy.names import BASELINE, FIDELITY, MODEL, name_metric
from orun.measure.accuracy.request import Floats, Report, Request
from orun.measure.accuracy.run import CLASSES, FLOATS, TEXT, ModelOutputs
from orun.measure.accuracy.slices import list_slices
from orun.measure.dataset import Dataset
from orun.measure.metrics import paired
from orun.measure.metrics.fidelity import SUMMARIES, Difference, concatenate

Differences = Mapping[str, Mapping[str, Difference]]


def build_fidelity_report(
    request: Request,
    dataset: Dataset,
    types: Mapping[str, str],
    examples: ModelOutputs,
    candidates: ModelOutputs | None,
) -> Report:
    """Return each metric of the worst output and, if several outputs were named, of each of them.

    Args:
        request: the measurement.
        dataset: the examples; metrics of its slices leave the candidates out.
        types: the outputs with their types.
        examples: outputs for the examples.
        candidates: outputs for the candidates.
    """
    differences, parts = _join(examples.differences, candidates), list_slices(request, dataset)
    metrics: dict[str, Metric] = {}
    values: dict[str, Floats] = {}
    compared = _list_judged(request, types)
    families = [name for name in request.metrics if name in FIDELITY]
    for family in families:
        outputs = _list_comparable(family, types, differences.get(MODEL, {}))  # none of texts
        compared |= {*outputs}
        for role, by_output in differences.items():
            values |= {f"{name_metric(family, name)}/{role}": by_output[name].measure_each(family) for name in outputs}
        for metric in FIDELITY[family]:
            metrics[metric] = _build_metric(request, metric, family, outputs, differences)
            if len(request.outputs) > 1:
                metrics |= {
                    name_metric(metric, n): _build_metric(request, metric, family, (n,), differences) for n in outputs
                }
            for part in parts:
                chosen = _choose(examples.differences, part.examples)
                if of_part := _list_defined(family, outputs, chosen[MODEL]):
                    figure = _build_metric(request, metric, family, of_part, chosen)
                    metrics[part.name_metric(metric)] = replace(figure, examples=part.count)
    uncompared = {
        name: "sqnr" if kind in FLOATS else "agreement"
        for name, kind in types.items()
        if families and kind != TEXT and name not in compared
    }
    return Report(metrics, values, uncompared)


def _list_judged(request: Request, types: Mapping[str, str]) -> set[str]:
    """Return the outputs that metrics against labels judge; functions of the user may judge all."""
    if request.functions or request.postprocess or request.boxes:
        return {*types}
    return {next(iter(types))} if request.task else set()


def _choose(differences: Differences, examples: NDArray[np.intp]) -> Differences:
    return {
        role: {name: difference.take(examples) for name, difference in by_output.items()}
        for role, by_output in differences.items()
    }


def _join(differences: Differences, candidates: ModelOutputs | None) -> Differences:
    if candidates is None:
        return differences
    return {
        role: {
            name: concatenate((difference, candidates.differences[role][name]))
            for name, difference in by_output.items()
        }
        for role, by_output in differences.items()
    }


def _list_comparable(family: str, types: Mapping[str, str], differences: Mapping[str, Difference]) -> tuple[str, ...]:
    """Return the outputs for which a metric is defined: classes have no angle, a single score has neither."""
    allowed = (*FLOATS, *CLASSES) if family.startswith("agreement") else FLOATS
    numbers = [name for name, kind in types.items() if kind in allowed]
    names = _list_defined(family, numbers, differences)
    if not names:
        listed = [
            f"{name} is {kind}{' with a single score' if name in numbers else ''}" for name, kind in types.items()
        ]
        raise UsageError(
            f"no output can be compared by {family}",
            why=", ".join(listed),
            hint="compare single scores by `sqnr`, `relative` or `max_abs`" if numbers else "",
        )
    return names


def _list_defined(family: str, outputs: Iterable[str], differences: Mapping[str, Difference]) -> tuple[str, ...]:
    """Return the outputs of which a metric is defined for an example; one of varying length may have single numbers."""
    return tuple(name for name in outputs if not np.isnan(differences[name].measure_each(family)).all())


def _build_metric(
    request: Request, metric: str, family: str, outputs: tuple[str, ...], differences: Differences
) -> Metric:
    better = request.choose_direction(family)
    worst = max if better == "lower" else min
    values = {
        role: worst(SUMMARIES[metric](by_output[name]) for name in outputs) for role, by_output in differences.items()
    }
    return Metric(
        value=values[MODEL],
        unit=request.choose_unit(family),
        better=better,
        baseline=paired.compare_exact(values[MODEL], values[BASELINE]) if BASELINE in values else None,
    )
