"""Source models at the inputs of stages: what connects them, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

from orun.core.source_model import SourceModel
from orun.pipeline.model import Reference
from tests.pipeline.support import complaint, loaded

STAGES = """
targets:
  gpu: {providers: [CUDAExecutionProvider]}
stages:
  train: {uses: ./train.py:train}
  torch:
    uses: convert/torch
    needs: train
    with: {model: code.py:load, inputs: {x: {shape: [batch, 4]}}, outputs: [y]}
  onnx: {uses: convert/onnx, with: {path: model.onnx}}
"""
TRAIN = """
import orun

@orun.stage(inputs={}, output="files")
def train(context):
    pass
"""


def write(folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN)


def latency(needs: str, params: str) -> str:
    return (
        f"{STAGES}  latency:\n    uses: measure/latency\n    needs: {{model: onnx, {needs}}}\n    with: {{{params}}}\n"
    )


def test_a_stage_gets_what_the_convert_stage_has(tmp_path: Path) -> None:
    write(tmp_path)
    pipeline = loaded(tmp_path, latency("reference: torch", "reference_runtime: torch"))
    stage, convert = pipeline.stage("latency"), pipeline.stage("torch")
    held = {"weights": "weights@reference"}
    assert stage.sources == {
        "reference": SourceModel("torch", "orun.stages.convert.torch", "torch", convert.params, held, ("torch",))
    }
    assert stage.needs == {"model": "onnx", "reference": "torch", "weights@reference": "train"}
    assert stage.references == (Reference("model@reference", "code.py", "load"),)


def test_each_of_several_references_has_a_runtime_of_its_own(tmp_path: Path) -> None:
    write(tmp_path)
    needs = "reference: torch, reference.eager: torch, reference.compiled: torch"
    params = "reference_runtime: {reference.eager: torch, reference.compiled: torch.compile}"
    stage = loaded(tmp_path, latency(needs, params)).stage("latency")
    assert {port: source.runtime for port, source in stage.sources.items()} == {
        "reference.eager": "torch",
        "reference.compiled": "torch.compile",
    }


def test_onnx_runtime_is_no_other_framework(tmp_path: Path) -> None:
    write(tmp_path)
    for text in ("", "reference_runtime: onnxruntime"):
        assert loaded(tmp_path, latency("reference: onnx", text)).stage("latency").sources == {}


def test_a_stage_without_such_a_source_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    assert complaint(tmp_path, latency("reference: onnx", "reference_runtime: torch")) == (
        "p.yaml:14:31: error: 'onnx' (convert/onnx) has no source model that torch runs\n"
        "   14 |     with: {reference_runtime: torch}\n"
        "      |                               ^^^^^\n"
        "  expected: `reference:` a stage of convert/torch"
    )
    assert complaint(tmp_path, latency("reference: torch", "reference_runtime: tensorflow")) == (
        "p.yaml:14:31: error: 'torch' (convert/torch) has no source model that tensorflow runs\n"
        "   14 |     with: {reference_runtime: tensorflow}\n"
        "      |                               ^^^^^^^^^^\n"
        "  expected: torch or torch.compile"
    )


def test_a_runtime_without_a_reference_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    assert complaint(tmp_path, latency("", "reference_runtime: torch")) == (
        "p.yaml:14:31: error: 'reference_runtime' says what runs the reference, and none is connected\n"
        "   14 |     with: {reference_runtime: torch}\n"
        "      |                               ^^^^^\n"
        "  expected: `needs: {model: STAGE, reference: STAGE}`"
    )
    assert complaint(tmp_path, latency("reference: torch", "reference_runtime: {reference.eager: torch}")) == (
        "p.yaml:14:32: error: 'reference.eager' is not a connected reference\n"
        "   14 |     with: {reference_runtime: {reference.eager: torch}}\n"
        "      |                                ^^^^^^^^^^^^^^^\n"
        "  expected: reference"
    )


def test_a_runtime_that_there_is_not(tmp_path: Path) -> None:
    write(tmp_path)
    text = complaint(tmp_path, latency("reference: torch", "reference_runtime: pytorch"))
    assert text.startswith("p.yaml:14:31: error: 'reference_runtime' cannot be 'pytorch'\n")
    assert "did you mean: torch" in text


def test_a_target_of_another_device_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    assert complaint(tmp_path, latency("reference: torch", "reference_runtime: torch, target: gpu")) == (
        "p.yaml:14:31: error: torch runs on the CPU here, and target 'gpu' on CUDAExecutionProvider\n"
        "   14 |     with: {reference_runtime: torch, target: gpu}\n"
        "      |                               ^^^^^\n"
        "  expected: `reference_target:` a target of the CPU, such as `cpu`"
    )
    params = "reference_runtime: torch, target: gpu, reference_target: cpu"
    assert loaded(tmp_path, latency("reference: torch", params)).stage("latency").sources
