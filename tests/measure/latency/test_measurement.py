"""When a measurement stops, and which launches count. No time is asserted."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path

import pytest

from orun.core.metrics import Disturbance, Estimate
from orun.errors import UsageError
from orun.measure.latency import measurement
from orun.measure.latency.launch import Launch, Pace
from orun.measure.latency.measurement import Budget, Measurement, measure
from orun.measure.latency.metrics import build_metrics
from orun.measure.latency.pressure import Pressure
from orun.measure.latency.sequential_test import Evidence
from orun.measure.latency.timing_method import Method
from orun.measure.workers import WorkerProcess
from tests.measure.support import case_of, launched, save_model

QUICK = Budget(time=0.0, resolution=0.05, launches=(3, 3), samples=30, warmup=0.0)
PATIENT = Budget(time=1e6, resolution=0.05, launches=(3, 9), samples=30, warmup=0.0, enough=8)


@pytest.fixture(autouse=True)
def no_earlier_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has measured nothing yet."""
    monkeypatch.setenv("ORUN_LOCKS", str(tmp_path))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return save_model(tmp_path / "model.onnx")


@pytest.mark.usefixtures("short_blocks")
def test_launches_are_made_and_reported(model: Path) -> None:
    steps: list[tuple[int, int, str]] = []
    cases = {"model": case_of(model), "baseline": case_of(model)}
    measurement = measure(cases, QUICK, 7, lambda *step: steps.append(step), WorkerProcess)
    assert len(measurement.launches) == 3
    assert measurement.list_log_ratios("baseline") == [launch.log_ratios["baseline"] for launch in measurement.launches]
    assert steps == [(0, 3, "launches"), (1, 3, "launches"), (2, 3, "launches")]
    assert [len(launch.alone.wall) for launch in measurement.launches] == [10, 10, 10]


def compared_with(*references: str, budget: Budget) -> Measurement:
    """Measure a model against these by launches that are replayed."""
    cases = {name: case_of(Path(name)) for name in ("model", *references)}
    return measure(cases, budget, 0, lambda *_: None, WorkerProcess)


def replay(monkeypatch: pytest.MonkeyPatch, launches: Iterable[Launch]) -> None:
    left = iter(launches)
    monkeypatch.setattr(measurement, "run_launch", lambda *_: next(left))


def launches_of(ratios: Iterable[float], other: str = "baseline") -> Iterator[Launch]:
    return (launched({"model": [1.0], other: [1.0]}, {other: ratio}) for ratio in ratios)


def test_an_error_of_a_model_ends_the_measurement(model: Path) -> None:
    model.write_bytes(b"no model")
    with pytest.raises(UsageError, match=r"^ONNX Runtime cannot open model.onnx for target 'cpu'"):
        measure({"model": case_of(model)}, QUICK, 7, lambda *_: None, WorkerProcess)


@pytest.mark.parametrize(
    ("other", "ratios", "resolution", "launches"),
    [
        ("baseline", [0.001, -0.001, 0.002], 0.05, 3),  # equal, and sure of it
        ("baseline", [0.05, 0.048, 0.052], 0.05, 3),  # slower, and sure of it
        ("baseline", [0.0, 0.05] * 5, 0.05, 9),  # in the middle until the last
        ("baseline", [0.0, 0.001, 0.002, 0.0, 0.001], 0.03, 3),
        ("reference", [0.0, 0.001, 0.002, 0.0, 0.001, 0.002], 0.03, 6),  # equal soon, the ratio to half of 3 % later
    ],
)
def test_it_stops_when_the_answer_is_clear(
    monkeypatch: pytest.MonkeyPatch, other: str, ratios: list[float], resolution: float, launches: int
) -> None:
    replay(monkeypatch, launches_of(ratios, other))
    budget = replace(PATIENT, resolution=resolution, enough=0)
    assert len(compared_with(other, budget=budget).launches) == launches


@pytest.mark.parametrize(("other", "launches"), [("baseline", 3), ("reference", 8)])
def test_a_ratio_takes_enough_launches_however_well_they_agree(
    monkeypatch: pytest.MonkeyPatch, other: str, launches: int
) -> None:
    replay(monkeypatch, launches_of([-0.3] * 9, other))
    assert len(compared_with(other, budget=PATIENT).launches) == launches


QUIET, NOISY = [(0.0, False), (0.001, False), (0.002, False)], (0.5, True)


@pytest.mark.parametrize(
    ("noise", "time", "counted", "disturbance"),
    [
        ([NOISY, QUIET[0], NOISY, *QUIET[1:], NOISY], 1e6, [0.0, 0.001, 0.002], None),
        ([*QUIET, NOISY], 1e6, [0.0, 0.001, 0.002], None),
        ([NOISY] * 9, 1e6, [0.5] * 9, Disturbance(9, 9)),  # nothing is known: figures are of all
        ([*[NOISY] * 7, *QUIET[1:]], 1e6, [0.5] * 7 + [0.001, 0.002], Disturbance(7, 9)),
        ([NOISY] * 9, 0.0, [0.5] * 3, Disturbance(3, 3)),  # three times no time
    ],
)
def test_disturbed_launches_are_no_evidence(
    monkeypatch: pytest.MonkeyPatch,
    noise: list[tuple[float, bool]],
    time: float,
    counted: list[float],
    disturbance: Disturbance | None,
) -> None:
    quiet = launches_of(ratio for ratio, _ in noise)
    replay(monkeypatch, (replace(launch, disturbed=noisy) for launch, (_, noisy) in zip(quiet, noise, strict=True)))
    measurement = compared_with("baseline", budget=replace(PATIENT, time=time))
    assert measurement.list_log_ratios("baseline") == counted
    assert measurement.disturbance == disturbance


@pytest.mark.parametrize("crowded", [5, 7])
def test_launches_on_crowded_cores_tell_no_ratio_of_other_kernels(
    monkeypatch: pytest.MonkeyPatch, crowded: int
) -> None:
    """Their threads may work as fewer do throughout, and two launches of three would say so."""
    ratios = [{"reference": -0.3, "baseline": 0.0}] * crowded + [{"reference": -0.7, "baseline": 0.001}] * (9 - crowded)
    walls = {"model": [1.0], "reference": [2.0], "baseline": [1.0]}
    launches = [launched(walls, of_launch, "threads") for of_launch in ratios]
    replay(monkeypatch, (replace(launch, crowded=place < crowded) for place, launch in enumerate(launches)))
    measurement = compared_with("reference", "baseline", budget=PATIENT)
    assert len(measurement.launches) == 9
    assert measurement.list_log_ratios("baseline") == [0.0] * crowded + [0.001] * (9 - crowded)
    assert measurement.disturbance is None
    assert measurement.find_disturbance("baseline") is None
    speedup = build_metrics(measurement, 1)["speedup"]
    if crowded == 5:
        assert measurement.list_log_ratios("reference") == [-0.7] * 4
        assert speedup.disturbance is None
    else:
        assert speedup.disturbance == measurement.find_disturbance("reference") == Disturbance(7, 9)
        assert speedup.interval == Estimate(speedup.value, -math.inf, math.inf)


@pytest.mark.parametrize(
    ("readings", "counted", "disturbance"),
    [
        ([1.4, 1.41, 1.4, 1.42], [-0.3] * 4, None),
        ([2.3, 1.41, 1.4, 2.3, 1.42, 1.4], [-0.3] * 4, None),  # the first did not know that its core was shared
        ([2.3, 1.4] + [2.3] * 7, [-0.3] * 9, Disturbance(8, 9, shared=True)),
    ],
)
def test_a_ratio_of_a_watched_core_takes_few_launches_and_none_of_a_shared_one(
    monkeypatch: pytest.MonkeyPatch, readings: list[float], counted: list[float], disturbance: Disturbance | None
) -> None:
    (launch,) = launches_of([-0.3], "reference")
    replay(monkeypatch, (replace(launch, yardstick=reading) for reading in readings))
    measurement = compared_with("reference", budget=PATIENT)
    assert measurement.list_log_ratios("reference") == counted
    assert measurement.disturbance == disturbance


def test_a_core_that_was_shared_throughout_is_known_by_earlier_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    for reading, disturbance in ((1.4, None), (2.3, Disturbance(9, 9, shared=True)), (1.41, None)):
        (launch,) = launches_of([-0.3], "reference")
        replay(monkeypatch, repeat(replace(launch, yardstick=reading)))
        assert compared_with("reference", budget=PATIENT).disturbance == disturbance


def test_a_model_alone_waits_for_no_quiet_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    replay(monkeypatch, repeat(replace(launched({"model": [1.0]}, {}), disturbed=True)))
    assert len(compared_with(budget=PATIENT).launches) == 3


def test_every_comparison_must_be_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = [0.0, 0.05] * 3
    replay(monkeypatch, (launched({"model": [1.0]}, {"reference": -0.5, "baseline": ratio}) for ratio in ratios))
    budget = replace(PATIENT, launches=(3, 6), enough=0)
    assert len(compared_with("reference", "baseline", budget=budget).launches) == 6


def test_it_stops_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    replay(monkeypatch, launches_of([0.0, 0.05] * 5))
    budget = Budget(0.0, 0.05, (4, 9), 30, 0.0)
    assert len(compared_with("baseline", budget=budget).launches) == 4


@pytest.mark.parametrize(
    ("ratios", "launches"),
    [
        ([0.0, 0.05] * 5, 8),  # half way: so many more would decide nothing
        ([0.01, 0.07] * 5, 10),  # two more would, and do
        ([0.01, 0.07] * 4 + [-0.08, 0.08] * 4, 9),  # they would have
        ([0.0, 0.001, -0.001], 3),
    ],
)
def test_time_is_not_up_before_there_are_enough(
    monkeypatch: pytest.MonkeyPatch, ratios: list[float], launches: int
) -> None:
    """Three launches of a slow model take all of the time, and decide little."""
    replay(monkeypatch, launches_of(ratios))
    budget = Budget(0.0, 0.05, (3, 30), 30, 0.0, enough=8)
    assert len(compared_with("baseline", budget=budget).launches) == launches


def test_more_launches_are_promising_up_to_twice_as_many() -> None:
    """A mean that decides with one count of launches and not with one less, of the same spread."""
    budget = Budget(0.0, 0.05, (3, 30), 30, 0.0, enough=8)
    for enough, less in ((16, 15), (9, 8)):
        means = (step / 1e5 for step in range(5000))
        mean = next(mean for mean in means if _clear(enough, mean) and not _clear(less, mean))
        assert measurement.is_promising({"baseline": Evidence(less, mean, 0.04)}, budget)
    means = (step / 1e5 for step in range(5000))
    late = next(mean for mean in means if _clear(17, mean) and not _clear(16, mean))
    assert not measurement.is_promising({"baseline": Evidence(15, late, 0.04)}, budget)


def _clear(count: int, mean: float) -> bool:
    return Evidence(count, mean, 0.04).answer(math.log1p(0.05)) != "undecided"


def test_every_launch_has_the_method_of_the_first_and_its_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ratios of different methods cannot be pooled; 24 s, half for ABBA blocks, for 4 launches against 2 others."""
    calls: list[tuple[Pace, Method | None]] = []
    warm = {"model": 0.1, "reference": 0.4}

    def launch(
        _cases: object, pace: Pace, _random: object, _start: object, method: Method | None, _watch: object
    ) -> Launch:
        calls.append((pace, method))
        result = launched({"model": [1.0], "reference": [1.0]}, {"reference": 0.0, "baseline": 0.0}, "process")
        sessions = {name: replace(session, warm=warm[name]) for name, session in result.sessions.items()}
        return replace(result, sessions=sessions)

    monkeypatch.setattr(measurement, "run_launch", launch)
    compared_with("reference", "baseline", budget=Budget(24.0, 0.05, (4, 4), 30, 0.1, alone=8.0))
    assert [method for _, method in calls] == [None, "process", "process", "process"]
    first = Pace(warmup=0.1, samples=8, alone=2.0, abba_seconds=1.5, error=0.4 * 0.05, longest=2.0)
    later = replace(first, warmup=0.4, longest=0.0)  # the time after which both models were warm
    assert [pace for pace, _ in calls] == [first, later, later, later]


def test_time_spent_waiting_does_not_count_up_to_three_times_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A launch takes 10 s, of which the models waited 8: 12 s without waiting are 6 launches, but 36 s in all 4."""
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(measurement, "PressureGauge", Quiet)
    monkeypatch.setattr(measurement, "FEWEST", 2)
    for waiting, launches in ((0.8, 4), (0.0, 2), (None, 2)):
        replay(monkeypatch, [replace(launch, waiting=waiting) for launch in launches_of([0.0, 0.05] * 5)])
        assert len(compared_with("baseline", budget=Budget(12.0, 0.05, (2, 9), 30, 0.0)).launches) == launches


@pytest.mark.parametrize(
    ("readings", "launches", "disturbance"),
    [
        ([1.4, 2.3, 2.3, 1.4, 2.3, 1.4], 6, None),  # the sixth launch is the third that counts
        ([1.4] + [2.3] * 9, 9, Disturbance(8, 9, shared=True)),
    ],
)
def test_a_disturbed_measurement_takes_up_to_three_times_as_long(
    monkeypatch: pytest.MonkeyPatch, readings: list[float], launches: int, disturbance: Disturbance | None
) -> None:
    """With launches of 10 s, 30 s were three launches. Most comparisons on a shared core ended undecided so."""
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(measurement, "PressureGauge", Quiet)
    (launch,) = launches_of([-0.3], "reference")
    replay(monkeypatch, (replace(launch, yardstick=reading) for reading in readings))
    result = compared_with("reference", budget=Budget(30.0, 0.05, (3, 20), 30, 0.0))
    assert (len(result.launches), result.disturbance) == (launches, disturbance)


class Quiet:
    def read(self) -> Pressure:
        return Pressure(None, None)
