"""Comparison of every tensor that two models share, as it is and with the reference's values just before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

from orun.diagnosis.patching import LOCAL, Elements, isolate
from orun.diagnosis.segments import Segment
from orun.diagnosis.values import Feed, Pair, Probe, Progress, Tally

FIRST = 64  # segments in the first part, when the size of their values is unknown
HELD = 2**29  # bytes of values that a later part holds at once


@dataclass(frozen=True)
class Row:
    """A segment with the SQNR in dB of its tensor, and of the error that arises in it alone; None if not compared."""

    segment: Segment
    sqnr: float
    local: float | None


@dataclass(eq=False)
class Comparison:
    """Comparison of segments, in parts: a session holds all values that are fetched from it.

    Attributes:
        pair: the models.
        segments: their segments.
        changed: segments that differ, by their tensor in the reference.
        elements: element type of each fetched tensor.
        reshaped: tensors of the reference that have another shape in the model.
        answers: the reference's outputs for each feed.
        outputs: signal and noise of the model's outputs.
        seconds: time of the model for all feeds, without ONNX Runtime's optimizations.
    """

    pair: Pair
    segments: Sequence[Segment]
    changed: Mapping[str, Segment]
    elements: Elements = field(default_factory=lambda: Elements({}, {}))
    reshaped: set[str] = field(default_factory=set)
    answers: list[Feed] = field(default_factory=list)
    outputs: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    _size: int = 0  # bytes of the values of the last part

    def run(self, progress: Progress) -> list[Row]:
        """Compare all segments; tensors that cannot be compared are left out."""
        rows: list[Row] = []
        start, count = 0, FIRST
        while start < len(self.segments):
            progress(start, len(self.segments), "tensors")
            rows += self._compare_part(self.segments[start : start + count])
            start, count = start + count, max(1, count * HELD // max(self._size, 1))
        return rows

    def _compare_part(self, part: Sequence[Segment]) -> Iterator[Row]:
        pair, pairs = self.pair, part[0].pairs
        sources = {ours: theirs for theirs, ours in pairs.items()}
        places = [segment.ours for segment in part if segment.theirs.tensor in self.changed]
        starts = sorted({name for place in places for name in place.inputs})
        ours = Probe(pair.model, [*(segment.ours.tensor for segment in part), *starts], pair.target)
        theirs = Probe(
            pair.reference,
            [*(segment.theirs.tensor for segment in part), *(sources[name] for name in starts)],
            pair.target,
        )
        self.elements.ours.update(ours.map_element_types())
        self.elements.theirs.update(theirs.map_element_types())
        places = [
            place for place in places if ours.map_element_types().keys() >= {place.tensor, *place.inputs}
        ]  # no sequences
        starts = sorted({name for place in places for name in place.inputs})
        isolated_parts = (
            Probe(isolate(pair.model, places, ours.map_element_types()), (), pair.target) if places else None
        )
        inherited, local = Tally(), Tally()
        first, self.seconds = not self.answers, 0.0
        for feed in pair.feeds:
            began = monotonic()
            values = ours.run(feed)
            self.seconds += monotonic() - began
            right = theirs.run(feed)
            self._size = sum(array.nbytes for array in (*values.values(), *right.values()))
            if first:
                self._compare_outputs(values, right)
            for segment in part:
                if segment.ours.tensor not in values or segment.theirs.tensor not in right:  # a sequence, or optional
                    continue
                inherited.add(segment.theirs.tensor, values[segment.ours.tensor], right[segment.theirs.tensor])
            if isolated_parts:
                computed = isolated_parts.run(
                    {name: right[sources[name]].astype(values[name].dtype) for name in starts}
                )
                for place in places:
                    tensor = sources[place.tensor]
                    local.add(tensor, computed[f"{place.tensor}{LOCAL}"], right[tensor])
        self.reshaped |= inherited.reshaped
        for segment in part:
            sqnr = inherited.sqnr(segment.theirs.tensor)
            if sqnr is not None:
                yield Row(segment, sqnr, local.sqnr(segment.theirs.tensor))

    def _compare_outputs(self, values: Feed, right: Feed) -> None:
        names = [value.name for value in self.pair.reference.graph.output if value.name in right]  # tensors
        self.answers.append({name: right[name] for name in names})
        for name in names:
            self.outputs.add(name, values[name], right[name])
