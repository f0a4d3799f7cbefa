"""Runs on several machines: a fleet of invented machines builds, loses, refuses and fails stages."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from orun import api
from orun.agent.local_machine import identify_store
from orun.cli.explain import format_step as explain_lines
from orun.cli.plan import format_plan as plan_lines
from orun.core.events import Notice, StageStarted
from orun.core.machines import Leaving
from orun.core.run_record import RunResult
from orun.errors import NoMachine, UsageError
from orun.fs.digests import digest_bytes
from orun.planning.assignment import SAME_STORE
from orun.report.stages import format_stage_table
from orun.report.terminal import Terminal
from orun.store import Store
from orun.text.suggestions import show_path
from tests.project import Project, built, failure_of, outcomes
from tests.runner.fleet import (
    SNAPSHOT,
    FakeFleet,
    build,
    build_damaged,
    fail,
    hand_back,
    lack,
    lose,
    push_nothing,
    refuse,
)
from tests.thin import mostly_slow

WIDE = """
name: text
stages:
  make: {uses: ./stages.py:make}
  a: {uses: ./stages.py:upper, needs: make, with: {mark: a}}
  b: {uses: ./stages.py:upper, needs: make, with: {mark: b}}
  c: {uses: ./stages.py:upper, needs: make, with: {mark: c}}
  d: {uses: ./stages.py:upper, needs: make, with: {mark: d}}
"""
LABELLED = """
name: text
stages:
  make: {uses: ./stages.py:make}
  upper: {uses: ./stages.py:upper, needs: make, runs_on: {accelerator: T4}}
  count: {uses: ./stages.py:count, needs: upper}
"""
JOINED = """
name: text
stages:
  first: {uses: ./stages.py:make}
  largest: {uses: ./stages.py:upper, needs: first}
  other: {uses: ./stages.py:upper, needs: first, with: {mark: o}}
  join: {uses: ./join.py:join, needs: {left: largest, right: other}, with: {mark: j}}
"""
PATHS = """
name: text
stages:
  alone: {uses: ./stages.py:make}
  head: {uses: ./stages.py:make, with: {text: other}}
  middle: {uses: ./stages.py:upper, needs: head}
  tail: {uses: ./stages.py:upper, needs: middle}
  end: {uses: ./stages.py:upper, needs: tail}
"""
JOIN = """
from orun import stage


@stage(inputs={"left": "files", "right": "files"}, output="files")
def join(context, *, mark: str):
    (context.output / "text").write_text(mark)
"""
RELEASE = """
from orun import stage


@stage(inputs={"text": "files"}, output="files", releases=True)
def pack(context):
    (context.output / "text").write_text("packed " + (context.inputs["text"] / "text").read_text())
"""
MEASURED = """
name: text
stages:
  make: {uses: ./stages.py:make}
  count: {uses: ./measure.py:count, needs: make, runs_on: {accelerator: T4}}
"""
MEASURE = """
from orun import stage


@stage(inputs={"text": "files"}, output="files", stage_class="measurement")
def count(context):
    (context.output / "text").write_text(str(len((context.inputs["text"] / "text").read_text())))
"""
OTHER = "machine old runs another orun than this one"
MACHINES = {"builder": {"role": "builder"}, "bench": {"accelerator": "T4"}, "bench-b": {"accelerator": "T4"}}


class Fixture:
    """A project, its fleet, and the remote that they share."""

    def __init__(self, folder: Path, pipeline: str = LABELLED) -> None:
        self.project = Project.make(folder / "project", pipeline)
        self.fleet = FakeFleet(self.project.folder / "pipeline.yaml", folder / "agents", MACHINES)
        self.remote = f"file://{folder}/remote"

    def run(self, **options: Any) -> RunResult:
        """Run on the fleet."""
        return self.project.run(executor=self.fleet, remote=self.remote, **options)

    def notices(self) -> list[str]:
        """The notices of the last run, but for the traffic of the remote."""
        texts = [event.text for event in self.project.events if isinstance(event, Notice)]
        return [text for text in texts if not text.startswith("remote ")]


@pytest.fixture(autouse=True)
def snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """No snapshot is taken: the machines have the project itself."""
    monkeypatch.setattr("orun.agent.fleet_planning.share_project", lambda *_, **__: SNAPSHOT)


@pytest.fixture
def on(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path)


def test_each_stage_runs_on_a_machine_with_its_labels(on: Fixture) -> None:
    result = on.run()
    assert result.exit_code == 0
    assert outcomes(result) == {"make": "built", "upper": "built", "count": "built"}
    assert on.fleet.orders == [("make", "builder"), ("upper", "bench"), ("count", "bench")], "where its input was built"
    assert on.project.text("count") == "count on bench"
    assert [result[name].machine for name in ("make", "upper", "count")] == ["builder", "bench", "bench"]
    started = [event for event in on.project.events if isinstance(event, StageStarted)]
    assert [event.machine for event in started] == ["builder", "bench", "bench"]
    assert Path(started[0].log).read_text() == "built on builder\n"
    assert on.notices() == []
    assert on.fleet.closed >= 1


def test_a_result_of_any_machine_is_reused(on: Fixture) -> None:
    on.run()
    on.fleet.labels = {"new": {"accelerator": "T4"}}
    again = on.run()
    assert outcomes(again) == {"make": "cached", "upper": "cached", "count": "cached"}
    assert len(on.fleet.orders) == 3
    on.fleet.drivers["new"] = "581.0"
    assert built(on.run()) == ["make", "upper", "count"], "the key has the facts of the machine"


@pytest.mark.slow
def test_a_wide_pipeline_uses_every_machine(tmp_path: Path) -> None:
    on = Fixture(tmp_path, WIDE)
    on.fleet.cores = 1
    assert on.run().exit_code == 0
    machines = {machine for stage, machine in on.fleet.orders if stage != "make"}
    assert machines == set(MACHINES)
    assert set(on.fleet.busiest.values()) == {1}


def test_a_stage_goes_where_most_of_its_inputs_are_if_nothing_else_decides(tmp_path: Path) -> None:
    on = Fixture(tmp_path, JOINED)
    on.project.write("join.py", JOIN)
    on.fleet.labels = {"a": {}, "b": {}, "c": {}}
    on.fleet.cores = 1
    on.run()
    (largest,) = on.fleet.machine_of("largest")
    assert on.fleet.machine_of("join") == [largest], "built in this run"
    on.project.edit("pipeline.yaml", "mark: j", "mark: k")
    on.run()
    assert on.fleet.machine_of("join") == [largest, largest], "built in an earlier run"


@pytest.mark.slow
def test_the_longest_remaining_path_goes_first(tmp_path: Path) -> None:
    on = Fixture(tmp_path, PATHS)
    on.fleet.labels = {"a": {}}
    on.fleet.cores = 1
    on.run()
    assert [stage for stage, _ in on.fleet.orders][:3] == ["head", "middle", "tail"], "a chain before a lone stage"


@pytest.mark.slow
def test_files_of_results_that_only_machines_need_stay_in_the_remote(on: Fixture) -> None:
    result = on.run()
    assert result.exit_code == 0
    store = Store.open(on.project.store)
    here = {stage.stage: not store.check(stage.tree) for stage in result.stages}
    assert here == {"make": False, "upper": False, "count": True}
    assert (result["make"].out, Path(result["count"].out).name) == ("", "count")
    assert not (on.project.store / "out" / "text" / "make").exists()
    again = on.run()
    assert outcomes(again) == {"make": "cached", "upper": "cached", "count": "cached"}
    assert on.notices() == []
    assert len(on.fleet.orders) == 3


def test_a_measurement_builds_on_nothing(on: Fixture) -> None:
    kind, measures = '@stage(inputs={"text": "files"}, output="files")', 'output="metrics", metrics=["words"])'
    on.project.edit("stages.py", f"{kind}\ndef count", f'@stage(inputs={{"text": "files"}}, {measures}\ndef count')
    result = on.run()
    assert [Path(stage.out).name for stage in result.stages] == ["", "upper", "count"]


@pytest.mark.slow
def test_a_result_that_is_asked_for_is_fetched(on: Fixture) -> None:
    on.run()
    result = on.run(only=["make"])
    assert outcomes(result) == {"make": "cached"}
    assert on.project.text("make") == "make on builder"


@pytest.mark.slow
def test_what_is_gone_from_the_remote_is_built_again(on: Fixture) -> None:
    on.run()
    shutil.rmtree(on.remote.removeprefix("file://"))
    shutil.rmtree(on.fleet.folder)
    on.project.edit("pipeline.yaml", "uses: ./stages.py:upper", "uses: ./stages.py:upper, with: {mark: m}")
    result = on.run()
    assert built(result) == ["make", "upper"]
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "drivers", mostly_slow([{}, {"a": "580.0"}], {"a": "580.0"}), ids=["equal machines", "different machines"]
)
def test_what_is_gone_from_the_remote_is_pushed_by_the_machine_that_has_it(
    tmp_path: Path, drivers: dict[str, str]
) -> None:
    on = Fixture(tmp_path, JOINED)
    on.project.write("join.py", JOIN)
    on.fleet.labels, on.fleet.gone = {"b": {}, "a": {}}, {"b"}
    on.fleet.cores, on.fleet.drivers = 1, drivers
    on.run()
    on.fleet.gone = set()
    shutil.rmtree(on.remote.removeprefix("file://"))
    assert on.run().exit_code == 0
    assert [on.fleet.machine_of(name) for name in ("first", "largest", "other")] == [["a", "a"]] * 3


@pytest.mark.slow
def test_an_earlier_output_of_a_result_that_stays_away_is_removed(on: Fixture) -> None:
    on.run(only=["make"])
    assert on.project.text("make") == "make on builder"
    on.project.edit("stages.py", "write_text(text)", 'write_text(text + " ")')
    on.fleet.gone = {"builder"}
    result = on.run()
    assert (result["make"].machine, result["make"].out) == ("bench", "")
    assert on.notices() == ["make: its earlier output was removed from out/; the new one is in the remote"]
    assert not (on.project.store / "out" / "text" / "make").exists()


@pytest.mark.slow
def test_a_local_run_fetches_what_was_left_in_the_remote(on: Fixture) -> None:
    on.run()
    result = on.project.run(remote=on.remote)
    assert outcomes(result) == {"make": "cached", "upper": "cached", "count": "cached"}
    assert on.project.text("make") == "make on builder"


def test_a_lost_machine_is_replaced_and_said(on: Fixture) -> None:
    on.fleet.answers["upper"] = [lose]
    result = on.run()
    assert result.exit_code == 0
    assert on.fleet.machine_of("upper") == ["bench", "bench-b"]
    assert result["upper"].machine == "bench-b"
    (notice,) = on.notices()
    assert notice.startswith("machine bench was lost after ")
    assert notice.endswith(" (no answer for 15 s); upper starts again on bench-b (1 of 2)")


def test_a_stage_is_lost_with_three_machines_at_most(on: Fixture) -> None:
    on.fleet.answers["make"] = [lose, lose, lose]
    on.fleet.labels = {**MACHINES, "more": {"accelerator": "T4"}}
    result = on.run()
    assert (result.exit_code, outcomes(result)) == (3, {"make": "failed", "upper": "blocked", "count": "blocked"})
    failure = failure_of(result, "make")
    assert (failure.error, failure.problem) == ("MachineLost", "make was lost with 3 machines: builder, bench, bench-b")


def test_the_last_machine_with_a_label_is_lost(on: Fixture) -> None:
    on.fleet.answers["upper"] = [lose, lose]
    result = on.run()
    failure = failure_of(result, "upper")
    assert failure.problem.startswith("machine bench-b was lost after ")
    assert failure.why == "no machine has accelerator=T4 (1 is here: no accelerator)"


def test_the_last_machine_for_a_measurement_is_lost(tmp_path: Path) -> None:
    on = Fixture(tmp_path, MEASURED)
    on.project.write("measure.py", MEASURE)
    on.fleet.answers["count"] = [lose, lose]
    failure = failure_of(on.run(), "count")
    assert failure.why == "no machine has accelerator=T4 (1 is here: no accelerator)"


@pytest.mark.slow
def test_a_stage_that_a_machine_hands_back_is_not_counted_as_lost(on: Fixture) -> None:
    on.fleet.answers["upper"] = [hand_back, lose, hand_back]
    on.fleet.labels = MACHINES | {name: {"accelerator": "T4"} for name in ("c", "d")}
    result = on.run()
    assert result.exit_code == 0
    assert len(set(on.fleet.machine_of("upper"))) == 4
    assert "machine bench did not start upper (its agent stops); upper starts again on bench-b" in on.notices()


@pytest.mark.slow
def test_a_machine_that_leaves_gets_no_more_orders(on: Fixture) -> None:
    on.fleet.answers["make"] = [lambda fleet, order, machine: [Leaving("bench"), *build(fleet, order, machine)]]
    assert on.run()["upper"].machine == "bench-b"
    assert on.notices() == ["machine bench takes no more stages: its agent stops"]


@pytest.mark.slow
def test_a_result_of_a_machine_that_is_gone_meanwhile_counts(tmp_path: Path) -> None:
    on = Fixture(tmp_path, WIDE)
    on.fleet.labels = {"builder": {}, "bench": {}}

    def build_and_end(fleet: FakeFleet, order: Any, machine: str) -> Any:
        _, *lost = lose(fleet, order, machine)
        return [*build(fleet, order, machine), *lost]

    on.fleet.answers["a"] = [build_and_end]
    result = on.run()
    assert (result.exit_code, set(outcomes(result).values())) == (0, {"built"})


@pytest.mark.slow
def test_a_machine_that_joins_is_used_unless_it_has_the_store_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orun.runner.orders.LOOK_SECONDS", 0.0)
    on = Fixture(tmp_path, WIDE)
    on.fleet.cores, on.fleet.gone = 1, {"bench", "bench-b"}

    def join(fleet: FakeFleet, order: Any, machine: str) -> Any:
        fleet.gone.clear()
        fleet.stores["bench"] = identify_store(on.project.store)
        return build(fleet, order, machine)

    on.fleet.answers["make"] = [join]
    assert on.run().exit_code == 0
    assert {machine for _, machine in on.fleet.orders} == {"builder", "bench-b"}
    assert on.notices() == [SAME_STORE.format(machine="bench"), "machine bench-b has joined"]


@pytest.mark.slow
def test_a_stage_waits_during_a_run_for_a_machine_that_joins(on: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orun.runner.orders.LOOK_SECONDS", 0.05)

    def lose_for_a_while(fleet: FakeFleet, order: Any, machine: str) -> Any:
        Timer(0.3, fleet.gone.discard, [machine]).start()
        return lose(fleet, order, machine)

    on.fleet.answers["upper"] = [lose, lose_for_a_while]
    result = on.run(wait=60.0)
    assert result.exit_code == 0
    assert on.fleet.machine_of("upper") == ["bench", "bench-b", "bench-b"]
    assert "waiting for a machine: upper: no machine has accelerator=T4 (1 is here: no accelerator)" in on.notices()
    assert on.notices()[-1].endswith(" (no answer for 15 s); upper starts again on bench-b (2 of 2)")


@pytest.mark.slow
def test_a_stage_waits_no_longer_than_it_may(on: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orun.runner.orders.LOOK_SECONDS", 0.05)
    on.fleet.answers["upper"] = [lose, lose]
    failure = failure_of(on.run(wait=0.1), "upper")
    assert failure.why == "no machine has accelerator=T4 (1 is here: no accelerator)"


@pytest.mark.slow
def test_changed_facts_are_planned_with_again(on: Fixture) -> None:
    on.fleet.answers["upper"] = [refuse]
    result = on.run()
    assert result.exit_code == 0
    assert on.fleet.machine_of("upper") in (["bench", "bench"], ["bench", "bench-b"])
    (notice,) = on.notices()
    assert notice.startswith("upper on bench: ")
    assert "580.0 -> 580.5" in notice
    assert notice.endswith("; planning again")


def test_a_machine_that_always_refuses_fails_the_stage(on: Fixture) -> None:
    on.fleet.labels = {"bench": {"accelerator": "T4"}}
    on.fleet.answers["upper"] = [refuse] * 4
    result = on.run()
    failure = failure_of(result, "upper")
    assert failure.problem == "bench refuses upper: what it depends on changes there all the time"
    assert len(on.fleet.machine_of("upper")) == 4


def test_a_failed_stage_has_the_error_and_the_log_of_its_machine(on: Fixture) -> None:
    on.fleet.answers["upper"] = [fail]
    result = on.run()
    assert (result.exit_code, outcomes(result)) == (3, {"make": "built", "upper": "failed", "count": "blocked"})
    failure = failure_of(result, "upper")
    assert (failure.error, failure.problem) == ("StageFailed", "upper raised ValueError: no")
    assert Path(failure.log).read_text() == "Traceback\n"
    assert result["upper"].machine == "bench"


def test_the_command_that_runs_a_failed_stage_alone_names_its_machines(
    on: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them the stage ran on this machine, where it need not fail; settings name them without an option."""
    monkeypatch.setattr("orun.agent.fleet_planning.open_fleet", lambda _: on.fleet)
    file, store = (show_path(str(path)) for path in (on.project.folder / "pipeline.yaml", on.project.store))
    command = f"orun {file} --only upper --store {store}"
    options = f" --on unix:///a.sock --remote {on.remote}"

    def read_command() -> str:
        on.fleet.answers["upper"] = [fail]
        failure = failure_of(on.project.run(executor="unix:///a.sock", remote=on.remote), "upper")
        advice, log, alone = failure.hint.splitlines()
        assert (advice, log) == ("Ship it", f"Its log: {show_path(failure.log)}")
        assert (failure.advice, alone) == ("Ship it", f"Run it alone: {failure.command}")
        return failure.command

    assert read_command() == f"{command}{options}"
    monkeypatch.setenv("ORUN_ON", "unix:///a.sock")
    monkeypatch.setenv("ORUN_REMOTE", on.remote)
    assert read_command() == command


def test_a_stage_without_a_machine_ends_the_run_before_it_starts(on: Fixture) -> None:
    on.fleet.labels = {"a": {"accelerator": "A10"}, "b": {}, "c": {}}
    with pytest.raises(NoMachine) as caught:
        on.run()
    assert caught.value.exit_code == 3
    assert str(caught.value) == (
        "upper: no machine has accelerator=T4 (3 are here: A10, no accelerator x2)\n"
        "  hint: start one with: orun agent --listen URL --label accelerator=T4, or wait for one: --wait 30m"
    )
    assert on.fleet.orders == []
    assert on.fleet.closed == 1
    on.fleet.news = [Notice("warning", OTHER)]
    with pytest.raises(NoMachine) as caught:
        on.run()
    assert str(caught.value) == (
        "upper: no machine has accelerator=T4 (3 are here: A10, no accelerator x2)\n"
        f"  {OTHER}\n"
        "  hint: start one with: orun agent --listen URL --label accelerator=T4, or wait for one: --wait 30m"
    )
    assert on.run(only=["make"]).exit_code == 0, "it is not asked for"


def test_a_run_waits_for_a_machine(on: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    on.fleet.gone = {"bench", "bench-b"}
    monkeypatch.setattr("orun.agent.fleet_planning.sleep", lambda _: on.fleet.gone.clear())
    assert on.run(wait=60.0).exit_code == 0
    assert on.notices() == ["waiting for a machine: upper: no machine has accelerator=T4 (1 is here: no accelerator)"]


def test_what_a_machine_lacks_sends_a_stage_to_another(on: Fixture) -> None:
    on.fleet.missing["bench", "upper"] = "stage 'upper' needs onnx, which is not installed"
    on.run()
    assert on.fleet.machine_of("upper") == ["bench-b"]
    on.fleet.missing["bench-b", "upper"] = "none"
    with pytest.raises(NoMachine, match="upper: no machine can run it: bench: stage 'upper' needs onnx, "):
        on.run(force=["upper"])


def test_a_forced_stage_is_ordered_anew(on: Fixture) -> None:
    on.run()
    assert built(on.run(force=["make"])) == ["make"], "the others find the same input"


def test_a_release_is_built_on_this_machine_and_said(on: Fixture) -> None:
    on.project.write("release.py", RELEASE)
    on.project.edit("pipeline.yaml", "  count:", "  pack: {uses: ./release.py:pack, needs: upper}\n  count:")
    result = on.run()
    assert (result.exit_code, result["pack"].machine) == (0, "")
    assert on.project.text("pack") == "packed upper on bench"
    assert on.notices() == [
        "pack runs on this machine: it releases, and its inputs and credentials are on this machine"
    ]


def test_a_remote_is_needed(on: Fixture) -> None:
    with pytest.raises(UsageError, match="a run on several machines needs a remote store"):
        on.project.run(executor=on.fleet)
    assert on.fleet.orders == []


def test_a_result_that_does_not_arrive_fails_the_stage(on: Fixture) -> None:
    on.fleet.answers["make"] = [push_nothing] * 3
    failure = failure_of(on.run(), "make")
    assert failure.problem == "make was built on bench, and its result did not arrive from the remote"


def test_a_result_that_was_damaged_on_the_way_is_pushed_again(on: Fixture) -> None:
    on.fleet.answers["make"] = [build_damaged]
    result = on.run(only=["make"])
    assert (result.exit_code, on.fleet.machine_of("make")) == (0, ["builder", "builder"])
    refused, again = on.notices()
    assert refused.startswith("make: refused from the remote: objects/")
    problem = "make was built on builder, and its result did not arrive from the remote"
    assert again == f"{problem}; make starts again on builder"


def test_a_machine_whose_result_does_not_arrive_twice_is_replaced(on: Fixture) -> None:
    on.fleet.answers["make"] = [push_nothing] * 2
    assert on.run(only=["make"]).exit_code == 0
    assert on.fleet.machine_of("make") == ["builder", "builder", "bench"]


@pytest.mark.slow
def test_an_input_that_was_damaged_on_the_way_is_pushed_again(on: Fixture) -> None:
    on.fleet.answers["upper"] = [lack, lack]
    tree = Store.open(on.project.store).read_tree(on.run(only=["make"])["make"].tree)
    assert tree
    assert on.run(to=["upper"]).exit_code == 0
    for digest in tree.objects:
        path = Path(on.remote.removeprefix("file://"), "objects", digest[:2], digest[2:])
        assert digest_bytes(path.read_bytes()) == digest
    assert on.notices() == [
        *["bench did not get the result of make; it is pushed again"] * 2,
        "machine bench gets no more stages: transfers for upper failed there twice",
    ]
    assert on.fleet.machine_of("upper") == ["bench", "bench", "bench-b"]


@pytest.mark.slow
def test_a_machine_stays_if_transfers_for_a_stage_failed_at_another_one(on: Fixture) -> None:
    on.fleet.labels = MACHINES | {"c": {"accelerator": "T4"}}
    on.fleet.answers["upper"] = [lack, lose, lack]
    on.run(only=["make"])
    assert on.run(to=["upper"]).exit_code == 0
    assert on.fleet.machine_of("upper") == ["bench", "bench", "bench-b", "bench-b"]


@pytest.mark.slow
def test_an_input_that_is_on_another_machine_is_pushed_again_by_that(on: Fixture) -> None:
    on.fleet.answers["upper"] = [lack]
    result = on.run()
    assert (result.exit_code, on.fleet.machine_of("make")) == (0, ["builder", "builder"])
    assert outcomes(result) == {"make": "built", "upper": "built", "count": "built"}
    assert on.notices() == ["bench did not get the result of make; it is pushed again"]


def test_a_file_that_is_edited_meanwhile_fails_the_stage(on: Fixture) -> None:
    def edit(fleet: FakeFleet, order: Any, machine: str) -> Any:
        messages = build(fleet, order, machine)
        on.project.edit("stages.py", "write_text(text)", 'write_text(text + " ")')
        return messages

    on.fleet.answers["make"] = [edit]
    failure = failure_of(on.run(), "make")
    assert (failure.error, failure.problem) == ("InputChanged", "stages.py was changed while make ran")


def test_a_plan_says_the_machines(on: Fixture) -> None:
    planned = api.plan(on.fleet.file, store=on.project.store, remote=on.remote, executor=on.fleet)
    assert [(step.stage.id, step.machine) for step in planned.steps] == [
        ("make", "builder"), ("upper", "bench"), ("count", "builder"),
    ]  # fmt: skip
    on.fleet.drivers["bench"] = "580.1"
    step = api.explain(on.fleet.file, "upper", store=on.project.store, remote=on.remote, executor=on.fleet)
    assert step.machine == "bench"
    *_, machine, facts, _, _ = explain_lines(step, Terminal())
    assert machine == "machine bench"
    assert facts.startswith("  its facts in the key: ")
    assert facts.endswith("gpu driver_version")


def test_a_machine_that_takes_no_part_is_said(on: Fixture) -> None:
    on.fleet.news = [Notice("warning", OTHER)]
    planned = api.plan(on.fleet.file, store=on.project.store, remote=on.remote, executor=on.fleet)
    assert planned.left_out == (OTHER,)
    on.fleet.news = [Notice("warning", OTHER)]
    step = api.explain(on.fleet.file, "upper", store=on.project.store, remote=on.remote, executor=on.fleet)
    assert step.left_out == (OTHER,)
    on.fleet.news = [Notice("warning", OTHER)]
    on.run()
    assert on.notices() == [OTHER]


def test_a_machine_that_leaves_before_the_first_order_gets_none(on: Fixture) -> None:
    on.fleet.news = [Leaving("bench")]
    on.run()
    assert on.fleet.machine_of("upper") == ["bench-b"]


def test_a_plan_shows_facts_of_machines_and_why_stages_run_here(on: Fixture) -> None:
    on.project.write("release.py", RELEASE)
    on.project.edit("pipeline.yaml", "  count:", "  pack: {uses: ./release.py:pack, needs: upper}\n  count:")
    planned = api.plan(on.fleet.file, store=on.project.store, remote=on.remote, executor=on.fleet)
    lines = plan_lines(planned, (), Terminal(), "orun pipeline.yaml")
    assert next(line for line in lines if line.startswith("pack  ")).endswith("  this machine")
    note = "note: the remote is not asked; what it holds is fetched instead of built"
    assert plan_lines(planned, (), Terminal(), "orun pipeline.yaml", uses_remote=True) == [*lines, note]
    assert lines[-5:-2] == [
        "builder: role=builder, 2 cores, Python ",
        "bench: accelerator=T4, 2 cores, Python ",
        "pack runs on this machine: it releases, and its inputs and credentials are on this machine",
    ]


def test_the_table_of_a_run_has_the_machine_of_each_stage(on: Fixture) -> None:
    on.run()
    table = format_stage_table(on.run(), Terminal())
    assert [line.split()[:3] for line in table] == [
        ["stage", "result", "machine"],
        ["make", "cached", "builder"],
        ["upper", "cached", "bench"],
        ["count", "cached", "bench"],
    ]
