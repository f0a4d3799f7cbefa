"""Stages in isolated environments: what runs where, what reruns and why."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest

import orun
from orun.core.events import Notice, name_kind
from orun.core.serialization import encode
from orun.core.targets import Environment
from orun.environment import providers, venvs
from orun.errors import PipelineError
from orun.eventlog import read_log
from orun.report.console import Console
from orun.report.terminal import Terminal
from orun.store import Store
from tests.environment.wheels import use_index, wheel
from tests.facts import describe_reasons
from tests.project import Project, built, outcomes

PIPELINE = """
name: text
environments:
  old: {packages: [tiny==1.0]}
stages:
  there:
    uses: ./where.py:where
    environment: old
  after: {uses: ./where.py:repeat, needs: there}
"""
WHERE = """
import sys
from orun import stage


@stage(inputs={}, output="files")
def where(context):
    import tiny
    (context.output / "text").write_text(f"tiny {tiny.version}")
    context.log.info("prefix %s", sys.prefix)


@stage(inputs={"text": "files"}, output="files")
def repeat(context):
    (context.output / "text").write_text((context.inputs["text"] / "text").read_text() + ", and so on")
"""


def write_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Write a project with an index of its own, and no environment yet."""
    for version in ("1.0", "2.0"):
        wheel(folder / "index", "tiny", version)
    use_index(folder / "index", folder / "environments", monkeypatch)
    project = Project.make(folder / "project", PIPELINE)
    project.write("where.py", WHERE)
    return project


@dataclass(frozen=True)
class FirstRun:
    """A project after the run that made its environment, and what was planned before it."""

    project: Project
    planned: tuple[str, ...]
    result: orun.RunResult

    @property
    def environments(self) -> Path:
        """Folder of the environments that it made."""
        return self.project.folder.parent / "environments"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstRun]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        project = write_project(tmp_path_factory.mktemp("first"), monkeypatch)
        planned = reasons(project)["there"]
        yield FirstRun(project, planned, project.run())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project without an environment."""
    return write_project(tmp_path, monkeypatch)


@pytest.fixture
def prepared(first: FirstRun, project: Project, tmp_path: Path) -> Project:
    """A project whose environment is a copy of the first one's."""
    shutil.copytree(first.environments, tmp_path / "environments", symlinks=True)
    return project


def reasons(project: Project) -> dict[str, tuple[str, ...]]:
    plan = orun.plan(project.folder / "pipeline.yaml", store=project.store)
    return {step.stage.id: (step.action, *describe_reasons(step.reasons)) for step in plan.steps}


def notices(project: Project) -> list[str]:
    return [event.text for event in project.events if isinstance(event, Notice)]


def test_a_stage_runs_with_the_packages_of_its_environment_alone(first: FirstRun) -> None:
    project = first.project
    assert first.planned == ("run", "never run before", "after environment 'old' is made")
    assert built(first.result) == ["there", "after"]
    assert notices(project) == ["environment 'old': making it, once for this machine (tiny==1.0)"]
    assert project.text("after") == "tiny 1.0, and so on"
    assert reasons(project) == {"there": ("cached", "up to date"), "after": ("cached", "up to date")}
    log = first.result.folder / "logs" / "there.log"
    assert f"prefix {first.environments}" in log.read_text()
    assert sys.prefix not in log.read_text()


def test_where_orun_is_found_is_not_what_a_stage_reads(first: FirstRun) -> None:
    with Store.open(first.project.store) as store:
        action = store.find_latest("text", "there")
    assert action
    assert {name: digest == "" for name, digest in action.implicit_deps.files.items()} == {
        "tiny/__init__.py": True,  # it would be imported instead
        "tiny.py": True,
    }
    assert action.implicit_deps.probed == {}
    assert action.implicit_deps.folders == {}
    assert action.implicit_deps.packages == {"tiny": "1.0"}


def test_what_is_made_is_in_the_log_of_the_run_once_it_has_begun(first: FirstRun) -> None:
    log = [json.loads(line) for line in (first.result.folder / "events.jsonl").read_text().splitlines()]
    assert [line["event"] for line in log[:3]] == ["run_started", "notice", "stage_started"]
    assert log[1]["text"] == "environment 'old': making it, once for this machine (tiny==1.0)"
    assert [name_kind(type(event)) for event in first.project.events] == [line["event"] for line in log]


def test_what_is_made_is_shown_before_the_first_stage(first: FirstRun, capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(sys.stdout, Terminal())
    for event in first.project.events:
        console(event)
    assert capsys.readouterr().out.splitlines()[0] == (
        "info: environment 'old': making it, once for this machine (tiny==1.0)"
    )


@pytest.mark.slow
def test_another_version_runs_its_stages_again_and_says_why(prepared: Project) -> None:
    prepared.run()
    prepared.edit("pipeline.yaml", "tiny==1.0", "tiny==2.0")
    assert reasons(prepared)["there"] == ("maybe", "after environment 'old' is made")
    result = prepared.run()
    assert outcomes(result) == {"there": "built", "after": "built"}
    assert describe_reasons(result["there"].reasons) == ("package tiny: 1.0 -> 2.0",)
    prepared.edit("pipeline.yaml", "tiny==2.0", "tiny==1.0")
    assert built(prepared.run()) == []
    assert not any("making" in notice for notice in notices(prepared))


@pytest.mark.slow
def test_a_run_with_nothing_to_do_needs_no_environment_but_its_record(prepared: Project) -> None:
    prepared.run()
    folder = next(iter(venvs.read_all()))
    shutil.rmtree(venvs.locate_prefix(folder))
    assert built(prepared.run()) == []
    shutil.rmtree(folder)
    assert reasons(prepared)["there"] == ("maybe", "after environment 'old' is made")
    assert built(prepared.run()) == []  # the same versions came of it
    assert notices(prepared) == ["environment 'old': making it, once for this machine (tiny==1.0)"]


def test_an_environment_that_cannot_be_made_stops_the_run_before_a_stage_starts(project: Project) -> None:
    project.edit("pipeline.yaml", "tiny==1.0", "tiny==3.0")
    with pytest.raises(PipelineError) as caught:
        project.run()
    (problem,) = caught.value.problems
    assert problem.position.line == 6
    assert problem.message == (
        "stage 'there' cannot run: environment 'old' cannot be made: ERROR: Could not find a version that satisfies the"
        " requirement tiny==3.0 (from versions: 1.0, 2.0); ERROR: No matching distribution found for tiny==3.0"
    )
    folder = venvs.locate_folder(Environment("old", ("tiny==3.0",)))
    assert problem.hint == f"all that pip said: {folder}/pip.log"
    assert venvs.describe_damage(folder) == "it is not there"
    assert [name_kind(type(event)) for event in project.events] == ["run_started", "notice", "run_finished"]
    (run,) = (project.store / "runs").iterdir()
    assert read_log(run / "events.jsonl").exit_code == PipelineError.exit_code


def test_what_is_lacking_anyway_is_said_before_an_environment_is_made(project: Project) -> None:
    project.edit("where.py", '@stage(inputs={"text": "files"}', '@stage(tools=["unheard-of"], inputs={"text": "files"}')
    with pytest.raises(PipelineError) as caught:
        project.run()
    (problem,) = caught.value.problems
    assert problem.message == "stage 'after' (./where.py:repeat) needs unheard-of, which is not installed"
    assert project.events == []
    assert list(venvs.read_all()) == []
    assert not list((project.store / "runs").iterdir())


def test_a_tool_that_the_environment_does_not_hold(prepared: Project) -> None:
    (prepared.folder / "model.onnx").touch()
    file = prepared.write(
        "lacking.yaml",
        """
        environments: {old: {packages: [tiny==1.0]}}
        stages:
          import: {uses: convert/onnx, with: {path: model.onnx}, environment: old}
          simplify: {uses: optimize/simplify, needs: import, environment: old}
        """,
    )
    with pytest.raises(PipelineError) as caught:
        orun.run(file, store=prepared.store)
    first, second = caught.value.problems
    assert first.message == "stage 'import' (convert/onnx) needs onnx, which is not in environment 'old'"
    assert first.hint == "add it to that environment: onnx==VERSION"
    assert second.hint == "add them to that environment: onnxsim==VERSION, onnx==VERSION, onnxruntime==VERSION"


TARGET = """
environments:
  empty: {packages: [onnx==1.0, onnxruntime==1.0, numpy==1.0]}
targets:
  vino: {environment: empty, providers: [OpenVINOExecutionProvider], missing: MISSING}
stages:
  import: {uses: convert/onnx, with: {path: relu.onnx}}
  covered: {uses: check/coverage, needs: import, with: {target: vino}}
"""
RELU = '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }'


def targeted(project: Project, tmp_path: Path, missing: str) -> None:
    """Let its target be in an environment whose ONNX Runtime is an empty module."""
    for name in ("onnx", "onnxruntime", "numpy"):
        wheel(tmp_path / "index", name, "1.0")
    onnx.save(onnx.parser.parse_model(RELU), project.folder / "relu.onnx")
    project.write("pipeline.yaml", TARGET.replace("MISSING", missing))


@pytest.mark.slow
def test_what_may_be_skipped_is_when_the_environment_was_just_made(project: Project, tmp_path: Path) -> None:
    targeted(project, tmp_path, "skip")
    assert outcomes(project.run()) == {"import": "built", "covered": "skipped"}
    lacking = "AttributeError: module 'onnx' has no attribute 'parser'"
    reason = f"target vino: OpenVINOExecutionProvider does not load on this machine ({lacking})"
    assert reasons(project)["covered"] == ("skipped", reason)


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["skip", "error"])
def test_a_target_whose_environment_was_removed_is_asked_once_it_is_there_again(
    project: Project, tmp_path: Path, missing: str
) -> None:
    """Its record is what plans rest on, and says nothing of its providers."""
    targeted(project, tmp_path, missing)
    empty = Environment("empty", ("onnx==1.0", "onnxruntime==1.0", "numpy==1.0"))
    record = venvs.locate_record(empty)
    record.parent.mkdir(parents=True)
    versions = dict.fromkeys(("onnx", "onnxruntime", "numpy"), "1.0")
    record.write_text(json.dumps(encode(venvs.EnvironmentRecord(empty.requirements, versions))))
    providers.probe.cache_clear()
    assert reasons(project)["covered"] == ("run", "never run before", "after import")
    if missing == "skip":
        assert outcomes(project.run()) == {"import": "built", "covered": "skipped"}
    else:
        with pytest.raises(PipelineError) as caught:
            project.run()
        assert caught.value.problems[0].message.startswith("target 'vino' of stage 'covered' cannot run here: OpenVINO")
    assert venvs.describe_damage(venvs.locate_folder(empty)) == ""
