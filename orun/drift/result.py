"""Verdicts on the statistics of a release's log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from orun.core.serialization import Record

Verdict = Literal["drift", "as at release", "learning", "not logged"]


class WatchedStatistic(Record, frozen=True):
    """Statistic of a release's log.

    Attributes:
        name: `inputs.NAME.STATISTIC`, `outputs.NAME.STATISTIC` or `latency` in seconds.
        verdict: `drift`; `as at release` if there is no significant drift; `learning` while the first
            records of the log become its reference; `not logged` if no record has it.
        p: anytime-valid p-value, adjusted for all statistics: there is drift if it is at most alpha.
        since: time of the record at which the drift began, in seconds since the epoch, as an estimate; None without
            drift.
        detected: time of the record with which the drift was detected; None without drift.
        records: records that count.
        before: median of the reference; None if most of its values are missing.
        now: median of the last 50 records; None if most of their values are missing.
        learnt: number of records that became its reference; 0 if the release's examples are.
    """

    name: str
    verdict: Verdict
    p: float
    since: float | None
    detected: float | None
    records: int
    before: float | None
    now: float | None
    learnt: int = 0


class WatchResult(Record, frozen=True):
    """Verdict on a release, by the log of its server.

    Attributes:
        release: where it is.
        alpha: probability of ever naming a statistic that has not drifted.
        records: number of records that were tested.
        first, last: times of the earliest and of the latest record, in seconds since the epoch; None without records.
        left_out: numbers of lines that were left out, by the reason.
        latency: median of the latency at release in seconds; None if it was not measured.
        statistics: every statistic, in the order of the release's inputs and outputs; the latency is the last one.
    """

    release: str
    alpha: float
    records: int
    first: float | None
    last: float | None
    left_out: Mapping[str, int]
    latency: float | None
    statistics: tuple[WatchedStatistic, ...]

    @property
    def drifted(self) -> tuple[WatchedStatistic, ...]:
        """The statistics that have drifted, in the order of detection."""
        drifted = [statistic for statistic in self.statistics if statistic.verdict == "drift"]
        return tuple(sorted(drifted, key=lambda statistic: statistic.detected or 0.0))

    @property
    def exit_code(self) -> int:
        """1 if a statistic has drifted, else 0, as of a run with a failed gate."""
        return 1 if self.drifted else 0
