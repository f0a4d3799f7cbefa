"""Places where a model's values depart from its reference's, and their effect on the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic

from onnx import ModelProto

from orun.diagnosis.comparing import Comparison, Row
from orun.diagnosis.patching import Elements, restored
from orun.diagnosis.segments import Segment, differing, segments
from orun.diagnosis.trials import Trials
from orun.diagnosis.values import Pair, Probe, Progress
from orun.diagnosis.weights import weight_sqnr
from orun.errors import UsageError


@dataclass(frozen=True)
class Finding:
    """One tensor that both models have.

    Attributes:
        node, op: the reference's node that yields it.
        tensor: its name in the reference.
        ours: its name in the model.
        sqnr: dB of the model's value against the reference's.
        local: the same when the model is given the reference's values right before it: what arises there; None where
            both compute it the same way.
        weights: dB of the lowest of its weights; None where none is quantized, or it cannot be told.
        share: of the outputs' error, how much goes away when the reference's nodes take this place; None if not tried.
        nodes: names of the reference's nodes that the place has.
        replaced: types of the model's nodes there.
    """

    node: str
    op: str
    tensor: str
    ours: str
    sqnr: float
    local: float | None
    weights: float | None
    share: float | None
    nodes: tuple[str, ...]
    replaced: tuple[str, ...]


@dataclass(frozen=True)
class Analysis:
    """What was found.

    Attributes:
        findings: in the order in which the reference computes them.
        error: noise for each unit of signal at the outputs.
        optimized_error: the same with ONNX Runtime's optimizations, as the model runs in earnest.
        examples: on which the models were compared.
        tried_with: of these, how many the places were put right with; the first ones.
        tried: places that were put right, one at a time.
        left: places that differ and were not tried: for want of time, not asked for, or of a kind that cannot be.
        unmatched: tensors of the reference that the model does not have, or has in another shape.
    """

    findings: tuple[Finding, ...]
    error: float
    optimized_error: float
    examples: int
    tried_with: int
    tried: int
    left: int
    unmatched: int


@dataclass(frozen=True)
class Effort:
    """How much is tried: places to put right at most, and seconds after which no further one is begun."""

    trials: int
    seconds: float


def analyse(pair: Pair, effort: Effort, progress: Progress) -> Analysis:
    """Compare every shared tensor, then put right the places where most arises, one at a time.

    What a place adds to the outputs' error is found by replacing it, not by its own noise: some noise is masked,
    averaged or rounded away on the way. Shares do not add up to 1 where places make up for one another's errors.

    Args:
        pair: the models.
        effort: how much is tried.
        progress: told how far it is.

    Raises:
        UsageError: when a model cannot be opened, or no part of one can be put into the other.
    """
    end = monotonic() + effort.seconds
    _require_outputs(pair)
    found = segments(pair.model, pair.reference)
    changed = {one.theirs.tensor: one for one in differing(found, pair.model, pair.reference)}
    comparison = Comparison(pair, found, changed)
    rows = [_finding(pair, row) for row in comparison.run(progress)]
    order = sorted((row for row in rows if row.local is not None), key=lambda row: (row.local or 0.0, row.tensor))
    chosen = [changed[row.tensor] for row in order[: effort.trials]]
    trials = Trials(pair, comparison, end, progress)
    shares = trials.run(chosen)
    return Analysis(
        findings=tuple(replace(row, share=shares.get(row.tensor)) for row in rows),
        error=comparison.outputs.error(),
        optimized_error=trials.error(Probe(pair.model, (), pair.target, as_is=False)) if rows else 0.0,
        examples=len(pair.feeds),
        tried_with=trials.examples,
        tried=len(shares),
        left=len(order) - len(shares),
        unmatched=sum(len(node.output) for node in pair.reference.graph.node) - len(rows),
    )


def _require_outputs(pair: Pair) -> None:
    ours, theirs = ([value.name for value in model.graph.output] for model in (pair.model, pair.reference))
    if missing := [name for name in theirs if name not in ours]:
        why = f"it has {', '.join(ours)}"
        raise UsageError(f"the model has no output {', '.join(missing)}, which its reference has", why=why)


def put_right(pair: Pair, chosen: Sequence[Segment]) -> ModelProto:
    """The model with the reference's nodes in some segments; see `restored`."""
    ours = [name for one in chosen for name in (one.ours.tensor, *(one.pairs[start] for start in one.theirs.inputs))]
    theirs = [name for one in chosen for name in (one.theirs.tensor, *one.theirs.inputs)]
    probes = Probe(pair.model, ours, pair.target), Probe(pair.reference, theirs, pair.target)
    return restored(pair.model, pair.reference, chosen, Elements(*(probe.elements() for probe in probes)))


def _finding(pair: Pair, row: Row) -> Finding:
    segment = row.segment
    return Finding(
        node=segment.name,
        op=segment.node.op_type,
        tensor=segment.theirs.tensor,
        ours=segment.ours.tensor,
        sqnr=row.sqnr,
        local=row.local,
        weights=weight_sqnr(segment, pair.model, pair.reference) if row.local is not None else None,
        share=None,
        nodes=tuple(node.name for node in segment.theirs.nodes),
        replaced=tuple(node.op_type for node in segment.ours.nodes),
    )
