"""Successive elimination of session settings, by launches beside the default ones.

Every launch times a candidate and the default in fresh processes, in blocks that alternate (`orun.measure.latency`).
Each candidate gets as many launches as an interval needs, those for threads first, so that little time decides
something. Then they take turns, a launch each. One is dropped as soon as its interval shows that it is not faster than
the default by `LEAST_GAIN`, or that it is slower than another value of the same setting. Of those that are left, the
best of each setting are tried together in the same way.

The fastest of many looks faster than it is. So the search only proposes: `confirm` measures the proposal anew, in
launches that the search has not seen, and allows for what launches of one run have in common.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from logging import Logger
from random import Random

from orun.core.metrics import Estimate
from orun.core.serialization import replace
from orun.errors import OrunError
from orun.measure.benchmark_case import MODEL, BenchmarkCase
from orun.measure.latency.cpu_cores import CoreWatch
from orun.measure.latency.launch import Launch, Pace, run_launch
from orun.measure.latency.measurement import Budget, Measurement, measure
from orun.measure.latency.sequential_test import FEWEST, Evidence
from orun.measure.latency.timing_method import Method
from orun.measure.workers import WorkerProcess
from orun.stages.optimize._session.candidates import DEFAULT, Candidate

REFERENCE = "reference"
LEAST_GAIN = 0.01  # below it a setting is not worth a line in the settings
MOST = 8  # launches of a candidate
PACE = Pace(warmup=0.05, samples=1, alone=0.0, abba_seconds=0.5, longest=0.3)
CONFIRMING = Budget(time=20.0, resolution=0.05, launches=(FEWEST, 30), samples=6, warmup=0.05, alone=0.3, enough=MOST)

Progress = Callable[[int, int, str], None]


@dataclass
class Track:
    """Launches of one candidate.

    Attributes:
        candidate: its settings.
        log_ratios: of its time to the default's, of each undisturbed launch.
        launches: number of launches, disturbed ones included.
        method: the time that it is compared by, once known.
        dropped: why it is out; empty while it is in.
        refused: whether ONNX Runtime cannot run it.
    """

    candidate: Candidate
    log_ratios: list[float] = field(default_factory=list)
    launches: int = 0
    method: Method | None = None
    dropped: str = ""
    refused: bool = False

    @property
    def judged(self) -> bool:
        """Whether there were enough launches to tell how fast it is, or it cannot run."""
        return self.refused or self.ratio is not None

    @property
    def ratio(self) -> Estimate | None:
        """Its time over the default's; None before enough launches."""
        return Evidence.from_log_ratios(self.log_ratios).ratio if len(self.log_ratios) >= FEWEST else None


@dataclass
class Search:
    """Search for the fastest settings of one model.

    Attributes:
        default: the model with the settings of its target.
        until: time on the monotonic clock after which no further launch begins.
        seed: of every random order.
        log: gets a line for each candidate.
        progress: called before each launch.
        tracks: every candidate so far.
        watch: over the cores, in all launches.
    """

    default: BenchmarkCase
    until: float
    seed: int
    log: Logger
    progress: Progress
    tracks: list[Track] = field(default_factory=list)
    watch: CoreWatch = field(default_factory=CoreWatch)

    def propose(self, candidates: Sequence[Candidate]) -> Candidate:
        """Return the settings that look fastest; the default if none looks faster.

        Raises:
            OrunError: if the model cannot be run with the settings of its target.
        """
        run_launch({MODEL: self.default}, PACE, Random(self.seed), WorkerProcess)  # noqa: S311 - an order, not a secret
        faster = self._eliminate(candidates)
        best: dict[tuple[str, ...], Track] = {}
        for track in faster:
            best.setdefault(track.candidate.changes, track)
        together = list(accumulate((track.candidate for track in best.values()), Candidate.join))
        return _choose_simplest([*faster[:1], *self._eliminate(together[1:])])

    def confirm(self, proposal: Candidate) -> Measurement:
        """Measure a proposal against the default, in launches of its own."""
        cases = {MODEL: self._build_case(proposal), REFERENCE: self.default}
        return measure(cases, CONFIRMING, self.seed + 1, self.progress, WorkerProcess)

    def _eliminate(self, candidates: Iterable[Candidate]) -> list[Track]:
        """Launch candidates in turn until each is dropped or shown to be faster; return these, fastest first."""
        random = Random(self.seed)  # noqa: S311 - an order, not a secret
        tracks = [Track(candidate) for candidate in candidates]
        self.tracks += tracks
        while running := [track for track in tracks if not track.dropped and track.launches < MOST]:
            for track in running:
                wanted = max(FEWEST, track.launches + 1)
                while track.launches < wanted and not track.refused and time.monotonic() < self.until:
                    self._launch(track, random)
            _drop_slower(tracks)
            if time.monotonic() >= self.until:
                break
        for track in tracks:
            if not track.dropped and track.ratio is None:
                undisturbed = len(track.log_ratios)
                track.dropped = f"undecided: {undisturbed} undisturbed of {track.launches} launches"
            elif not track.dropped and track.ratio and track.ratio.high >= 1:
                track.dropped = f"not shown to be faster, {_describe(track)}"
            self.log.info("%s: %s", track.candidate.title, track.dropped or _describe(track))
        return sorted((track for track in tracks if not track.dropped), key=_estimate_ratio)

    def _launch(self, track: Track, random: Random) -> None:
        done = sum(other.launches for other in self.tracks)
        self.progress(done, max(done + 1, FEWEST * len(self.tracks)), "launches")
        cases = {MODEL: self._build_case(track.candidate), REFERENCE: self.default}
        try:
            launch: Launch = run_launch(cases, PACE, random, WorkerProcess, track.method, self.watch)
        except OrunError as error:
            track.refused, track.dropped = True, f"cannot run: {error.why or error.problem}"
            return
        track.launches += 1
        track.method = launch.method
        if not launch.disturbed:
            track.log_ratios.append(launch.log_ratios[REFERENCE])

    def _build_case(self, candidate: Candidate) -> BenchmarkCase:
        return replace(self.default, target=candidate.apply(self.default.target))


def _drop_slower(tracks: Sequence[Track]) -> None:
    """Drop candidates that are not faster than the default, or slower than another value of the same setting."""
    judged = [(track, ratio) for track in tracks if not track.dropped and (ratio := track.ratio)]
    for track, ratio in judged:
        alike = [other.high for rival, other in judged if rival.candidate.changes == track.candidate.changes]
        if ratio.low > 1 - LEAST_GAIN:
            track.dropped = f"not faster, {_describe(track)}"
        elif ratio.low > min(alike):
            track.dropped = f"slower than another value, {_describe(track)}"


def _choose_simplest(faster: Sequence[Track]) -> Candidate:
    """Return, of the candidates that are not shown to be slower than the fastest, the one with the fewest changes."""
    judged = [(track, ratio) for track in faster if (ratio := track.ratio)]
    if not judged:
        return DEFAULT
    _, fastest = min(judged, key=lambda pair: pair[1].value)
    alike = [track for track, ratio in judged if ratio.low <= fastest.high]
    return min(alike, key=lambda track: (len(track.candidate.changes), _estimate_ratio(track))).candidate


def _estimate_ratio(track: Track) -> float:
    return track.ratio.value if track.ratio else 1.0


def _describe(track: Track) -> str:
    ratio = track.ratio
    return f"{ratio.value:.3f} of the default's time ({ratio.low:.3f} to {ratio.high:.3f})" if ratio else "not timed"
