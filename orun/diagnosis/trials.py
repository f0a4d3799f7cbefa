"""Search for the places behind the error of the outputs: each is computed as in the reference, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from onnx import ModelProto, TensorProto
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from orun.diagnosis.alignment import constants
from orun.diagnosis.comparing import Comparison
from orun.diagnosis.segments import Segment
from orun.diagnosis.switches import positions, switched
from orun.diagnosis.values import Feed, Pair, Probe, Progress, Tally
from orun.errors import UsageError

LONGER = 1.5  # a run takes with switches, at most
HELD = 2**28  # bytes of the reference's weights that are put into one model


@dataclass(eq=False)
class Trials:
    """Tries places until a point in time.

    Attributes:
        pair: the models.
        compared: the two, compared on every feed.
        end: on the clock of `monotonic`, when no further place is begun.
        progress: told how far it is.
        examples: with how many feeds places were tried: as many as there is time for in all of the places, or one.
    """

    pair: Pair
    compared: Comparison
    end: float
    progress: Progress
    examples: int = 0

    def run(self, chosen: Sequence[Segment]) -> dict[str, float]:
        """Put these places right one at a time, in this order.

        Returns:
            Of the outputs' error, how much goes away with each place, by its tensor in the reference.

        Raises:
            UsageError: when a model does not run, or none of the places can be put into the other model.
        """
        self.examples = self._affordable(len(chosen))
        found: dict[str, float] = {}
        for probe, group in self._probes(chosen if self.compared.outputs.error() else ()):
            whole = self.error(probe, positions(group))
            for one in group:
                if monotonic() > self.end:
                    return found
                self.progress(len(found), len(chosen), "places put right")
                found[one.theirs.tensor] = 1 - self.error(probe, positions(group, one)) / whole if whole else 0.0
        return found

    def error(self, probe: Probe, switches: Feed | None = None) -> float:
        """Noise for each unit of signal at a model's outputs; with switches on those examples that places are tried."""
        count, tally = self.examples if switches else len(self.pair.feeds), Tally()
        for feed, right in zip(self.pair.feeds[:count], self.compared.answers[:count], strict=True):
            values = probe.run({**feed, **(switches or {})})
            for name, value in right.items():
                tally.add(name, values[name], value)
        return tally.error()

    def _affordable(self, places: int) -> int:
        count, left = len(self.pair.feeds), max(self.end - monotonic(), 0.0)
        seconds = places * self.compared.seconds * LONGER
        return count if seconds <= left else max(1, int(count * left / seconds))

    def _probes(self, chosen: Sequence[Segment]) -> Iterator[tuple[Probe, Sequence[Segment]]]:
        """Sessions in which some of the places can be put right; those that go into no model are left out."""
        pair, refused, opened = self.pair, None, False
        waiting = _groups(chosen, pair.reference)
        while waiting:
            group = waiting.pop(0)
            try:
                made = switched(pair.model, pair.reference, group, self.compared.elements)
            except UsageError as error:  # they form a cycle, or one of them holds a graph
                refused, half = error, len(group) // 2
                waiting[:0] = [part for part in (group[:half], group[half:]) if half]
                continue
            opened = True
            yield Probe(made, (), pair.target), group
        if refused and not opened:
            raise refused


def _groups(chosen: Sequence[Segment], reference: ModelProto) -> list[Sequence[Segment]]:
    """The places in their order, as many together as may be held at once."""
    stored = constants(reference)
    found: list[Sequence[Segment]] = []
    size = 0
    for one in chosen:
        own = sum(weight(stored[name]) for name in one.theirs.constants)
        size += own
        if found and size <= HELD:
            found[-1] = [*found[-1], one]
        else:
            found.append([one])
            size = own
    return found


def weight(tensor: TensorProto) -> int:
    """Bytes that the values of an initializer take, wherever they are, or somewhat more."""
    return (ExternalDataInfo(tensor).length or 0) if uses_external_data(tensor) else tensor.ByteSize()
