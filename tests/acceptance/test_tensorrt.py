"""TensorRT and CUDA where there is no GPU: planned everywhere, skipped or refused, and never on the CPU instead."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

import orun
from orun.errors import PipelineError
from tests.facts import describe_reasons
from tests.stages.models import convolution

PIPELINES = Path(__file__).parents[2] / "pipelines"
TEXT = """
targets:
  trt:
    providers: [TensorrtExecutionProvider: {trt_fp16_enable: true}, CUDAExecutionProvider, CPUExecutionProvider]
    missing: MISSING
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  engine: {uses: compile/engine, needs: import, with: {target: trt}}
  size: {uses: measure/size, needs: import}
  after: {uses: measure/startup, needs: {model: engine, reference: import}}
"""

pytestmark = [
    pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU"),
    pytest.mark.usefixtures("probed_once"),
]


def write(folder: Path, missing: str) -> Path:
    onnx.save(convolution(), folder / "model.onnx")
    (folder / "p.yaml").write_text(TEXT.replace("MISSING", missing), "utf-8")
    return folder / "p.yaml"


@pytest.mark.slow
def test_what_cannot_run_here_is_skipped_with_all_that_comes_after_it(tmp_path: Path) -> None:
    result = orun.run(write(tmp_path, "skip"), store=tmp_path / "store")
    assert {stage.stage: stage.outcome for stage in result.stages} == {
        "import": "built", "engine": "skipped", "size": "built", "after": "skipped",
    }  # fmt: skip
    assert describe_reasons(result["engine"].reasons)[0].startswith(
        "target trt: TensorrtExecutionProvider does not load on this machine"
    )
    assert describe_reasons(result["after"].reasons) == ("engine was skipped",)
    assert result.exit_code == 0


def test_what_must_run_is_planned_and_then_refused_before_anything_starts(tmp_path: Path) -> None:
    file = write(tmp_path, "error")
    step = orun.plan(file, store=tmp_path / "store")["engine"]
    assert step.action == "run"
    assert describe_reasons(step.reasons) == (
        "the GPU of this machine cannot be read, so nothing built for it can be told from another's",
    )
    with pytest.raises(PipelineError) as caught:
        orun.run(file, store=tmp_path / "store")
    (problem,) = caught.value.problems
    assert problem.message.startswith(
        "target 'trt' of stage 'engine' cannot run here: TensorrtExecutionProvider does not"
    )
    assert problem.hint.endswith("`missing: skip` under target 'trt' skips its stages; see orun doctor")


def test_the_ready_pipeline_is_planned_everywhere(tmp_path: Path) -> None:
    plan = orun.plan(PIPELINES / "tensorrt.yaml", store=tmp_path)
    assert {step.stage.id: step.action for step in plan.steps} == {
        "export": "run", "simplify": "run", "coverage": "skipped", "engine": "skipped", "startup": "skipped",
        "accuracy": "skipped", "latency": "skipped",
    }  # fmt: skip
