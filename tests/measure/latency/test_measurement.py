"""Real launches of a tiny model: what is measured, in which way, and when it stops. No time is asserted."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from orun.core.metrics import Disturbance
from orun.core.targets import Target
from orun.environment.processor import usable_cores
from orun.errors import UsageError
from orun.measure.latency import abba_blocks, measurement
from orun.measure.latency.abba_blocks import Launch, Method, Pace, launch
from orun.measure.latency.cpu_time import Times, Work
from orun.measure.latency.measurement import Budget, measure
from orun.measure.latency.pressure import Pressure
from orun.measure.latency.sequential_test import Evidence
from orun.measure.workers import Worker
from tests.measure.support import ALONE, launched, save_model, shared, subject

QUICK = Budget(time=0.0, resolution=0.05, launches=(3, 3), samples=30, warmup=0.0)
PACE = Pace(warmup=0.0, samples=6, alone=1.0, quads=0.2)
SILENT = Random(0)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return save_model(tmp_path / "model.onnx")


def test_a_launch_compares_with_each_other_model(model: Path) -> None:
    slower = save_model(model.with_name("slower.onnx"), layers=8)
    subjects = {"model": subject(slower), "reference": subject(model), "baseline": subject(model)}
    found = launch(subjects, PACE, Random(1))
    assert found.method == "thread"
    assert set(found.opened) == set(found.beside) == set(found.busy) == set(subjects)
    assert set(found.ratios) == set(found.pairs) == {"reference", "baseline"}
    for name, values in found.pairs.items():
        assert 2 * abba_blocks.FEWEST_QUADS <= len(values) <= 2 * abba_blocks.MOST_QUADS
        assert found.ratios[name] == np.median(values)
    assert found.alone.wall.shape == (6,)
    assert found.waiting is None or found.waiting >= 0


class Recorder:
    """A worker that notes when it was asked, and takes one time or another."""

    def __init__(self, name: str, order: list[str], waits: Sequence[float] = (0.0,)) -> None:
        self.name, self.order, self.waits = name, order, waits

    def time(self, count: int) -> Times:
        waited = self.waits[len(self.order) % len(self.waits)]
        self.order.append(self.name)
        taken = np.full(count, 1.0 + len(self.order) % 3)
        return Times(taken, taken, taken, waited * float(taken.sum()))


def rounds_of(names: Sequence[str], *, resting: bool = False) -> tuple[list[abba_blocks.Round], list[str]]:
    """The quads of models whose inferences seem to take 0.1 s, in blocks of two, and who was asked in which order."""
    order: list[str] = []
    workers = {name: Recorder(name, order) for name in names}
    pace = replace(PACE, quads=12.0, error=-1.0)  # never known well enough
    counts = dict.fromkeys(names, 2)
    rounds = abba_blocks._Rounds(workers, counts, "thread", pace, Random(3), resting=resting)  # type: ignore[arg-type]
    opened = replace(launched({"model": [1.0]}, {}).opened["model"], each=0.1)
    return rounds.run(dict.fromkeys(names, opened)), order


def test_blocks_of_a_quad_mirror_one_another_and_either_model_begins() -> None:
    """So that a drift cancels, and neither has the better place."""
    found, order = rounds_of(("model", "baseline"))
    assert len(found) == 15  # of 0.8 s
    assert [name for _, blocks in found for name, _ in blocks] == order
    asked = [tuple(order[start : start + 4]) for start in range(0, len(order), 4)]
    assert set(asked) == {("model", "baseline", "baseline", "model"), ("baseline", "model", "model", "baseline")}


def test_beside_a_reference_a_block_counts_after_one_that_warms_the_caches() -> None:
    """Else the faster of the two is slowed down by what the slower one left in them."""
    found, order = rounds_of(("model", "baseline", "reference"))
    assert Counter(other for other, _ in found) == {"baseline": 15, "reference": 8}  # of 1.4 s
    expected = []
    for other, blocks in found:
        names = [name for name, _ in blocks]
        first, second = names[:2]
        assert names == [first, second, second, first]
        assert {first, second} == {"model", other}
        expected += names if other == "baseline" else [first, first, second, second, second, first, first]
    assert order == expected
    ends = itertools.accumulate(4 if other == "baseline" else 7 for other, _ in found)  # blocks timed by then
    assert [blocks[-1][1].wall[0] for _, blocks in found] == [1.0 + end % 3 for end in ends]


def test_what_runs_until_threads_have_parted_takes_its_time() -> None:
    found, order = rounds_of(("model", "baseline"), resting=True)
    assert len(found) == 9  # of a rounding error more than 1.2 s: in each block an inference of 0.1 s comes before
    assert len(order) == 36


def quads_of(waits: Sequence[float | None], method: Method = "threads", *, resting: bool = True) -> list[str]:
    """The pairs that count of quads in which threads waited for such shares of the time of each block."""
    taken = np.ones(2)
    blocks = [("model", Times(taken, taken, taken, None if share is None else 2 * share)) for share in waits]
    rounds: list[abba_blocks.Round] = [(f"quad {at}", blocks[at : at + 4]) for at in range(0, len(blocks), 4)]
    made = abba_blocks._Rounds({}, {}, method, PACE, SILENT, resting=resting)
    return [other for other, half in made.counted(rounds) for _ in range(0, len(half), 2)]


def test_on_several_threads_a_pair_counts_only_if_each_had_a_core() -> None:
    """One thread that waits leaves its share to the others: an inference is that of fewer threads."""
    quiet, edge, waited = [0.0, 0.0], [0.1, 0.0], [0.11, 0.0]  # of one block, so of half of the pair
    assert quads_of([*quiet, *waited, *edge, *waited]) == ["quad 0", "quad 4"]
    assert quads_of([*waited, *waited], "wall") == []
    assert quads_of([None, None, None, None]) == ["quad 0"] * 2  # where the kernel does not count
    for method, resting in (("thread", False), ("process", True)):  # CPU time of one thread, whatever it waits
        assert quads_of([*waited, *waited], method, resting=resting) == ["quad 0"] * 2  # type: ignore[arg-type]


def test_quads_go_on_until_enough_pairs_count() -> None:
    order: list[str] = []
    waits = [0.0] * 4 + [0.5] * 4  # every other quad is disturbed
    workers = {name: Recorder(name, order, waits) for name in ("model", "baseline")}
    pace = replace(PACE, quads=12.0, error=100.0)  # known well enough as soon as that can be said
    made = abba_blocks._Rounds(workers, dict.fromkeys(workers, 2), "threads", pace, Random(3), resting=True)  # type: ignore[arg-type]
    opened = replace(launched({"model": [1.0]}, {}).opened["model"], each=0.1)
    found = made.run(dict.fromkeys(workers, opened))
    assert len(found) == 2 * abba_blocks.STEADY_QUADS - 1
    assert len(made.counted(found)) == 2 * abba_blocks.STEADY_QUADS


@pytest.mark.parametrize("waits", [0.0, 0.5])
def test_a_launch_with_too_few_pairs_that_count_is_disturbed(
    model: Path, monkeypatch: pytest.MonkeyPatch, waits: float
) -> None:
    """Its figures are then of all pairs."""
    measured = Worker.time

    def time(worker: Worker, count: int, seconds: float = math.inf) -> Times:
        times = measured(worker, count, seconds)
        return replace(times, waited=waits * float(times.wall.sum()))

    monkeypatch.setattr(Worker, "time", time)
    found = launch(dict.fromkeys(("model", "baseline"), shared(model)), PACE, Random(1))
    assert found.disturbed == (waits > 0)
    assert found.waiting == pytest.approx(waits)
    assert len(found.pairs["baseline"]) >= 2 * abba_blocks.FEWEST_QUADS
    assert found.ratios["baseline"] == np.median(found.pairs["baseline"])


def test_nothing_is_warmed_for_a_model_alone() -> None:
    found, order = rounds_of(("model",))
    assert len(order) == 4 * len(found)


def test_a_block_counts_by_the_median_of_its_inferences() -> None:
    def times(*wall: float) -> Times:
        taken = np.array(wall)
        return Times(taken, 0.5 * taken, 0.25 * taken, None)

    ours, theirs = times(0.004, 0.002, 0.001), times(0.001, 0.001, 0.007)
    found: list[abba_blocks.Round] = [("baseline", [("model", ours), ("baseline", theirs)] * 2)]
    for method in ("threads", "wall"):
        assert abba_blocks._pairs(found, "baseline", method) == [math.log(0.002 / 0.001)] * 2
    one = times(0.004, 0.002, 0.001)
    spent: dict[Method, float] = {"threads": 0.001, "wall": 0.002}
    assert {method: abba_blocks._seconds(one, method, 100) for method in spent} == spent


def test_on_one_thread_a_block_counts_by_its_fastest_inferences() -> None:
    """Those after another process had the core find the caches filled with its data."""
    cpu, process = np.array([9.0, *range(8, 28)]), np.array([5.0, *range(4, 24)])
    times = Times(np.ones(21), cpu, process, None)
    assert (abba_blocks._seconds(times, "thread", 10), abba_blocks._seconds(times, "process", 10)) == (9.0, 5.0)
    assert (abba_blocks._seconds(times, "thread", 9), abba_blocks._seconds(times, "process", 9)) == (17.0, 13.0)


def test_the_least_of_four_inferences_is_not_held_against_the_only_one() -> None:
    taken = np.array([0.002, 0.003, 0.003, 0.004])
    one, four = Times(taken[:1], taken[:1], taken[:1], None), Times(taken, taken, taken, None)
    for method in ("thread", "process"):
        assert abba_blocks._log_ratio(four, one, method) == math.log(0.003 / 0.002)


def test_waiting_is_a_share_of_the_time_of_inferences() -> None:
    taken = np.array([0.1, 0.3])
    assert abba_blocks._waiting(Times(taken, 0.5 * taken, taken, waited=0.1)) == 0.25
    assert abba_blocks._waiting(Times(taken, taken, taken, waited=None)) is None


def test_a_launch_ends_when_its_time_is_up_whatever_it_knows(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abba_blocks, "PATIENCE", 0.0)
    pace = replace(PACE, quads=1e6, error=0.0)
    found = launch({"model": subject(model), "baseline": subject(model)}, pace, Random(1))
    assert len(found.pairs["baseline"]) == 2 * abba_blocks.FEWEST_QUADS


def test_a_launch_ends_when_it_knows_enough(model: Path) -> None:
    pace = replace(PACE, quads=1e6, error=100.0)
    found = launch({"model": subject(model), "baseline": subject(model)}, pace, Random(1))
    assert len(found.pairs["baseline"]) == 2 * abba_blocks.STEADY_QUADS


def test_a_model_alone(model: Path) -> None:
    found = launch({"model": subject(model)}, PACE, Random(1))
    assert found.ratios == {}
    assert found.pairs == {}
    assert found.busy["model"] > 0


def test_several_threads_are_timed_by_the_one_that_calls(model: Path) -> None:
    found = launch(dict.fromkeys(("model", "baseline"), shared(model)), PACE, Random(1))
    assert not found.opened["model"].work.alone
    assert (found.method, found.core) == ("threads", None)
    assert found.busy["model"] == np.median(found.beside["model"].cpu)
    assert found.ratios["baseline"] == np.median(found.pairs["baseline"])


def test_more_threads_than_cores_are_timed_by_the_clock_on_the_wall(model: Path) -> None:
    """They keep one another waiting, which is the time of the model."""
    many = Target("cpu", session={"intra_op_num_threads": usable_cores() + 2})
    found = launch({"model": replace(shared(model), target=many)}, PACE, Random(1))
    assert found.opened["model"].work.busy > usable_cores()
    assert found.method == "wall"


SEVERAL = Work(process=2.0, thread=1.0, awake=0.9, most=1.9, busy=2)
ASLEEP = Work(process=2.0, thread=0.9, awake=0.89, most=1.9, busy=2)
CROWDED = replace(SEVERAL, busy=3)
IN_TURN = Work(process=1.0, thread=0.1, awake=0.1, most=0.97, busy=2)


@pytest.mark.parametrize(
    ("work", "processor", "method"),
    [
        (ALONE, True, "thread"),
        (ALONE, False, "thread"),
        (SEVERAL, True, "threads"),
        (SEVERAL, False, "wall"),
        (CROWDED, True, "wall"),
        (ASLEEP, True, "wall"),
        (IN_TURN, True, "process"),
        (IN_TURN, False, "wall"),
    ],
)
def test_the_method_follows_from_what_works(
    monkeypatch: pytest.MonkeyPatch, work: Work, processor: bool, method: str
) -> None:
    monkeypatch.setattr(abba_blocks, "usable_cores", lambda: 2)
    one = launched({"model": [0.01]}, {}).opened["model"]
    opened = {"model": one, "reference": replace(one, work=work, processor=processor)}
    assert abba_blocks.method_of(opened) == method


def test_launches_are_made_and_reported(model: Path) -> None:
    told: list[tuple[int, int, str]] = []
    found = measure({"model": subject(model), "baseline": subject(model)}, QUICK, 7, lambda *what: told.append(what))
    assert len(found.launches) == 3
    assert found.log_ratios("baseline") == [one.ratios["baseline"] for one in found.launches]
    assert [what for _, _, what in told] == ["launch 1", "launch 2", "launch 3"]
    assert all(len(one.alone.wall) >= 1 for one in found.launches)
    assert found.seconds > 0


def test_an_error_of_a_model_ends_the_measurement(model: Path) -> None:
    model.write_bytes(b"no model")
    with pytest.raises(UsageError, match=r"^ONNX Runtime cannot open model.onnx for target 'cpu'"):
        measure({"model": subject(model)}, QUICK, 7, lambda *_: None)


@pytest.mark.parametrize(
    ("other", "ratios", "resolution", "launches"),
    [
        ("baseline", [0.001, -0.001, 0.002], 0.05, 3),  # equal, and sure of it
        ("baseline", [0.05, 0.048, 0.052], 0.05, 3),  # slower, and sure of it
        ("baseline", [0.0, 0.05] * 5, 0.05, 9),  # in the middle until the last
        ("baseline", [0.0, 0.001, 0.002, 0.0, 0.001], 0.03, 3),
        ("reference", [0.0, 0.001, 0.002, 0.0, 0.001], 0.03, 5),  # equal soon, the ratio to half of 3 % later
    ],
)
def test_it_stops_when_the_answer_is_clear(
    monkeypatch: pytest.MonkeyPatch, other: str, ratios: list[float], resolution: float, launches: int
) -> None:
    _replay(monkeypatch, ratios, other)
    budget = Budget(1e6, resolution, (3, 9), 30, 0.0)
    subjects = {"model": subject(Path("a")), other: subject(Path("b"))}
    assert len(measure(subjects, budget, 0, lambda *_: None).launches) == launches


QUIET, NOISY = [(0.0, False), (0.001, False), (0.002, False)], (0.5, True)


@pytest.mark.parametrize(
    ("made", "time", "counted", "disturbance"),
    [
        ([NOISY, QUIET[0], NOISY, *QUIET[1:], NOISY], 1e6, [0.0, 0.001, 0.002], None),
        ([*QUIET, NOISY], 1e6, [0.0, 0.001, 0.002], None),
        ([NOISY] * 9, 1e6, [0.5] * 9, Disturbance(9, 9)),  # nothing is known: figures are of all
        ([*[NOISY] * 7, *QUIET[1:]], 1e6, [0.5] * 7 + [0.001, 0.002], Disturbance(7, 9)),
        ([NOISY] * 9, 0.0, [0.5] * 3, Disturbance(3, 3)),  # more of them would tell no more
    ],
)
def test_disturbed_launches_are_no_evidence(
    monkeypatch: pytest.MonkeyPatch,
    made: list[tuple[float, bool]],
    time: float,
    counted: list[float],
    disturbance: Disturbance | None,
) -> None:
    walls = {"model": [1.0], "baseline": [1.0]}
    launches = iter([replace(launched(walls, {"baseline": ratio}), disturbed=noisy) for ratio, noisy in made])
    monkeypatch.setattr(measurement, "launch", lambda *_: next(launches))
    subjects = {"model": subject(Path("a")), "baseline": subject(Path("b"))}
    found = measure(subjects, Budget(time, 0.05, (3, 9), 30, 0.0, enough=8), 0, lambda *_: None)
    assert found.log_ratios("baseline") == counted
    assert found.disturbance == disturbance


def test_a_model_alone_waits_for_no_quiet_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    made = replace(launched({"model": [1.0]}, {}), disturbed=True)
    monkeypatch.setattr(measurement, "launch", lambda *_: made)
    found = measure({"model": subject(Path("a"))}, Budget(1e6, 0.05, (3, 9), 30, 0.0), 0, lambda *_: None)
    assert len(found.launches) == 3


def test_every_comparison_must_be_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter([launched({"model": [1.0]}, {"reference": -0.5, "baseline": ratio}) for ratio in [0.0, 0.05] * 3])
    monkeypatch.setattr(measurement, "launch", lambda *_: next(made))
    names = {name: subject(Path(name)) for name in ("model", "reference", "baseline")}
    assert len(measure(names, Budget(1e6, 0.05, (3, 6), 30, 0.0), 0, lambda *_: None).launches) == 6


def test_it_stops_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    _replay(monkeypatch, [0.0, 0.05] * 5)
    subjects = {"model": subject(Path("a")), "baseline": subject(Path("b"))}
    assert len(measure(subjects, Budget(0.0, 0.05, (4, 9), 30, 0.0), 0, lambda *_: None).launches) == 4


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
    _replay(monkeypatch, ratios)
    subjects = {"model": subject(Path("a")), "baseline": subject(Path("b"))}
    budget = Budget(0.0, 0.05, (3, 30), 30, 0.0, enough=8)
    assert len(measure(subjects, budget, 0, lambda *_: None).launches) == launches


def test_more_launches_are_promising_up_to_twice_as_many() -> None:
    """A mean that decides with one count of launches and not with one less, of the same spread."""
    budget = Budget(0.0, 0.05, (3, 30), 30, 0.0, enough=8)
    for enough, less in ((16, 15), (9, 8)):
        means = (step / 1e5 for step in range(5000))
        mean = next(mean for mean in means if _clear(enough, mean) and not _clear(less, mean))
        assert measurement._is_promising({"baseline": Evidence(less, mean, 0.04)}, budget)
    means = (step / 1e5 for step in range(5000))
    late = next(mean for mean in means if _clear(17, mean) and not _clear(16, mean))
    assert not measurement._is_promising({"baseline": Evidence(15, late, 0.04)}, budget)


def _clear(count: int, mean: float) -> bool:
    return Evidence(count, mean, 0.04).answer(math.log1p(0.05)) != "undecided"


def test_every_launch_is_made_by_the_way_of_the_first_and_in_its_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ratios of different ways cannot be put together; 24 s, half for quads, for 4 launches against 2 others."""
    given: list[tuple[Pace, Method | None]] = []
    warm = {"model": 0.1, "reference": 0.4}

    def launch(_subjects: object, pace: Pace, _random: Random, method: Method | None) -> Launch:
        given.append((pace, method))
        made = launched({"model": [1.0], "reference": [1.0]}, {"reference": 0.0, "baseline": 0.0}, "process")
        return replace(made, opened={name: replace(one, warm=warm[name]) for name, one in made.opened.items()})

    monkeypatch.setattr(measurement, "launch", launch)
    names = {name: subject(Path(name)) for name in ("model", "reference", "baseline")}
    measure(names, Budget(24.0, 0.05, (4, 4), 30, 0.1, alone=8.0), 0, lambda *_: None)
    assert [method for _, method in given] == [None, "process", "process", "process"]
    first = Pace(warmup=0.1, samples=8, alone=2.0, quads=1.5, error=0.4 * 0.05, longest=2.0)
    later = replace(first, warmup=0.4, longest=0.0)  # the time after which both models were warm
    assert [pace for pace, _ in given] == [first, later, later, later]


def test_time_spent_waiting_for_a_core_counts_up_to_as_long_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch takes 10 s, of which the models waited 8: 12 s without waiting are 6 launches, but 24 s in all 3."""
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    subjects = {"model": subject(Path("a")), "baseline": subject(Path("b"))}
    for waiting, launches in ((0.8, 3), (0.0, 2), (None, 2)):
        names = {"model": [1.0], "baseline": [1.0]}
        made = iter([replace(launched(names, {"baseline": r}), waiting=waiting) for r in [0.0, 0.05] * 5])
        monkeypatch.setattr(measurement, "launch", lambda *_, made=made: next(made))
        monkeypatch.setattr(measurement, "PressureGauge", Quiet)
        monkeypatch.setattr(measurement, "FEWEST", 2)
        assert len(measure(subjects, Budget(12.0, 0.05, (2, 9), 30, 0.0), 0, lambda *_: None).launches) == launches


class Quiet:
    def read(self) -> Pressure:
        return Pressure(None, None)


def _replay(monkeypatch: pytest.MonkeyPatch, ratios: list[float], other: str = "baseline") -> None:
    made = iter([launched({"model": [1.0], other: [1.0]}, {other: ratio}) for ratio in ratios])

    def next_launch(*_: object) -> Launch:
        return next(made)

    monkeypatch.setattr(measurement, "launch", next_launch)
