"""Search for the stage that made a metric worse most, with as few measurements as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from orun.blame import upstream_metrics
from orun.blame.diagnosis import Level
from orun.blame.experiment import Bench, OutOfTime
from orun.core.metrics import Metric
from orun.core.serialization import replace
from orun.pipeline.model import Gate, Stage

FEW = 64  # examples that find the stage where all of them would take too long
PATIENCE = 1 / 3  # of the time that is left, what finding the stage may take with all examples
SAMPLED = frozenset({"measure/accuracy"})  # kinds with the parameter `samples`
SKIPPED = "not needed: less was lost around it"


@dataclass(frozen=True)
class Measured:
    """The metric at the artifacts.

    Attributes:
        levels: of each artifact, the first made first.
        stage: the measurement as it was made: the gate's own, or one of its first examples alone.
        seconds: that the gate's own takes.
        metrics: of the gate's own.
        complete: whether there was time for all that had to be measured.
    """

    levels: tuple[Level, ...]
    stage: Stage
    seconds: float = 0.0
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    complete: bool = False


def measure(
    bench: Bench, stage: Stage, gate: Gate, chain: Sequence[Stage], patience: float = PATIENCE, metric: str = ""
) -> Measured:
    """A gate's metric, or another of its stage, at the artifacts, as far as that tells where most was lost.

    The last and the first come first, then one between those two that differ most, until nothing is between them.
    What is lost and made up for in between is not seen. Where all examples would take longer than that share of the
    time that is left, the first ones alone are taken.
    """
    found: dict[int, Level] = {}
    measured = Measured((), stage)
    try:
        made = upstream_metrics.variant(bench, stage, gate, chain[-1].id)
        own = bench.run([made.id])[made.id]
        enough = own.seconds * (len(chain) - 1) <= patience * bench.left
        search = stage if enough or not _has_more(stage) else shortened(stage)
        measured = Measured((), search, own.seconds, own.metrics)
        sign = upstream_metrics.direction(gate, own.metrics)
        while (place := following({number: one.value for number, one in found.items()}, len(chain), sign)) is not None:
            made = upstream_metrics.variant(bench, search, gate, chain[place].id)
            found[place] = upstream_metrics.level(bench.run([made.id]), chain[place].id, made.id, metric or gate.metric)
        measured = replace(measured, complete=True)
    except OutOfTime:
        pass
    why = SKIPPED if measured.complete else "skipped: time limit reached"
    every = (found.get(number, Level(one.id, None, why=why)) for number, one in enumerate(chain))
    return replace(measured, levels=tuple(every))


def _has_more(stage: Stage) -> bool:
    """Whether a measurement can be made on fewer examples; those of one slice are few already."""
    if stage.uses not in SAMPLED or stage.params["slices"]:
        return False
    samples = stage.params["samples"]
    return samples is None or samples > FEW


def shortened(stage: Stage) -> Stage:
    """A measurement on the first examples alone."""
    return replace(stage, id=f"{stage.id} of {FEW} examples", params={**stage.params, "samples": FEW})


def following(values: Mapping[int, float | None], count: int, sign: int) -> int | None:
    """The place in a chain that is to be measured next; None where the worst step is known.

    Args:
        values: those that were measured; None where there is no such value.
        count: length of the chain.
        sign: 1 where a larger value is better, else -1.
    """
    missing = [place for place in range(count) if place not in values]
    known = [(place, value) for place, value in sorted(values.items()) if value is not None]
    first, last = (known[0][0], known[-1][0]) if known else (count, count)
    outside = [place for place in (count - 1, 0, *missing) if place in missing and not first < place < last]
    if not missing or outside:
        return next(iter(outside), None)
    size = max(abs(value) for _, value in known)
    steps = [
        (sign * (old - new), [place for place in missing if low < place < high])
        for (low, old), (high, new) in pairwise(known)
    ]
    sure = [lost for lost, between in steps if not between and lost > upstream_metrics.TELLING * size]
    lost, between = max((step for step in steps if step[1]), key=lambda step: step[0])
    return None if sure and lost < max(sure) else between[len(between) // 2]
