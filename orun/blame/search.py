"""Search for the stage that made a metric worse most, with as few measurements as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from orun.blame import upstream_metrics
from orun.blame.diagnosis import Level
from orun.blame.experiment import Experiment, OutOfTime
from orun.core.metrics import Metric
from orun.core.serialization import replace
from orun.pipeline.model import Gate, Stage

FEW = 64  # examples with which the stage is searched for if all would take too long
PATIENCE = 1 / 3  # share of the time left that the search may take with all examples
SAMPLED = frozenset({"measure/accuracy"})  # kinds with the parameter `samples`
SKIPPED = "not needed: less was lost around it"


@dataclass(frozen=True)
class SearchResult:
    """The metric at the artifacts of a chain."""

    levels: tuple[Level, ...]  # of each artifact, in order
    stage: Stage  # the gate's own measurement, or a copy with few of the examples
    seconds: float = 0.0  # of the gate's own measurement
    metrics: Mapping[str, Metric] = field(default_factory=dict)  # likewise
    complete: bool = False  # whether the time sufficed


def measure(
    experiment: Experiment,
    stage: Stage,
    gate: Gate,
    chain: Sequence[Stage],
    patience: float,
    metric: str,
) -> SearchResult:
    """Measure a gate's metric at the artifacts of a chain, in order, until the worst step is known.

    Bisection: the last artifact and the first, then one between the two that differ most, until they are neighbours. A
    loss that a later stage compensates for is not seen. What was measured beside an artifact, as its reference, is not
    measured again. Few examples are used if all would take more than `patience`, a share of the time left.
    """
    levels: dict[int, Level] = {}
    places = {upstream.id: index for index, upstream in enumerate(chain)}
    result = SearchResult((), stage)
    try:
        measurement = upstream_metrics.add_measurement(experiment, stage, gate, chain[-1].id)
        own = experiment.run([measurement.id])[measurement.id]
        enough = own.seconds * (len(chain) - 1) <= patience * experiment.left
        search = stage if enough or not _can_shorten(stage) else shorten_measurement(stage)
        result = SearchResult((), search, own.seconds, own.metrics)
        sign = upstream_metrics.choose_sign(gate, own.metrics)
        while (
            index := choose_next_index({i: level.value for i, level in levels.items()}, len(chain), sign)
        ) is not None:
            model = chain[index].id
            measurement = upstream_metrics.add_measurement(experiment, search, gate, model)
            run = experiment.run([measurement.id])
            levels[index] = upstream_metrics.read_level(run, model, measurement.id, metric)
            known = upstream_metrics.read_reference_level(search, gate, run[measurement.id].metrics.get(metric))
            if known and known.stage in places:
                levels.setdefault(places[known.stage], known)
        result = replace(result, complete=True)
    except OutOfTime:
        pass
    why = SKIPPED if result.complete else "skipped: time limit reached"
    every = (levels.get(index, Level(upstream.id, None, why=why)) for index, upstream in enumerate(chain))
    return replace(result, levels=tuple(every))


def _can_shorten(stage: Stage) -> bool:
    """Return whether a measurement may have more than `FEW` examples; made-up ones and a slice's are few already."""
    if stage.uses not in SAMPLED or stage.params["slices"]:
        return False
    samples = stage.params["samples"]
    return stage.params["dataset"] is not None if samples is None else samples > FEW


def shorten_measurement(stage: Stage) -> Stage:
    """Return a copy of a measurement with few examples."""
    return replace(stage, id=f"{stage.id} of {FEW} examples", params={**stage.params, "samples": FEW})


def choose_next_index(values: Mapping[int, float | None], count: int, sign: int) -> int | None:
    """Return the index in a chain to measure next; None if the worst step is known.

    `values` has None where the metric could not be measured; `sign` is 1 if a larger value is better, else -1.
    """
    missing = [index for index in range(count) if index not in values]
    known = [(index, value) for index, value in sorted(values.items()) if value is not None]
    first, last = (known[0][0], known[-1][0]) if known else (count, count)
    outside = [index for index in (count - 1, 0, *missing) if index in missing and not first < index < last]
    if not missing or outside:
        return next(iter(outside), None)
    size = max(abs(value) for _, value in known)
    steps = [
        (sign * (old - new), [index for index in missing if low < index < high])
        for (low, old), (high, new) in pairwise(known)
    ]
    sure = [lost for lost, between in steps if not between and lost > upstream_metrics.TELLING * size]
    lost, between = max((step for step in steps if step[1]), key=lambda step: step[0])
    return None if sure and lost < max(sure) else between[len(between) // 2]
