"""compile/mobile: the .ort format, read back, with what a build needs and what phones would take."""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.errors import StageFailed
from orun.stages.compile import _mobile, mobile
from orun.stages.contract import Context
from tests.stages.models import convolution
from tests.stages.support import StageRun, answers, artifact, run_stage

FLOAT = '{"inputs": {"0": ["float"]}}'
FUSED = ["ai.onnx;1;GlobalAveragePool", f"ai.onnx;13;Flatten,Gemm{FLOAT}", "com.microsoft;1;FusedConv"]
FUSED_WHEN_LOADED = [
    "ai.onnx;1;GlobalAveragePool",
    f"ai.onnx;11;Conv{FLOAT}",
    f"ai.onnx;13;Flatten,Gemm{FLOAT}",
    f"ai.onnx;14;Relu{FLOAT}",
    "com.microsoft;1;FusedConv",
]


def config(run: StageRun) -> list[str]:
    """Lines of the operators that a build of ONNX Runtime must have."""
    return (run.output / "required_operators.config").read_text().splitlines()


@pytest.mark.parametrize(
    ("optimization", "needed", "operators"), [("fixed", FUSED, 4), ("runtime", FUSED_WHEN_LOADED, 6)]
)
def test_it_runs_as_before_and_says_what_a_build_needs(
    tmp_path: Path, optimization: str, needed: list[str], operators: int
) -> None:
    model = artifact(tmp_path, convolution())
    run = run_stage("compile/mobile", tmp_path, {"optimization": optimization}, inputs={"model": model})
    assert sorted(path.name for path in run.output.iterdir()) == [
        "model.ort", "required_operators.config", "usability.json",
    ]  # fmt: skip
    assert (run.output / "model.ort").read_bytes()[4:8] == b"ORTM"
    image = np.random.default_rng(0).standard_normal((3, 3, 8, 8)).astype(np.float32)
    before, after = (answers(path, {"image": image})[0] for path in (model / "model.onnx", run.output / "model.ort"))
    assert np.abs(before - after).max() < 1e-5
    assert (config(run), run.value("operators")) == (needed, operators)
    assert run.value("max_abs_error") < 1e-5


def test_another_answer_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = convolution()
    (bias,) = [tensor for tensor in other.graph.initializer if tensor.name == "bias"]
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + 1, "bias"))
    wrong = run_stage("compile/mobile", tmp_path, inputs={"model": artifact(tmp_path, other)}).output / "model.ort"
    convert = _mobile.convert

    def exchanged(context: Context, *arguments: Any, **options: Any) -> int:
        operators = convert(context, *arguments, **options)
        shutil.copyfile(wrong, context.output / "model.ort")
        return operators

    monkeypatch.setattr(_mobile, "convert", exchanged)
    with pytest.raises(StageFailed) as caught:
        run_stage("compile/mobile", tmp_path, inputs={"model": artifact(tmp_path, convolution())})
    assert caught.value.problem == "model.ort disagrees with the model before it in output 'scores'"
    assert caught.value.hint == "try `optimization: runtime`"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it can be laid out for a processor of its kind alone")
def test_what_is_laid_out_for_a_processor(tmp_path: Path) -> None:
    model = artifact(tmp_path, convolution())
    domains = {}
    for processor in (None, "arm", "amd64"):
        run = run_stage("compile/mobile", tmp_path, {"platform": processor}, inputs={"model": model})
        domains[processor] = {line.partition(";")[0] for line in config(run)}
    plain = {"ai.onnx", "com.microsoft"}
    assert domains == {None: plain, "arm": plain, "amd64": {"ai.onnx", "com.microsoft.nchwc"}}


def test_what_coreml_and_nnapi_would_take(tmp_path: Path) -> None:
    run = run_stage("compile/mobile", tmp_path, inputs={"model": artifact(tmp_path, convolution())})
    figures = {name: run.value(name) for name in run.metrics if "nnapi" in name}
    assert figures == {"share.nnapi": 0, "partitions.nnapi": 0, "share_if_fixed.nnapi": 1}
    document = json.loads((run.output / "usability.json").read_text())
    assert document["nnapi"] == {
        "verdict": "NO", "verdict_if_fixed": "YES", "unsupported_operators": [], "nodes_with_dynamic_input": 6,
    }  # fmt: skip
    assert document.keys() == set(mobile.CHECKED)


def test_types_are_left_out_of_the_configuration(tmp_path: Path) -> None:
    model = artifact(tmp_path, convolution())
    run = run_stage("compile/mobile", tmp_path, {"types": False}, inputs={"model": model})
    assert config(run) == [line.removesuffix(FLOAT) for line in FUSED]


def test_a_model_that_is_too_large_is_refused_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mobile, "LARGEST", 100)
    folder = artifact(tmp_path, convolution())
    size = (folder / "model.onnx").stat().st_size
    with pytest.raises(StageFailed) as caught:
        run_stage("compile/mobile", tmp_path, inputs={"model": folder})
    assert str(caught.value) == (
        f"a model of {size} bytes cannot be written as model.ort\n"
        "  the format ends at 100 bytes\n"
        "  hint: make it smaller first: quantize/weights, optimize/float16"
    )


def test_a_model_that_onnx_runtime_cannot_run_is_told(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "nowhere" : 1]> g (float[2] x) => (float[2] y) { y = nowhere.Op(x) }'
    )
    folder = artifact(tmp_path, model)
    with pytest.raises(StageFailed) as caught:
        run_stage("compile/mobile", tmp_path, inputs={"model": folder})
    assert str(caught.value) == (
        "ONNX Runtime cannot write the model in its own format\n"
        f"  {folder.name}/model.onnx: Fatal error: nowhere:Op(-1) is not a registered function/op"
    )
