"""Where a model's values part from its reference's, how much arises there, and what that does to the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic

from onnx import ModelProto

from orun.diagnosis.patching import LOCAL, Elements, isolated, restored
from orun.diagnosis.segments import Segment, differing, segments
from orun.diagnosis.values import Array, Feed, Probe, Tally
from orun.diagnosis.weights import weight_sqnr
from orun.errors import UsageError
from orun.targets import Target

CHUNK = 128  # segments whose values are held at once
Progress = Callable[[int, int, str], None]


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
        tried: places that were put right, one at a time.
        left: places that differ and were not tried, for want of time or because they were not asked for.
        unmatched: tensors of the reference that the model does not have, or has in another shape.
    """

    findings: tuple[Finding, ...]
    error: float
    optimized_error: float
    tried: int
    left: int
    unmatched: int


@dataclass(frozen=True)
class Effort:
    """How much is tried: places to put right at most, and seconds after which no further one is begun."""

    trials: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Pair:
    """Two models and what both are fed.

    Attributes:
        model, reference: whole in memory.
        feeds: the inputs, one mapping for each run.
        target: where both run.
    """

    model: ModelProto
    reference: ModelProto
    feeds: Sequence[Feed]
    target: Target


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
    rows: list[Finding] = []
    elements = Elements({}, {})
    for start in range(0, len(found), CHUNK):
        progress(start, len(found), "tensors")
        rows += _compared(pair, found[start : start + CHUNK], changed, elements)
    answers = _answers(pair)
    error = _error(pair, pair.model, answers)
    order = sorted((row for row in rows if row.local is not None), key=lambda row: (row.local or 0.0, row.tensor))
    shares: dict[str, float] = {}
    for number, row in enumerate(order[: effort.trials] if error else ()):
        if monotonic() > end:
            break
        progress(number, min(effort.trials, len(order)), "places put right")
        made = restored(pair.model, pair.reference, [changed[row.tensor]], elements)
        shares[row.tensor] = 1 - _error(pair, made, answers) / error
    return Analysis(
        findings=tuple(replace(row, share=shares.get(row.tensor)) for row in rows),
        error=error,
        optimized_error=_error(pair, pair.model, answers, as_is=False),
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


def _answers(pair: Pair) -> list[dict[str, Array]]:
    """The reference's outputs for each feed."""
    probe = Probe(pair.reference, (), pair.target)
    names = [value.name for value in pair.reference.graph.output]
    return [{name: values[name] for name in names} for values in map(probe.run, pair.feeds)]


def _error(pair: Pair, model: ModelProto, answers: Sequence[Feed], *, as_is: bool = True) -> float:
    probe, tally = Probe(model, (), pair.target, as_is=as_is), Tally()
    for feed, right in zip(pair.feeds, answers, strict=True):
        values = probe.run(feed)
        for name, value in right.items():
            tally.add(name, values[name], value)
    return tally.error()


def _compared(pair: Pair, chunk: Sequence[Segment], changed: dict[str, Segment], elements: Elements) -> list[Finding]:
    """What is found of some segments; those that cannot be compared are left out. The elements are added to."""
    parts = [one.ours for one in chunk if one.theirs.tensor in changed]
    sources = {ours: theirs for theirs, ours in (chunk[0].pairs if chunk else {}).items()}
    starts = sorted({name for part in parts for name in part.inputs})
    ours = Probe(pair.model, [*(one.ours.tensor for one in chunk), *starts], pair.target)
    theirs = Probe(pair.reference, [*(one.theirs.tensor for one in chunk), *(sources[n] for n in starts)], pair.target)
    elements.ours.update(ours.elements())
    elements.theirs.update(theirs.elements())
    alone = Probe(isolated(pair.model, parts, ours.elements()), (), pair.target) if parts else None
    inherited, local = Tally(), Tally()
    for feed in pair.feeds:
        found, right = ours.run(feed), theirs.run(feed)
        for one in chunk:
            inherited.add(one.theirs.tensor, found[one.ours.tensor], right[one.theirs.tensor])
        if alone:
            here = alone.run({name: right[sources[name]].astype(found[name].dtype) for name in starts})
            for part in parts:
                tensor = sources[part.tensor]
                local.add(tensor, here[f"{part.tensor}{LOCAL}"], right[tensor])
    rows = [(one, inherited.sqnr(one.theirs.tensor), local.sqnr(one.theirs.tensor)) for one in chunk]
    return [_finding(pair, one, sqnr, here) for one, sqnr, here in rows if sqnr is not None]


def _finding(pair: Pair, segment: Segment, sqnr: float, local: float | None) -> Finding:
    return Finding(
        node=segment.name,
        op=segment.node.op_type,
        tensor=segment.theirs.tensor,
        ours=segment.ours.tensor,
        sqnr=sqnr,
        local=local,
        weights=weight_sqnr(segment, pair.model, pair.reference) if local is not None else None,
        share=None,
        nodes=tuple(node.name for node in segment.theirs.nodes),
        replaced=tuple(node.op_type for node in segment.ours.nodes),
    )
