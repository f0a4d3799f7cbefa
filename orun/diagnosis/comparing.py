"""Comparison of every tensor that two models share, as it is and with right values just before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

from orun.diagnosis.patching import LOCAL, Elements, isolated
from orun.diagnosis.segments import Segment
from orun.diagnosis.values import Feed, Pair, Probe, Progress, Tally

FIRST = 64  # segments whose values are held at once, until it is known how large they are
HELD = 2**29  # bytes of values that are held at once after that


@dataclass(frozen=True)
class Row:
    """A segment, and the SQNR in dB of what it yields: as it is, and of what arises there; None if not compared."""

    segment: Segment
    sqnr: float
    local: float | None


@dataclass(eq=False)
class Comparison:
    """Compares segments a part at a time: a session holds all values that are fetched from it.

    Attributes:
        pair: the models.
        found: their segments.
        changed: those that differ, by their tensor in the reference.
        elements: of each tensor that was fetched.
        answers: the reference's outputs for each feed.
        outputs: how far the model's outputs are off.
        seconds: that the model took for all feeds, without ONNX Runtime's optimizations.
    """

    pair: Pair
    found: Sequence[Segment]
    changed: Mapping[str, Segment]
    elements: Elements = field(default_factory=lambda: Elements({}, {}))
    answers: list[Feed] = field(default_factory=list)
    outputs: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    _size: int = 0  # bytes of the values of the last part

    def run(self, progress: Progress) -> list[Row]:
        """Compare them all; tensors that cannot be compared are left out."""
        rows: list[Row] = []
        start, count = 0, FIRST
        while start < len(self.found):
            progress(start, len(self.found), "tensors")
            rows += self._compared(self.found[start : start + count])
            start, count = start + count, max(1, count * HELD // max(self._size, 1))
        return rows

    def _compared(self, part: Sequence[Segment]) -> Iterator[Row]:
        pair, pairs = self.pair, part[0].pairs
        sources = {ours: theirs for theirs, ours in pairs.items()}
        places = [one.ours for one in part if one.theirs.tensor in self.changed]
        starts = sorted({name for place in places for name in place.inputs})
        ours = Probe(pair.model, [*(one.ours.tensor for one in part), *starts], pair.target)
        theirs = Probe(
            pair.reference, [*(one.theirs.tensor for one in part), *(sources[name] for name in starts)], pair.target
        )
        self.elements.ours.update(ours.elements())
        self.elements.theirs.update(theirs.elements())
        places = [place for place in places if ours.elements().keys() >= {place.tensor, *place.inputs}]  # no sequences
        starts = sorted({name for place in places for name in place.inputs})
        alone = Probe(isolated(pair.model, places, ours.elements()), (), pair.target) if places else None
        inherited, local = Tally(), Tally()
        first, self.seconds = not self.answers, 0.0
        for feed in pair.feeds:
            began = monotonic()
            found = ours.run(feed)
            self.seconds += monotonic() - began
            right = theirs.run(feed)
            self._size = sum(value.nbytes for value in (*found.values(), *right.values()))
            if first:
                self._outputs(found, right)
            for one in part:
                if one.ours.tensor not in found or one.theirs.tensor not in right:  # a sequence, or optional
                    continue
                inherited.add(one.theirs.tensor, found[one.ours.tensor], right[one.theirs.tensor])
            if alone:
                here = alone.run({name: right[sources[name]].astype(found[name].dtype) for name in starts})
                for place in places:
                    tensor = sources[place.tensor]
                    local.add(tensor, here[f"{place.tensor}{LOCAL}"], right[tensor])
        for one in part:
            sqnr = inherited.sqnr(one.theirs.tensor)
            if sqnr is not None:
                yield Row(one, sqnr, local.sqnr(one.theirs.tensor))

    def _outputs(self, found: Feed, right: Feed) -> None:
        names = [value.name for value in self.pair.reference.graph.output if value.name in right]  # tensors
        self.answers.append({name: right[name] for name in names})
        for name in names:
            self.outputs.add(name, found[name], right[name])
