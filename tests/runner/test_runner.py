"""The way of a run when stages fail, gates fail, files are edited meanwhile, or others run too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

import orun
from orun.core.events import Event, Notice, StageStarted, StageWaiting
from orun.environment.install_commands import choose_installer
from orun.errors import PipelineError, UsageError
from orun.fs.machine_locks import MachineClaim, build_machine_lock
from orun.runner.stage_locks import describe_measurement
from orun.store import Store
from tests.facts import describe_reasons
from tests.faults.projects import write_model
from tests.project import PIPELINE, Project, built, failure_of, outcomes

CLAIM = MachineClaim(4711, "/models", "bert", "latency")
FAILING = """
name: text
stages:
  make: {uses: ./stages.py:make}
  breaks: {uses: ./broken.py:breaks}
  after: {uses: ./stages.py:count, needs: breaks}
  other: {uses: ./stages.py:upper, needs: make}
"""
BROKEN = """
from orun import stage


@stage(inputs={}, output="files")
def breaks(context):
    raise ValueError("the data is not there")
"""
TWINS = "name: text\nstages:\n  a: {uses: ./stages.py:make}\n  b: {uses: ./stages.py:make}\n"
CHECKED = """
name: text
targets:
  t: {providers: [CPUExecutionProvider]}
stages:
  take: {uses: convert/onnx, with: {path: model.onnx}}
  check: {uses: check/model, needs: take, with: {target: t}}
  after: {uses: measure/size, needs: [take, check]}
"""
DAMAGES = """
import os
from pathlib import Path

from orun import stage


@stage(inputs={"text": "files"}, output="files")
def after(context):
    data = (context.inputs["text"] / "text").read_bytes()
    for path in Path("OBJECTS").glob("*/*"):
        if path.read_bytes() == data:
            times = path.stat().st_atime_ns, path.stat().st_mtime_ns
            path.chmod(0o644)
            path.write_bytes(data.swapcase())
            path.chmod(0o444)
            os.utime(path, ns=times)
    (context.output / "text").write_bytes(data)
"""
EDITS = """
from pathlib import Path

from orun import stage


@stage(inputs={}, output="files")
def edits(context, *, name: str):
    path = context.root / name
    before = path.read_text()
    path.write_text(before + "\\n# edited\\n")
    (context.output / "text").write_text(before)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path / "project")


@pytest.fixture
def failing(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project", FAILING)
    project.write("broken.py", BROKEN)
    return project


def wide_pipeline(count: int, options: str = "") -> str:
    """A pipeline of stages that do not need one another: s0, s1, and so on."""
    stages = (f"  s{i}: {{uses: ./stages.py:make, with: {{text: t{i}}}{options}}}\n" for i in range(count))
    return f"name: text\nstages:\n{''.join(stages)}"


def test_a_failed_stage_is_a_result_with_its_reason_and_the_way_on(failing: Project) -> None:
    result = failing.run(keep_going=True)
    assert result.exit_code == 3
    failure = failure_of(result, "breaks")
    log = result.folder / "logs" / "breaks.log"
    assert (failure.error, failure.problem, failure.log) == (
        "StageFailed",
        "breaks raised ValueError: the data is not there",
        str(log),
    )
    assert failure.why == f"at {failing.folder}/broken.py:7 in breaks"
    assert "Traceback" in log.read_text()
    assert "Traceback" not in failure.problem + failure.why + failure.hint


def test_the_log_of_a_refusal_has_no_traceback(tmp_path: Path) -> None:
    """It is shown with the failure, and tells a user nothing."""
    text = f"stages:\n  take: {{uses: convert/onnx, with: {{path: relu.onnx, digest: '{'0' * 64}'}}}}\n"
    project = Project.make(tmp_path / "project", text)
    project.write("relu.onnx", "no model at all")
    result = project.run()
    log = (result.folder / "logs" / "take.log").read_text()
    assert log.startswith("relu.onnx is not the file that its digest names\n  SHA-256 is ")
    assert "Traceback" not in log


def test_keep_going_stops_only_what_is_after_the_failure(failing: Project) -> None:
    result = failing.run(keep_going=True)
    assert outcomes(result) == {"make": "built", "breaks": "failed", "after": "blocked", "other": "built"}
    assert describe_reasons(result["after"].reasons) == ("breaks failed",)


def test_a_failure_stops_what_has_not_started(failing: Project) -> None:
    result = failing.run(jobs=1)
    assert outcomes(result) == {"make": "built", "breaks": "failed", "after": "blocked", "other": "blocked"}
    assert describe_reasons(result["other"].reasons) == ("another stage failed, and --keep-going is not set",)


def test_a_failed_stage_stores_nothing_and_runs_again(failing: Project) -> None:
    failing.run(keep_going=True)
    assert not (failing.store / "out" / "text" / "breaks").exists()
    failing.write(
        "broken.py", BROKEN.replace('raise ValueError("the data is not there")', "(context.output / 'text').touch()")
    )
    result = failing.run()
    assert built(result) == ["breaks", "after"]
    assert result.exit_code == 0


@pytest.mark.parametrize("name", ["edits.py", "data.txt"])
def test_what_is_edited_while_its_stage_runs_makes_nothing(tmp_path: Path, name: str) -> None:
    text = f"name: text\nstages:\n  edits: {{uses: ./edits.py:edits, with: {{name: {name}}}}}\n"
    project = Project.make(tmp_path / "project", text)
    project.write("edits.py", EDITS)
    project.write("data.txt", "one")
    result = project.run()
    failure = failure_of(result, "edits")
    assert (failure.error, failure.problem) == ("InputChanged", f"{name} was edited while edits ran")
    assert result.exit_code == 3
    assert not list((project.store / "actions").rglob("*.json"))


def test_an_artifact_that_is_damaged_while_a_stage_reads_it_makes_nothing(tmp_path: Path) -> None:
    text = "name: text\nstages:\n  make: {uses: ./stages.py:make}\n  after: {uses: ./damages.py:after, needs: make}\n"
    project = Project.make(tmp_path / "project", text)
    project.write("damages.py", DAMAGES.replace("OBJECTS", str(project.store / "objects")))
    result = project.run()
    failure = failure_of(result, "after")
    assert (failure.error, failure.problem) == ("InputChanged", "input text was edited while after ran")
    assert [path.name for path in (project.store / "out" / "text").iterdir()] == ["make"]


def test_an_artifact_that_another_stage_has_damaged_fails_the_stages_that_need_it(tmp_path: Path) -> None:
    text = (
        "name: text\nstages:\n  make: {uses: ./stages.py:make}\n  after: {uses: ./damages.py:after, needs: make}\n"
        "  upper: {uses: ./stages.py:upper, needs: make}\n  other: {uses: ./stages.py:make, with: {text: other}}\n"
    )
    project = Project.make(tmp_path / "project", text)
    project.write("damages.py", DAMAGES.replace("OBJECTS", str(project.store / "objects")))
    result = project.run(keep_going=True, jobs=1)
    assert outcomes(result) == {"make": "built", "after": "failed", "upper": "failed", "other": "built"}
    failure = failure_of(result, "upper")
    assert (failure.error, failure.problem) == ("StageFailed", "text cannot be taken from the store")
    assert failure.hint == "Run the pipeline again: the stage that made it will be built again"
    project.edit("pipeline.yaml", "  after: {uses: ./damages.py:after, needs: make}\n", "")
    assert outcomes(project.run()) == {"make": "built", "upper": "built", "other": "cached"}


def test_another_pipeline_of_its_name_replaces_its_outputs_while_it_runs(tmp_path: Path) -> None:
    mine, other = (Project.make(tmp_path / name / "project") for name in ("mine", "other"))
    other.store = mine.store
    other.edit("pipeline.yaml", "text: a b", "text: c d")
    events: list[Event] = []

    def hear(event: Event) -> None:
        events.append(event)
        if isinstance(event, StageStarted) and event.stage == "count":
            assert other.run().exit_code == 0
            assert mine.text("upper") == "C D!"

    result = orun.run(mine.folder / "pipeline.yaml", store=mine.store, on_event=hear)
    assert result.exit_code == 0
    assert (mine.text("make"), mine.text("upper"), mine.text("count")) == ("a b", "A B!", "2")
    assert [event.text for event in events if isinstance(event, Notice)] == [
        f"{stage}: another run replaced {mine.store}/out/text/{stage}; this run's output was restored. "
        "Pipelines with the same name in one store replace each other's outputs: give one of them another name, "
        "or --store"
        for stage in ("make", "upper")
    ]


def test_a_file_of_the_repository_that_has_taken_the_name_is_warned_of(tmp_path: Path) -> None:
    """One release would lie where the other's is looked for; checkouts that share a store have one name on purpose."""
    (tmp_path / ".git").mkdir()
    first, second = (Project.make(tmp_path / name) for name in ("first", "second"))
    assert first.store == second.store
    second.edit("pipeline.yaml", "text: a b", "text: c d")

    def warned(project: Project) -> list[str]:
        project.run(to=["make"])
        return [event.text for event in project.events if isinstance(event, Notice) and event.level == "warning"]

    assert warned(first) == warned(first) == []
    message = (
        "{} has the name text, too, and ran before: the two replace each other's outputs in out/text, and "
        "`orun diff` and `orun history` take them for one pipeline; `name:` in the file gives one of them another"
    )
    assert warned(second) == [message.format(first.folder / "pipeline.yaml")]
    assert warned(second) == []
    assert warned(first) == [message.format(second.folder / "pipeline.yaml")]
    for project in (first, second):
        (project.folder / ".git").mkdir()
    assert warned(second) == warned(first) == []
    for project in (first, second):
        (project.folder / ".git").rmdir()
    second.edit("pipeline.yaml", "name: text", "name: more")
    assert warned(second) == warned(first) == []


@pytest.mark.slow
def test_what_a_run_leaves_out_leaves_no_output_of_another_version(tmp_path: Path) -> None:
    """It would pass for the output of this run, which fails nothing."""
    project = Project.make(tmp_path / "project", CHECKED)
    write_model(project.folder)
    project.write("pipeline.yaml", CHECKED)
    assert built(project.run()) == ["take", "check", "after"]
    project.edit("pipeline.yaml", "[CPUExecutionProvider]}", "[DmlExecutionProvider], missing: skip}")  # of Windows
    for stages in (["check", "after"], []):
        result = project.run()
        assert (result.exit_code, list(outcomes(result).values())) == (0, ["cached", "skipped", "skipped"])
        assert sorted(path.name for path in (project.store / "out" / "text").iterdir()) == ["take"]
        assert [event.text for event in project.events if isinstance(event, Notice)] == [
            f"{stage}: its output, of another version, was removed: this run leaves it out" for stage in stages
        ]
    project.edit("pipeline.yaml", "[DmlExecutionProvider], missing: skip}", "[CPUExecutionProvider]}")
    assert built(project.run()) == []
    assert (project.store / "out" / "text" / "check" / "model.json").is_file()


def test_a_failed_gate_blocks_what_is_after_it_and_only_that(project: Project) -> None:
    project.edit("pipeline.yaml", "with: {text: a b}", "gate: {length: {max: 2}}")
    project.edit("pipeline.yaml", "  count:", "  alone: {uses: ./stages.py:make, with: {text: c}}\n  count:")
    result = project.run()
    assert outcomes(result) == {"make": "built", "upper": "blocked", "alone": "built", "count": "blocked"}
    assert result.exit_code == 1
    (verdict,) = result.verdicts
    assert (verdict.outcome, verdict.measured, verdict.threshold) == ("failed", 3, "2")


def test_only_needs_what_is_before_it_up_to_date(project: Project) -> None:
    result = project.run(only=["upper"])
    assert outcomes(result) == {"make": "blocked", "upper": "blocked"}
    assert describe_reasons(result["make"].reasons) == ("not up to date, and not asked for", "never run before")
    assert result.exit_code == 3


def test_to_runs_what_is_before_it(project: Project) -> None:
    assert built(project.run(to=["upper"])) == ["make", "upper"]


def test_from_runs_what_is_after_it(project: Project) -> None:
    project.run()
    project.edit("pipeline.yaml", "text: a b", "text: c d")
    assert built(project.run(from_=["make"])) == ["make", "upper", "count"]


def test_an_unknown_stage_is_named_with_the_nearest(project: Project) -> None:
    with pytest.raises(UsageError) as caught:
        project.run(only=["uper"])
    file = project.folder / "pipeline.yaml"
    assert str(caught.value) == (
        f"there is no stage 'uper' in pipeline.yaml\n  did you mean upper?\n  hint: orun graph {file}"
    )


def test_a_missing_tool_is_said_before_anything_starts(project: Project) -> None:
    project.edit(
        "stages.py",
        '@stage(inputs={}, output="files", metrics=["length"])',
        '@stage(inputs={}, output="files", tools=["unheard-of"])',
    )
    with pytest.raises(PipelineError) as caught:
        project.run()
    (problem,) = caught.value.problems
    assert (problem.message, problem.hint) == (
        "stage 'make' (./stages.py:make) needs unheard-of, which is not installed",
        f"{choose_installer()} unheard-of",
    )
    assert project.events == []


def test_more_memory_and_gpus_than_there_are_are_refused_at_their_stages(project: Project) -> None:
    project.edit("pipeline.yaml", "needs: make}", "needs: make, resources: {memory: 900TB, gpus: 3}}")
    with pytest.raises(PipelineError) as caught:
        project.run(gpus=2)
    memory, gpus = caught.value.problems
    assert memory.position == gpus.position
    assert memory.message.startswith("stage 'upper' asks for 900 TB of memory, and this machine has ")
    assert gpus.message == "stage 'upper' asks for 3 GPUs, and this run has 2"
    assert project.events == []


def test_stages_that_use_a_gpu_take_turns(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", wide_pipeline(4, ", resources: {gpus: 1}"))
    assert len(built(project.run(jobs=4, gpus=1))) == 4
    kinds = [type(event).__name__ for event in project.events if hasattr(event, "stage") or hasattr(event, "result")]
    assert kinds == ["StageStarted", "StageFinished"] * 4


def test_every_run_leaves_its_events_and_its_record(project: Project) -> None:
    for _ in range(3):
        result = project.run()
        lines = [json.loads(line) for line in (result.folder / "events.jsonl").read_text().splitlines()]
        assert lines[0]["event"] == "run_started"
        assert lines[-1]["event"] == "run_finished"
        assert [line["result"]["stage"] for line in lines if line["event"] == "stage_finished"] == list(
            outcomes(result)
        )
        record = json.loads((result.folder / "record.json").read_text())["record"]
        assert [stage["stage"] for stage in record["stages"]] == list(outcomes(result))


def test_processes_that_share_a_cold_store_share_the_work(project: Project) -> None:
    command = [sys.executable, "-m", "orun", "pipeline.yaml", "--json", "--store", str(project.store)]
    runs = [
        subprocess.Popen(command, cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    results = []
    for run in runs:
        out, err = run.communicate()
        assert (run.returncode, err) == (0, "")
        results.append(json.loads(out))
    ran = [stage["stage"] for result in results for stage in result["stages"] if stage["outcome"] == "built"]
    assert sorted(ran) == ["count", "make", "upper"]


@pytest.mark.parametrize("measures", [False, True])
def test_who_waits_for_another_process_says_for_what(project: Project, measures: bool) -> None:
    key = project.run()["upper"].key
    machine = build_machine_lock(exclusive=True, claim=CLAIM)
    lock = machine if measures else Store(project.store).build_key_lock(key)
    assert lock.try_acquire()
    waited_for = describe_measurement(machine.find_claim()) if measures else "another orun, which builds the same stage"

    def hear(event: Event) -> None:
        if isinstance(event, StageWaiting):
            assert (event.stage, event.waits_for) == ("upper", waited_for)
            lock.release()

    result = orun.run(project.folder / "pipeline.yaml", store=project.store, force=["upper"], on_event=hear)
    assert built(result) == ["upper"]
    log = [json.loads(line)["event"] for line in (result.folder / "events.jsonl").read_text().splitlines()]
    assert log.count("stage_waiting") == 1


def test_stages_that_are_the_same_wait_for_another_process_both(tmp_path: Path) -> None:
    """Neither waits for the other, nor for one that is another."""
    project = Project.make(tmp_path / "project", f"{TWINS}  other: {{uses: ./stages.py:make, with: {{text: c}}}}\n")
    lock = Store.open(project.store).build_key_lock(
        orun.plan(project.folder / "pipeline.yaml", store=project.store)["a"].key
    )
    assert lock.try_acquire()
    heard = []

    def hear(event: Event) -> None:
        if isinstance(event, StageWaiting):
            heard.append((event.stage, event.waits_for))
            if len(heard) == 2:
                lock.release()

    result = orun.run(project.folder / "pipeline.yaml", store=project.store, jobs=2, on_event=hear)
    assert sorted(outcomes(result).values()) == ["built", "built", "cached"]
    assert heard[:2] == [(stage, "another orun, which builds the same stage") for stage in ("a", "b")]


def test_a_wide_pipeline_asks_once_for_the_machine_while_another_process_measures(tmp_path: Path) -> None:
    """It would else disturb what is measured, and hold the keys of all that might come."""
    project = Project.make(tmp_path / "project", wide_pipeline(6))
    lock = build_machine_lock(exclusive=True, claim=CLAIM)
    assert lock.try_acquire()
    measurement = describe_measurement(lock.find_claim())
    keys: list[int] = []

    def hear(event: Event) -> None:
        project.events.append(event)
        if isinstance(event, StageWaiting) and not keys:
            Timer(0.2, look).start()  # some rounds later

    def look() -> None:
        keys.append(len(list((project.store / "locks").iterdir())))
        lock.release()

    result = orun.run(project.folder / "pipeline.yaml", store=project.store, on_event=hear)
    assert len(built(result)) == 6
    waits = [(event.stage, event.waits_for) for event in project.events if isinstance(event, StageWaiting)]
    assert waits == [("s0", measurement)]
    assert keys == [1]


def test_a_wide_pipeline_starts_no_more_than_there_are_cores(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", wide_pipeline(6))
    result = project.run(jobs=2)
    assert len(built(result)) == 6
    running = most = 0
    for event in project.events:
        running += isinstance(event, StageStarted) - (type(event).__name__ == "StageFinished")
        most = max(most, running)
    assert most == 2


def test_stages_of_a_matrix_share_what_is_before_them(tmp_path: Path) -> None:
    text = PIPELINE.replace("needs: make}", "needs: make, matrix: {mark: [x, y]}}")
    project = Project.make(tmp_path / "project", text)
    result = project.run()
    assert built(result) == ["make", "upper[mark=x]", "upper[mark=y]", "count[mark=x]", "count[mark=y]"]
    assert project.text("upper[mark=y]") == "A By"


def test_who_waits_for_its_like_in_the_same_run_says_so(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", TWINS)
    result = project.run(jobs=2)
    assert outcomes(result) == {"a": "built", "b": "cached"}
    assert [event.waits_for for event in project.events if isinstance(event, StageWaiting)] == [
        "a, which has the same key"
    ]
    assert not [event for event in project.events if isinstance(event, Notice)], "nothing of b was there to be restored"


def test_labels_that_this_machine_may_lack_are_named(project: Project) -> None:
    labels = f"{{accelerator: T4, system: {sys.platform}, architecture: pdp11}}"
    project.write("pipeline.yaml", f"stages:\n  make: {{uses: ./stages.py:make, runs_on: {labels}}}\n")
    assert built(project.run()) == ["make"]
    (notice,) = (event.text for event in project.events if isinstance(event, Notice))
    assert notice == (
        "make runs on this machine, which is not known to have accelerator=T4 and architecture=pdp11: `runs_on` counts "
        "in runs with --on"
    )
