"""The baseline file: what is accepted, how it reads, and every way in which it can be broken."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import KeyComponent
from orun.core.metrics import Metric
from orun.core.run_record import ChangedSetting, Outcome, RunResult, StageResult
from orun.core.serialization import replace
from orun.errors import PipelineError, StoreError, UsageError
from orun.gates import baselines
from orun.gates.baseline_file import (
    Accepted,
    Baseline,
    find_abandoned_baseline,
    group_by_kind,
    locate_baseline,
    read_file,
    write_file,
)
from orun.gates.baselines import Difference
from orun.pipeline.model import KindUse, Pipeline, Stage
from orun.pipeline.problems import render
from orun.stages.contract import Spec
from orun.store.records import Action
from tests.facts import components
from tests.gates.support import HERE, PLACE, action, compared, metric

P50 = metric(0.0124, "s", "lower", "timing", (0.0121, 0.0127), compared(0.02, (0.6, 0.5, 0.7)), compared(1, (1, 1, 1)))
P50 = replace(P50, references={"fused": compared(0.02, (0.6, 0.5, 0.7))})
SIZE = metric(22.9e6, "B", "lower")
START = '"version": 2, "pipeline": "bert", "stages":'
END = '"host": {}, "date": "2026-11-02", "who": "", "run": ""}}}'
BESIDE = '{"value": 2, "low": 3, "high": 4}'
HINT = "take the committed version back, or remove the file and accept again: orun baseline accept FILE"
NEWER = "use the orun that wrote it, or remove the file and accept again: orun baseline accept FILE"


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """`int8` makes a model, `latency` measures it; git knows Ada."""
    for name, value in {"COUNT": "1", "KEY_0": "user.name", "VALUE_0": "Ada", "GLOBAL": os.devnull}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    kinds = {
        "quantize/dynamic": KindUse("built-in", "orun.stages.quantize.dynamic", Spec()),
        "measure/latency": KindUse("built-in", "orun.stages.measure.latency", Spec(output="metrics")),
    }
    stages = (
        Stage("int8", "quantize/dynamic", PLACE, needs={"model": "export"}),
        Stage("latency", "measure/latency", PLACE, needs={"model": "int8", "reference": "export"}),
    )
    return Pipeline("bert", tmp_path / "bert.yaml", stages, 0, {}, kinds)


def actions(p50: Metric = P50, model: str = "aa11") -> dict[str, Action]:
    return {"int8": action({"size": SIZE}, "cc33"), "latency": action({"p50": p50}, model)}


def run_of(stage_actions: Mapping[str, Action], outcome: Outcome = "built", name: str = "run-7") -> RunResult:
    stages = tuple(
        StageResult(stage, "uses", outcome, metrics=action.metrics) for stage, action in stage_actions.items()
    )
    return RunResult(name, "bert", "bert.yaml", 0, 1.0, 0.0, HERE, stages, (), Path())


def accept(pipeline: Pipeline, result: RunResult, stage_actions: dict[str, Action]) -> Path:
    return baselines.accept(pipeline, baselines.build_candidate(pipeline, result, stage_actions))


def stored(pipeline: Pipeline) -> Baseline:
    baseline = baselines.read(pipeline)
    assert baseline is not None
    return baseline


def test_a_setup_is_stored_by_kind_and_subject(pipeline: Pipeline) -> None:
    setup = (
        KeyComponent(ComponentKind.PARAMETER, "time", value='"10s"'),
        KeyComponent(ComponentKind.PARAMETER, "warmup", value="3"),
        KeyComponent(ComponentKind.TARGET, value="{}"),
    )
    accepted = Accepted(
        "aa", {"size": SIZE}, HERE, "2026-11-02T08:30:00+00:00", "Ada", "run-7", setup=group_by_kind(setup)
    )
    path = locate_baseline(pipeline.file)
    write_file(path, Baseline("bert", {"latency": accepted}))
    stored = json.loads(path.read_text())["stages"]["latency"]["setup"]
    assert stored == {"parameter": {"time": '"10s"', "warmup": "3"}, "target": {"": "{}"}}
    assert baselines.read(pipeline) == Baseline("bert", {"latency": accepted})
    assert accepted.components == setup


def quantized(metrics: Mapping[str, Metric], **parameters: str) -> dict[str, Action]:
    """`int8` with its parameters as JSON."""
    facts = {f"parameter {name}": value for name, value in parameters.items()}
    stage_actions = components({"kind": "quantize/dynamic", "input model": "aa11", "tool onnx": "1.19", **facts})
    return {"int8": replace(action(metrics), components=stage_actions)}


def test_kind_and_parameters_of_every_stage_are_accepted(pipeline: Pipeline) -> None:
    stage_actions = actions() | quantized({}, per_channel="true", op_types='["MatMul"]')
    accept(pipeline, run_of(stage_actions), stage_actions)
    baseline = stored(pipeline)
    int8 = {"kind": {"": "quantize/dynamic"}, "parameter": {"per_channel": "true", "op_types": '["MatMul"]'}}
    assert baseline.settings == {"int8": int8, "latency": {"kind": {"": "measure/latency"}}}
    assert list(baseline.stages) == ["latency"]
    now = components({"kind": "quantize/static", "parameter per_channel": "false", "parameter later": "1"})
    assert baseline.list_changed_settings("int8", now) == (
        ChangedSetting("int8", "uses", "quantize/dynamic", "quantize/static"),
        ChangedSetting("int8", "per_channel", "true", "false"),
    )
    assert baseline.list_changed_settings("int8", stage_actions["int8"].components) == ()
    assert baseline.list_changed_settings("new", now) == ()


def test_settings_of_stages_outside_of_the_run_are_kept_until_they_are_gone(pipeline: Pipeline) -> None:
    stage_actions = actions() | quantized({}, per_channel="true")
    accept(pipeline, run_of(stage_actions), stage_actions)
    alone = {"latency": stage_actions["latency"]}
    accept(pipeline, run_of(alone), stage_actions | quantized({}, per_channel="false"))
    assert stored(pipeline).settings["int8"]["parameter"] == {"per_channel": "true"}
    shorter = replace(pipeline, stages=pipeline.stages[1:])
    accept(shorter, run_of(alone), alone)
    assert list(stored(shorter).settings) == ["latency"]


def test_a_parameter_that_holds_a_secret_is_in_no_baseline(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_9f3c2e1d7b")
    stage_actions = actions() | quantized({}, url='"https://ada:hf_9f3c2e1d7b@hub/model"', per_channel="true")
    path = accept(pipeline, run_of(stage_actions), stage_actions)
    assert stored(pipeline).settings["int8"]["parameter"] == {"per_channel": "true"}
    assert "hf_9f3c2e1d7b" not in path.read_text()


def test_a_file_without_settings_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bert.baseline.json"
    path.write_text('{"version": 2, "pipeline": "bert", "stages": {}}\n')
    baseline = read_file(path)
    assert baseline == Baseline("bert")
    assert baseline.list_changed_settings("int8", components({"parameter per_channel": "false"})) == ()


def test_nothing_is_accepted_at_first(pipeline: Pipeline) -> None:
    assert locate_baseline(pipeline.file) == pipeline.root / "bert.baseline.json"
    assert baselines.read(pipeline) is None


def test_what_was_accepted_is_read_back(pipeline: Pipeline) -> None:
    path = accept(pipeline, run_of(actions()), actions())
    baseline = stored(pipeline)
    assert path == locate_baseline(pipeline.file)
    assert baseline.pipeline == "bert"
    date = baseline.stages["latency"].date
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", date)
    assert baseline.stages["latency"].day == date[:10]
    plain = replace(P50, reference=None, baseline=None, references={})
    assert baseline.stages == {
        "int8": Accepted("", {"size": SIZE}, HERE, date, "Ada", "run-7"),
        "latency": Accepted("aa11", {"p50": plain}, HERE, date, "Ada", "run-7"),
    }


def test_the_file_is_made_to_be_committed(pipeline: Pipeline) -> None:
    path = accept(pipeline, run_of(actions()), actions())
    text = path.read_text()
    data = json.loads(text)
    assert data["version"] == 2
    assert text == json.dumps(data, indent=2, sort_keys=True) + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [file.name for file in pipeline.root.iterdir()] == ["bert.baseline.json"]


def test_two_pipeline_files_have_no_baseline_in_common(pipeline: Pipeline) -> None:
    pipeline.file.write_text("stages: {}\n")
    twin = pipeline.file.with_suffix(".yml")
    twin.write_text("# for the other board\nname: small\nstages: {}\n")
    message = (
        f"{pipeline.file}:1:1: error: bert.yaml and bert.yml would have one baseline, bert.baseline.json\n"
        "  hint: give one of them a name of its own: mv bert.yml OTHER.yml"
    )
    with pytest.raises(PipelineError) as refused:
        accept(pipeline, run_of(actions()), actions())
    assert render(refused.value.problems) == message
    assert not locate_baseline(pipeline.file).exists()
    twin.write_text("services: {}\n")  # of another tool
    accept(pipeline, run_of(actions()), actions())
    assert baselines.read(pipeline) is not None
    twin.write_text("extends: bert.yaml\n")
    with pytest.raises(PipelineError) as refused:
        baselines.read(replace(pipeline, file=twin))
    assert render(refused.value.problems) == message.replace(str(pipeline.file), str(twin)).replace(
        "bert.yaml and bert.yml", "bert.yml and bert.yaml"
    ).replace("mv bert.yml OTHER.yml", "mv bert.yaml OTHER.yaml")


def test_stages_outside_of_the_run_keep_what_they_had(pipeline: Pipeline) -> None:
    accept(pipeline, run_of(actions()), actions())
    alone = {"latency": actions(replace(P50, value=0.0122))["latency"]}
    accept(pipeline, run_of(alone, name="run-8"), alone)
    baseline = stored(pipeline)
    assert {name: stage.run for name, stage in baseline.stages.items()} == {"int8": "run-7", "latency": "run-8"}
    assert baseline.stages["latency"].metrics["p50"].value == 0.0122


def test_stages_that_are_gone_are_forgotten(pipeline: Pipeline) -> None:
    accept(pipeline, run_of(actions()), actions())
    shorter = replace(pipeline, stages=pipeline.stages[1:])
    alone = {"latency": actions()["latency"]}
    accept(shorter, run_of(alone), alone)
    assert list(stored(shorter).stages) == ["latency"]


def test_an_interval_without_an_end_is_kept(pipeline: Pipeline) -> None:
    stage_actions = actions(metric(0.02, "s", "lower", "timing", (0.01, math.inf)))
    accept(pipeline, run_of(stage_actions), stage_actions)
    assert stored(pipeline).stages["latency"].metrics["p50"] == metric(0.02, "s", "lower", "timing", (0.01, math.inf))


@pytest.mark.parametrize(("outcome", "did"), [("failed", "failed"), ("blocked", "did not run")])
def test_a_run_that_is_not_good_is_refused(pipeline: Pipeline, outcome: Outcome, did: str) -> None:
    with pytest.raises(UsageError) as caught:
        accept(pipeline, run_of(actions(), outcome), actions())
    assert str(caught.value) == (
        f"only a run in which every stage is up to date can be accepted\n  int8 {did}\n  hint: orun {pipeline.file}"
    )
    assert baselines.read(pipeline) is None


def test_a_run_without_metrics_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(UsageError) as caught:
        accept(pipeline, run_of({"int8": action({})}), {"int8": action({})})
    assert str(caught.value) == (
        f"there is nothing to accept\n  no stage of the run has metrics\n  hint: orun {pipeline.file}"
    )


def test_a_figure_that_is_none_is_refused(pipeline: Pipeline) -> None:
    stage_actions = actions(metric(math.nan, "s"))
    with pytest.raises(UsageError, match=r"^p50 of latency is nan, which is no figure to accept$"):
        accept(pipeline, run_of(stage_actions), stage_actions)


def test_a_baseline_is_dropped_once(pipeline: Pipeline) -> None:
    accept(pipeline, run_of(actions()), actions())
    assert baselines.drop(pipeline)
    assert not baselines.drop(pipeline)
    assert baselines.read(pipeline) is None


def test_differences_are_of_every_figure_then_or_now(pipeline: Pipeline) -> None:
    accept(pipeline, run_of(actions()), actions())
    baseline = stored(pipeline)
    gone = replace(baseline, stages={**baseline.stages, "old": baseline.stages["int8"]})
    now = {"latency": action({"p50": replace(P50, value=0.0155), "p90": P50}, "dd44")}
    rows = baselines.diff(gone, pipeline, now)
    assert rows == (
        Difference("int8", "size", "B", 22.9e6, None, model_changed=False),
        Difference("latency", "p50", "s", 0.0124, 0.0155, model_changed=True),
        Difference("latency", "p90", "s", None, 0.0124, model_changed=True),
        Difference("old", "size", "B", 22.9e6, None, model_changed=False),
    )


def test_a_login_signs_where_git_knows_nobody(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "grace")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "0")
    accept(pipeline, run_of(actions()), actions())
    assert stored(pipeline).stages["latency"].who == "grace"


@pytest.mark.parametrize(
    ("text", "place", "message", "source", "hint"),
    [
        (
            '{\n<<<<<<< HEAD\n "version": 1\n}', "2:1",
            "the baseline is not JSON: Expecting property name enclosed in double quotes", "<<<<<<< HEAD", HINT,
        ),
        ("[1]", "1:1", "the baseline is not a JSON object", "[1]", HINT),
        ("", "1:1", "the baseline is not JSON: Expecting value", "", HINT),
        (
            '{\n  "pipeline": "bert",\n  "version": 3\n}', "3:3",
            "the baseline has version 3, and this orun reads version 2", '  "version": 3',
            NEWER,
        ),
        ("{}", "1:1", "the baseline has no version, and this orun reads version 2", "{}", NEWER),
        (
            f'{{{START} {{"a": {{"model": "", "metrics": {{"p50": {{"value": NaN}}}}, {END}', "1:1",
            "the baseline has another shape than orun writes: p50 of a is nan", None, HINT,
        ),
        (
            f'{{{START} {{"a": {{"model": 5, "metrics": {{}}, {END}', "1:1",
            "the baseline has another shape than orun writes: Expected `str`, got `int` - at `$.stages[...].model`",
            None, HINT,
        ),
        (
            f'{{{START} {{"a": {{"new": 1, "model": "", "metrics": {{}}, {END}', "1:1",
            "the baseline has another shape than orun writes: Object contains unknown field `new` - at `$.stages[...]`",
            None, NEWER,
        ),
        (
            f'{{{START} {{"a": {{"model": "", "metrics": {{"p50": {{"value": 2, "interval": {BESIDE}}}}}, {END}', "1:1",
            "the baseline has another shape than orun writes: p50 of a is 2, which is not between 3 and 4", None, HINT,
        ),
        (
            f'{{{START} {{"a": {{"model": "", "metrics": {{}}, {END}'.replace("2026-11-02", "yesterday"), "1:1",
            "the baseline has another shape than orun writes: the date of a is 'yesterday'", None, HINT,
        ),
        (
            f'{{{START} {{"a": {{}}, "a": {{"model": "", "metrics": {{}}, {END}', "1:1",
            "the baseline is not JSON: 'a' stands twice in one object", None, HINT,
        ),
        ("[" * 100_000, "1:1", "the baseline is not JSON: it is nested too deep", "", HINT),
        (
            "9" * 5000, "1:1",
            ("the baseline is not JSON: Exceeds the limit (4300 digits) for integer string conversion: value has 5000 "
            "digits; use sys.set_int_max_str_digits() to increase the limit"),
            None, HINT,
        ),
    ],
)  # fmt: skip
def test_a_broken_file_is_an_error_with_its_place(
    pipeline: Pipeline, text: str, place: str, message: str, source: str | None, hint: str
) -> None:
    locate_baseline(pipeline.file).write_text(text)
    with pytest.raises(PipelineError) as caught:
        baselines.read(pipeline)
    (problem,) = caught.value.problems
    assert str(problem.position) == f"{locate_baseline(pipeline.file)}:{place}"
    assert (problem.message, problem.hint) == (message, hint)
    assert problem.source == (text if source is None else source)


def test_a_folder_in_its_place(pipeline: Pipeline) -> None:
    path = locate_baseline(pipeline.file)
    path.mkdir()
    with pytest.raises(PipelineError) as caught:
        baselines.read(pipeline)
    assert caught.value.problems[0].message == f"the baseline cannot be read: [Errno 21] Is a directory: '{path}'"
    with pytest.raises(StoreError, match=r"^cannot remove the baseline: is a directory\n"):
        baselines.drop(pipeline)
    with pytest.raises(StoreError, match=r"^cannot write the baseline: it is a folder\n"):
        write_file(path, Baseline("bert"))
    assert [file.name for file in pipeline.root.iterdir()] == [path.name]


def test_a_checkout_that_is_read_only(tmp_path: Path) -> None:
    """As in some jobs of CI: to name another store would not help."""
    folder = tmp_path / "project"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")
    try:
        path = folder / "bert.baseline.json"
        write_file(path, Baseline("bert"))
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        with pytest.raises(StoreError) as caught:
            write_file(path, Baseline("bert"))
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    assert caught.value.problem == "cannot write the baseline: the file system is read-only"
    assert caught.value.hint == (
        "it stands beside the pipeline file and is committed with it: do this in a checkout that can be written"
    )


def test_a_user_whom_nobody_knows(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under some number."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "0")
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    accept(pipeline, run_of(actions()), actions())
    assert stored(pipeline).stages["latency"].who == "user 4000000"


def test_a_file_that_is_no_text(pipeline: Pipeline) -> None:
    locate_baseline(pipeline.file).write_bytes(b"\xff\xfe")
    with pytest.raises(PipelineError) as caught:
        baselines.read(pipeline)
    assert caught.value.problems[0].message == (
        "the baseline cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"
    )


def test_a_baseline_whose_pipeline_file_is_gone(tmp_path: Path) -> None:
    for name in ("bert.yaml", "bert.baseline.json", "net.yml", "net.baseline.json"):
        (tmp_path / name).touch()
    assert find_abandoned_baseline(tmp_path / "new.yaml") == ""
    (tmp_path / "net.yml").rename(tmp_path / "new.yml")
    assert find_abandoned_baseline(tmp_path / "new.yml") == "net.baseline.json"
    assert find_abandoned_baseline(tmp_path / "gone" / "new.yml") == ""
