"""Releases of models with session settings and with operators of onnxruntime-extensions."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from orun.core.targets import Provider
from orun.errors import UsageError
from orun.measure.session_settings import SessionSettings, write_settings
from orun.stages.release._bundle_check import check_bundle
from tests.measure.test_extension_operators import upper
from tests.stages.models import parse
from tests.stages.support import StageRun, artifact, run_stage

from .support import MATMUL, provenance

CPU = (Provider("CPUExecutionProvider"),)
SETTINGS = SessionSettings(
    CPU,
    CPU,
    {
        "intra_op_num_threads": 1,
        "execution_mode": "parallel",
        "graph_optimization_level": "extended",
        "session.intra_op.allow_spinning": False,
    },
    "AMD EPYC",
)
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """A model with the settings of `optimize/session`."""
    folder = artifact(tmp_path, parse(MATMUL))
    write_settings(folder, (SETTINGS,))
    return folder


@pytest.fixture
def extended(tmp_path: Path) -> Path:
    """A model with an operator of onnxruntime-extensions."""
    return artifact(tmp_path, onnx.load(upper(tmp_path / "upper.onnx")))


def history(folder: Path, tools: dict[str, str]) -> Path:
    document = provenance()
    document["stages"][0]["tools"] = tools
    path = folder / "provenance.json"
    path.write_text(json.dumps(document), "utf-8")
    return path


def bundle(folder: Path, model: Path, tools: dict[str, str]) -> StageRun:
    return run_stage("release/bundle", folder, inputs={"model": model}, provenance=history(folder, tools))


def card(folder: Path, model: Path) -> str:
    run = run_stage("release/card", folder, {}, inputs={"model": model}, provenance=history(folder, {}))
    return (run.output / "README.md").read_text("utf-8")


def run_code(text: str, folder: Path, feed: str) -> dict[str, object]:
    """Run the code of a card in the folder of its model, with values in the place of the dots."""
    (code,) = CODE.findall(text)
    names: dict[str, object] = {"numpy": np}
    before = Path.cwd()
    os.chdir(folder)
    try:
        exec(code.replace("...", feed), names)  # noqa: S102 - the code that users are shown
    finally:
        os.chdir(before)
    return names


def test_a_card_shows_settings_and_code_that_takes_them(tmp_path: Path, tuned: Path) -> None:
    text = card(tmp_path, tuned)
    assert "`session.json` holds them" in text
    assert (
        "| CPUExecutionProvider | execution_mode: parallel, graph_optimization_level: extended, intra_op_num_threads: "
        "1, session.intra_op.allow_spinning: false |  | AMD EPYC |"
    ) in text.replace("\\_", "_")
    names = run_code(text, tuned, "numpy.ones((1, 4), numpy.float32)")
    options = names["options"]
    assert options.intra_op_num_threads == 1  # type: ignore[attr-defined]  # of ONNX Runtime
    assert str(options.execution_mode) == "ExecutionMode.ORT_PARALLEL"  # type: ignore[attr-defined]  # likewise
    assert names["outputs"][0].tolist() == [[16.0, 20.0]]  # type: ignore[index]  # a list of arrays


def test_a_card_shows_code_that_loads_the_library(tmp_path: Path, extended: Path) -> None:
    names = run_code(card(tmp_path, extended), extended, "numpy.array(['ab'], object)")
    assert names["outputs"][0].tolist() == ["AB"]  # type: ignore[index]  # a list of arrays


def test_a_bundle_says_which_library_it_needs(tmp_path: Path, extended: Path) -> None:
    run = bundle(tmp_path, extended, {"onnxruntime-extensions": "0.15.2"})
    assert json.loads((run.output / "manifest.json").read_text())["requires"] == {"onnxruntime-extensions": "0.15.2"}
    assert check_bundle(run.output).requires == {"onnxruntime-extensions": "0.15.2"}
    unknown = bundle(tmp_path, extended, {"torch": "2.13.0"})
    assert check_bundle(unknown.output).requires == {"onnxruntime-extensions": ""}


def test_a_bundle_holds_the_settings(tmp_path: Path, tuned: Path) -> None:
    run = bundle(tmp_path, tuned, {"onnxruntime-extensions": "0.15.2"})
    assert (run.output / "session.json").read_bytes() == (tuned / "session.json").read_bytes()
    check = check_bundle(run.output)
    assert (check.ok, check.requires) == (True, {})
    assert "session.json" in check.sha256


def test_triton_gets_the_settings_and_no_library(tmp_path: Path, tuned: Path, extended: Path) -> None:
    run = run_stage("release/triton", tmp_path, {"name": "tuned"}, inputs={"model": tuned})
    config = (run.output / "tuned" / "config.pbtxt").read_text()
    assert 'parameters { key: "intra_op_thread_count" value: { string_value: "1" } }' in config
    assert "graph { level: 1 }" in config
    assert sorted(path.name for path in (run.output / "tuned" / "1").iterdir()) == ["model.onnx"]
    assert run.notes == ("Triton has no parameter for session.intra_op.allow_spinning of target 'cpu'",)
    with pytest.raises(UsageError) as caught:
        run_stage("release/triton", tmp_path, {"name": "upper"}, inputs={"model": extended})
    assert str(caught.value) == (
        "the model has operators of onnxruntime-extensions, whose library's place on the server is unknown\n"
        "  hint: release the model without `optimize/pipeline-in-model`, and prepare its inputs in an ensemble"
    )


@pytest.mark.slow
def test_users_install_the_library_too(tmp_path: Path, extended: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORUN_ENVIRONMENTS", str(tmp_path / "environments"))
    run = bundle(tmp_path, extended, {"onnxruntime-extensions": "0.15.2"})
    served = run_stage("release/serve-check", tmp_path, inputs={"bundle": run.output})
    packages = json.loads((served.output / "serve.json").read_text())["packages"]
    assert packages["onnxruntime-extensions"] == "0.15.2"
    assert served.value("answers") > 0


def test_the_target_of_triton_stays_where_there_are_no_settings(tmp_path: Path) -> None:
    run = run_stage(
        "release/triton",
        tmp_path,
        {"name": "plain", "device": "gpu"},
        inputs={"model": artifact(tmp_path, parse(MATMUL))},
    )
    assert "KIND_GPU" in (run.output / "plain" / "config.pbtxt").read_text()
