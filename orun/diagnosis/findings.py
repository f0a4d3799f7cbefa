"""Segments in which a model's values differ from its reference's, and their effect on the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic

from onnx import ModelProto

from orun.diagnosis.alignment import find_produced
from orun.diagnosis.comparing import Comparison, Row
from orun.diagnosis.patching import Elements, restore
from orun.diagnosis.segments import Segment, find_differing, find_segments
from orun.diagnosis.trials import Trials
from orun.diagnosis.values import Pair, Probe, Progress
from orun.diagnosis.weights import measure_weights
from orun.errors import UsageError


@dataclass(frozen=True)
class Finding:
    """Comparison of a tensor that both models have.

    Attributes:
        node, op: the reference's node that yields it.
        tensor: its name in the reference.
        ours: its name in the model.
        sqnr: SQNR in dB of the model's value against the reference's.
        local: the same when the model gets the reference's values just before; None if both compute it the same way.
        weights: lowest SQNR in dB of its weights; None if none is quantized or recognized.
        share: share of the outputs' error that disappears with the reference's nodes there; None if not tried.
        nodes: names of the reference's nodes in the segment.
        replaced: types of the model's nodes in the segment.
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
    """Result of a comparison of two models.

    Attributes:
        findings: in the order in which the reference computes the tensors.
        error: noise for each unit of signal at the outputs.
        optimized_error: the same with ONNX Runtime's optimizations, as in production.
        examples: number of examples that the models were compared on.
        tried_with: number of first examples that segments were restored on.
        tried: segments that were restored, one at a time.
        left: segments that differ and were not tried: no time, over the limit, or impossible to restore.
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
    """Limits of the trials: most segments to restore, and seconds after which no further trial begins."""

    trials: int
    seconds: float


def analyse(pair: Pair, effort: Effort, progress: Progress) -> Analysis:
    """Compare every shared tensor, then restore the segments where most error arises, one at a time.

    The effect of a segment on the outputs' error is measured by restoring it, not by its own noise: some noise is
    masked, averaged or rounded away on the way. Shares do not add up to 1 if errors of segments cancel out.

    Raises:
        UsageError: when a model cannot be opened, or no segment of one can be put into the other.
    """
    end = monotonic() + effort.seconds
    _require_outputs(pair)
    shared = find_segments(pair.model, pair.reference)
    changed = {segment.theirs.tensor: segment for segment in find_differing(shared, pair.model, pair.reference)}
    comparison = Comparison(pair, shared, changed)
    rows = [_build_finding(pair, row) for row in comparison.run(progress)]
    order = sorted((row for row in rows if row.local is not None), key=lambda row: (row.local or 0.0, row.tensor))
    chosen = [changed[row.tensor] for row in order[: effort.trials]]
    matched = {segment.theirs.tensor for segment in shared} - comparison.reshaped
    trials = Trials(pair, comparison, end, progress)
    shares = trials.run(chosen)
    return Analysis(
        findings=tuple(replace(row, share=shares.get(row.tensor)) for row in rows),
        error=comparison.outputs.compute_error(),
        optimized_error=trials.measure_error(Probe(pair.model, (), pair.target, as_is=False)) if rows else 0.0,
        examples=len(pair.feeds),
        tried_with=trials.examples,
        tried=len(shares),
        left=len(order) - len(shares),
        unmatched=len(set(find_produced(pair.reference)) - matched),
    )


def _require_outputs(pair: Pair) -> None:
    ours, theirs = ([value.name for value in model.graph.output] for model in (pair.model, pair.reference))
    if missing := [name for name in theirs if name not in ours]:
        why = f"it has {', '.join(ours)}"
        raise UsageError(f"the model has no output {', '.join(missing)}, which its reference has", why=why)


def restore_segments(pair: Pair, chosen: Sequence[Segment]) -> ModelProto:
    """Return the model with the reference's nodes in some segments; see `restore`."""
    ours = [segment.ours.tensor for segment in chosen]
    ours += [segment.pairs[start] for segment in chosen for start in segment.theirs.inputs]
    theirs = [name for segment in chosen for name in (segment.theirs.tensor, *segment.theirs.inputs)]
    probes = Probe(pair.model, ours, pair.target), Probe(pair.reference, theirs, pair.target)
    return restore(pair.model, pair.reference, chosen, Elements(*(probe.map_element_types() for probe in probes)))


def _build_finding(pair: Pair, row: Row) -> Finding:
    segment = row.segment
    return Finding(
        node=segment.name,
        op=segment.node.op_type,
        tensor=segment.theirs.tensor,
        ours=segment.ours.tensor,
        sqnr=row.sqnr,
        local=row.local,
        weights=measure_weights(segment, pair.model, pair.reference) if row.local is not None else None,
        share=None,
        nodes=tuple(node.name for node in segment.theirs.nodes),
        replaced=tuple(node.op_type for node in segment.ours.nodes),
    )
