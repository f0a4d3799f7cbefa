"""The order in which stages may start."""

from __future__ import annotations

from orun.core.source_location import Position
from orun.environment.resources import Resources
from orun.pipeline.model import Stage
from orun.runner.scheduler import Schedule

HERE = Position("p.yaml", 1, 1)


def stage(name: str, *before: str, cpus: int = 1, memory: int | None = None, gpus: int = 0) -> Stage:
    return Stage(name, "kind", HERE, after=before, cpus=cpus, memory=memory, gpus=gpus)


def names(schedule: Schedule) -> list[str]:
    return [stage.id for stage in schedule.list_ready()]


def test_the_longest_way_to_the_end_goes_first() -> None:
    stages = (stage("short"), stage("head"), stage("tail", "head"))
    schedule = Schedule(stages, {"short": 2.0, "head": 0.5, "tail": 3.0}, Resources(2))
    assert names(schedule) == ["head", "short"]


def test_a_stage_is_ready_when_all_before_it_are_settled() -> None:
    schedule = Schedule((stage("a"), stage("b"), stage("c", "a", "b")), {}, Resources(2))
    schedule.settle("a")
    assert names(schedule) == ["b"]
    schedule.settle("b")
    assert names(schedule) == ["c"]


def test_a_running_stage_is_not_offered_again() -> None:
    stages = (stage("a"), stage("b"))
    schedule = Schedule(stages, {}, Resources(2))
    schedule.start(stages[0])
    assert names(schedule) == ["b"]
    assert [stage.id for stage in schedule.running.values()] == ["a"]


def test_cores_bound_what_runs_side_by_side() -> None:
    stages = (stage("a", cpus=2), stage("b"), stage("c", cpus=8))
    schedule = Schedule(stages, {}, Resources(2))
    assert schedule.fits(stages[2]), "a stage that wants more cores than there are runs alone"
    schedule.start(stages[0])
    assert not schedule.fits(stages[1])
    schedule.settle("a")
    schedule.start(stages[1])
    assert not schedule.fits(stages[2])


def test_memory_and_gpus_bound_it_too() -> None:
    big, other, small = stage("big", memory=6), stage("other", memory=4), stage("small", memory=2)
    gpu, second, plain = stage("gpu", gpus=1), stage("second", gpus=1), stage("plain")
    schedule = Schedule((big, other, small, gpu, second, plain), {}, Resources(8, 8, 1))
    schedule.start(big)
    assert [schedule.fits(stage) for stage in (other, small, gpu, plain)] == [False, True, True, True]
    schedule.start(gpu)
    assert [schedule.fits(stage) for stage in (second, plain, small)] == [False, True, True]
    schedule.settle("big")
    assert [schedule.fits(stage) for stage in (second, other)] == [False, True]


def test_stages_that_have_become_ready_are_told_once() -> None:
    schedule = Schedule((stage("a"), stage("b"), stage("c", "a")), {}, Resources(1))
    assert [stage.id for stage in schedule.drain_new()] == ["a", "b"]
    assert schedule.drain_new() == ()
    schedule.settle("a")
    assert schedule.has_new
    assert [stage.id for stage in schedule.drain_new()] == ["c"]


def test_a_queue_is_left_at_the_first_stage_that_cannot_start() -> None:
    wide = [stage(f"w{number}", cpus=2) for number in range(3)]
    small = [stage(f"s{number}") for number in range(3)]
    seconds = {"w0": 9.0, "s0": 8.0, "w1": 7.0, "s1": 6.0, "w2": 5.0, "s2": 4.0}
    schedule = Schedule((*wide, *small), seconds, Resources(3), queue_of=lambda item: item.cpus)
    offered = []

    def start(item: Stage) -> bool:
        offered.append(item.id)
        if schedule.fits(item):
            schedule.start(item)
        return not schedule.is_ready(item.id)

    schedule.offer(start)
    assert offered == ["w0", "s0", "w1", "s1"], "the longest remaining path first, over all queues"
    assert [item.id for item in schedule.running.values()] == ["w0", "s0"]


def test_stages_move_to_other_queues_when_machines_change() -> None:
    fast: set[str] = set()
    schedule = Schedule((stage("a"), stage("b")), {}, Resources(2), queue_of=lambda item: item.id in fast)
    fast.add("b")
    schedule.sort_again()
    assert sorted(names(schedule)) == ["a", "b"]
    schedule.settle("b")
    assert names(schedule) == ["a"]


def test_stages_outside_the_run_do_not_hold_others_back() -> None:
    schedule = Schedule((stage("b", "elsewhere"),), {}, Resources(1))
    assert names(schedule) == ["b"]


def test_a_long_chain_needs_no_recursion() -> None:
    chain = [stage("0"), *(stage(str(i), str(i - 1)) for i in range(1, 10_000))]
    schedule = Schedule(tuple(chain), {}, Resources(1))
    for link in chain:
        assert names(schedule) == [link.id]
        schedule.start(link)
        schedule.settle(link.id)
    assert schedule.finished


def test_what_was_settled_or_started_meanwhile_is_no_news() -> None:
    """A stage that is settled twice would offer the one after it twice, and that would start twice."""
    schedule = Schedule((stage("a"), stage("b"), stage("c", "a")), {}, Resources(2))
    schedule.settle("a")
    schedule.start(schedule.list_ready()[0])
    assert [stage.id for stage in schedule.drain_new()] == [stage.id for stage in schedule.list_ready()]
    assert not schedule.has_new
