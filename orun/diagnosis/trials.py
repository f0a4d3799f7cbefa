"""Search for the segments that cause the error of the outputs: restore each one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from onnx import ModelProto, TensorProto
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from orun.diagnosis.alignment import find_constants
from orun.diagnosis.comparing import Comparison
from orun.diagnosis.segments import Segment
from orun.diagnosis.switches import add_switches, set_switches
from orun.diagnosis.values import Feed, Pair, Probe, Progress, Tally
from orun.errors import UsageError

SLOWDOWN = 1.5  # of a run with switches, at most
HELD = 2**28  # bytes of the reference's weights in one model


@dataclass(eq=False)
class Trials:
    """Trials of segments until a deadline.

    Attributes:
        pair: the models.
        compared: their comparison on every feed.
        end: time of `monotonic` after which no further trial begins.
        progress: called with the progress.
        examples: number of feeds of each trial: as many as time allows for all segments, at least one.
    """

    pair: Pair
    compared: Comparison
    end: float
    progress: Progress
    examples: int = 0

    def run(self, chosen: Sequence[Segment]) -> dict[str, float]:
        """Restore these segments one at a time, in this order.

        Returns:
            The share of the outputs' error that disappears with each segment, by its tensor in the reference.

        Raises:
            UsageError: when a model does not run, or no segment can be put into the other model.
        """
        self.examples = self._count_affordable(len(chosen))
        shares: dict[str, float] = {}
        for probe, group in self._open_probes(chosen if self.compared.outputs.compute_error() else ()):
            total = self.measure_error(probe, set_switches(group))
            for segment in group:
                if monotonic() > self.end:
                    return shares
                self.progress(len(shares), len(chosen), "segments restored")
                error = self.measure_error(probe, set_switches(group, segment))
                shares[segment.theirs.tensor] = 1 - error / total if total else 0.0
        return shares

    def measure_error(self, probe: Probe, switches: Feed | None = None) -> float:
        """Return the noise for each unit of signal at a model's outputs; with switches, on the examples of trials."""
        count, tally = self.examples if switches else len(self.pair.feeds), Tally()
        for feed, right in zip(self.pair.feeds[:count], self.compared.answers[:count], strict=True):
            values = probe.run({**feed, **(switches or {})})
            for name, value in right.items():
                tally.add(name, values[name], value)
        return tally.compute_error()

    def _count_affordable(self, places: int) -> int:
        count, left = len(self.pair.feeds), max(self.end - monotonic(), 0.0)
        seconds = places * self.compared.seconds * SLOWDOWN
        return count if seconds <= left else max(1, int(count * left / seconds))

    def _open_probes(self, chosen: Sequence[Segment]) -> Iterator[tuple[Probe, Sequence[Segment]]]:
        """Yield sessions with the segments that each can restore; segments that fit no model are left out."""
        pair, refusal, opened = self.pair, None, False
        pending = split_by_size(chosen, pair.reference)
        while pending:
            group = pending.pop(0)
            try:
                model = add_switches(pair.model, pair.reference, group, self.compared.elements)
            except UsageError as error:  # a cycle, or a segment with a graph
                refusal, half = error, len(group) // 2
                pending[:0] = [part for part in (group[:half], group[half:]) if half]
                continue
            opened = True
            yield Probe(model, (), pair.target), group
        if refusal and not opened:
            raise refusal


def split_by_size(chosen: Sequence[Segment], reference: ModelProto) -> list[Sequence[Segment]]:
    """Split the segments, in order, into groups whose weights fit into one model."""
    stored = find_constants(reference)
    groups: list[Sequence[Segment]] = []
    size = 0
    for segment in chosen:
        own = sum(count_bytes(stored[name]) for name in segment.theirs.constants)
        size += own
        if groups and size <= HELD:
            groups[-1] = [*groups[-1], segment]
        else:
            groups.append([segment])
            size = own
    return groups


def count_bytes(tensor: TensorProto) -> int:
    """Return the bytes of an initializer's values, in the model or in external data, or slightly more."""
    return (ExternalDataInfo(tensor).length or 0) if uses_external_data(tensor) else tensor.ByteSize()
