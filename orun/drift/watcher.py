"""Test of a log against its release, record by record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from orun.drift.e_process import BLOCK, DriftTest, Evidence
from orun.drift.release import LATENCY, Release
from orun.drift.result import Verdict, WatchedStatistic, WatchResult
from orun.drift.sample_log import OTHER_MODEL, Position, Sample, read_samples
from orun.errors import UsageError
from orun.text.counts import count
from orun.text.suggestions import Unknown, find_closest, format_choices

LEARNT = 500  # records from which the latency is learnt: the machine of a release and its load are others
LATELY = 50  # records of which the median is shown

Array = NDArray[np.float64]


class Group:
    """Statistics whose references begin together: those of the release, or those that are learnt from as many records.

    Attributes:
        columns: their indices among all columns.
        learnt: number of records that become their references; 0 for the release's examples.
        references: values of each statistic that it is compared with; empty where there are none.
        seen: records until there are enough, `[records, columns]`.
        test: the test; None until then.
        random: source of the test.
    """

    def __init__(self, columns: Sequence[int], learnt: int, references: Sequence[Array], seed: int) -> None:
        self.columns = np.array(columns)
        self.learnt = learnt
        self.references = list(references)
        self.seen = np.empty((0, len(columns)))
        self.random = np.random.default_rng([seed, learnt])
        self.test: DriftTest | None = None
        if not learnt:
            self.begin()

    def begin(self) -> None:
        """Make the test; a statistic without a reference never counts in it."""
        references = [values if len(values) else np.zeros(1) for values in self.references]
        self.test = DriftTest.begin(references, self.random)

    def collect_references(self) -> list[Array]:
        """Return the values of each statistic in the records that were learnt from."""
        return [column[~np.isnan(column)] for column in self.seen.T]

    def add(self, values: Array, times: Array) -> Evidence | None:
        """Return the evidence after each of some records; None if all of them are learnt.

        Args:
            values: `[records, columns]`, of the group.
            times: `[records]`.
        """
        if self.test is None:
            missing = self.learnt - len(self.seen)
            self.seen = np.concatenate((self.seen, values[:missing]))
            values, times = values[missing:], times[missing:]
            if len(self.seen) < self.learnt:
                return None
            self.references = self.collect_references()
            self.begin()
        known = [len(reference) > 0 for reference in self.references]
        return self.test.add(np.where(known, values, np.nan), times) if self.test and len(values) else None


class Watcher:
    """Test of a log, which goes on as long as records come.

    Args:
        release: what the server serves.
        learn: for names of statistics, with wildcards, the number of records at the start of the log that become their
            references in place of the release's examples; 0 for the examples. The last pattern that matches counts. The
            latency is learnt from `LEARNT` records unless a pattern says otherwise.
        alpha: probability of ever naming a statistic that has not drifted.
        per: seconds of a period of which one record counts, chosen at random; 0 if every record counts.

    Raises:
        UsageError: when `learn` names no statistic, or the latency is not to be learnt and was not measured.
    """

    def __init__(self, release: Release, learn: Mapping[str, int], alpha: float, per: float) -> None:
        self.release = release
        self.settings = {"release": release.digest, "learn": dict(learn), "alpha": alpha, "per": per}
        self.alpha, self.per = alpha, per
        self.position = Position()
        seed = int(release.digest[:16], 16)  # so that the same log is judged alike each time
        self.random = np.random.default_rng(seed)
        learnt = count_learnt_records(release, learn)
        self.groups = []
        for number in sorted(set(learnt)):
            columns = [column for column, records in enumerate(learnt) if records == number]
            references = [release.values[column] if number == 0 else np.empty(0) for column in columns]
            self.groups.append(Group(columns, number, references, seed))
        width = len(release.columns)
        self.records = 0
        self.times = np.full(2, np.nan)  # earliest and latest of the records
        self.counted = np.zeros(width, np.int64)
        self.peak = np.ones(width)
        self.since, self.detected = np.full(width, np.nan), np.full(width, np.nan)
        self.latest = np.empty((0, width))
        self.waiting: list[Sample] = []
        self.chosen: Sample | None = None  # of the period that goes on
        self.period = (math.nan, 0)  # its number, and its records

    @property
    def has_drift(self) -> bool:
        """Whether a statistic has drifted, by the records that were tested."""
        return not np.isnan(self.detected).all()

    def add(self, sample: Sample) -> None:
        """Take a record; it is tested with those after it, at the latest in `flush`."""
        if self.per:
            earlier = self._choose(sample)
            if earlier is None:
                return
            sample = earlier
        self.waiting.append(sample)
        if len(self.waiting) == BLOCK:
            self.flush()

    def _choose(self, sample: Sample) -> Sample | None:
        """Return the choice of the period before, if a record is the first of a period; choose within a period."""
        number, records = self.period
        current = sample.time // self.per
        if records and current <= number:  # the clocks of several processes are not in step
            self.period = (number, records + 1)
            if self.random.random() * (records + 1) < 1:
                self.chosen = sample
            return None
        earlier, self.chosen = self.chosen, sample
        self.period = (current, 1)
        return earlier

    def flush(self) -> None:
        """Test the records that wait."""
        if not self.waiting:
            return
        values = np.array([sample.values for sample in self.waiting])
        times = np.array([sample.time for sample in self.waiting])
        self.waiting = []
        self.records += len(times)
        self.times = np.array([np.fmin(self.times[0], times.min()), np.fmax(self.times[1], times.max())])
        self.counted += (~np.isnan(values)).sum(axis=0)
        self.latest = np.concatenate((self.latest, values))[-LATELY:]
        for group in self.groups:
            evidence = group.add(values[:, group.columns], times)
            if evidence:
                self._judge(group.columns, evidence, times[-len(evidence.capital) :])

    def _judge(self, columns: NDArray[np.int64], evidence: Evidence, times: Array) -> None:
        self.peak[columns] = np.maximum(self.peak[columns], evidence.capital.max(axis=0))
        is_enough = evidence.capital >= len(self.peak) / self.alpha
        for place in np.flatnonzero(is_enough.any(axis=0) & np.isnan(self.detected[columns])):
            record = is_enough[:, place].argmax()
            self.detected[columns[place]] = times[record]
            self.since[columns[place]] = evidence.since[record, place]

    def build_result(self) -> WatchResult:
        """Return what is known by the records that were tested."""
        statistics: dict[int, WatchedStatistic] = {}
        for group in self.groups:
            for place, column in enumerate(group.columns.tolist()):
                statistics[column] = self._build_statistic(group, column, group.references[place])
        first, last = map(_to_number, self.times)
        ordered = tuple(statistics[column] for column in range(len(statistics)))
        left_out = dict(self.position.left_out)
        latency = _median(self.release.values[-1])
        return WatchResult(self.release.name, self.alpha, self.records, first, last, left_out, latency, ordered)

    def _build_statistic(self, group: Group, column: int, reference: Array) -> WatchedStatistic:
        verdict: Verdict = "as at release"
        if not np.isnan(self.detected[column]):
            verdict = "drift"
        elif not self.counted[column]:
            verdict = "not logged"
        elif group.test is None:
            verdict = "learning"
        return WatchedStatistic(
            self.release.columns[column].name,
            verdict,
            min(1.0, len(self.peak) / float(self.peak[column])),
            _to_number(self.since[column]),
            _to_number(self.detected[column]),
            int(self.counted[column]),
            _median(reference),
            _median(self.latest[:, column]),
            group.learnt,
        )


def count_learnt_records(release: Release, learn: Mapping[str, int]) -> list[int]:
    """Return the number of records that each statistic of a release is learnt from; 0 for the release's examples."""
    names = [column.name for column in release.columns]
    for pattern in learn:
        if not any(fnmatchcase(name, pattern) for name in names):
            arrays = dict.fromkeys(f"{name.rpartition('.')[0]}.*" for name in names if "." in name)
            meant = find_closest(pattern, [*names, *arrays])
            raise Unknown(
                f"{release.name} has no statistic {pattern}", expected=format_choices(names), suggestion=meant
            )
    settings = {LATENCY: LEARNT, **learn}
    learnt = [0] * len(names)
    for pattern, number in settings.items():
        learnt = [number if fnmatchcase(name, pattern) else now for name, now in zip(names, learnt, strict=True)]
    if not learnt[-1] and not len(release.values[-1]):
        raise UsageError(f"the latency of {release.name} was not measured", hint=f"--learn {LATENCY}={LEARNT}")
    return learnt


def watch_logs(watcher: Watcher, logs: Sequence[str], *, follow: bool) -> WatchResult:
    """Test the records of logs, the oldest log first.

    `-` is the standard input. With `follow` it waits for further records of the last log, until a statistic drifts.

    Raises:
        UsageError: when a log cannot be read, or there is no record.
    """
    for log in logs:
        for sample in read_samples(log, watcher.release, watcher.position, follow=follow and log is logs[-1]):
            if sample is None:
                watcher.flush()
            else:
                watcher.add(sample)
            if follow and watcher.has_drift:
                return watcher.build_result()
    watcher.flush()
    if not watcher.records and not watcher.chosen:
        left_out = watcher.position.left_out
        why = "; ".join(f"left out {count(number, 'line')}: {reason}" for reason, number in left_out.items())
        hint = (
            "name the bundle that the server runs: --release FOLDER"
            if OTHER_MODEL in left_out
            else "is the server's share of requests to log above 0?"
        )
        raise UsageError(f"there is no record in {', '.join(logs)}", why=why, hint=hint)
    return watcher.build_result()


def _to_number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _median(values: Array) -> float | None:
    values = values[~np.isnan(values)]
    return _to_number(np.median(values)) if len(values) else None
