"""One model with nodes of another: it computes as the other there, and refuses the impossible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orun.errors import StageFailed
from orun.stages import registry
from tests.diagnosis.planted import layers
from tests.stages.support import StageRun, answers, artifact, digest, run_stage

X = np.random.default_rng(3).standard_normal((5, 16)).astype(np.float32)


@pytest.fixture(autouse=True)
def _is_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the kind for `run_stage`; no pipeline file can name it."""
    monkeypatch.setattr(registry, "BUILTIN", (*registry.BUILTIN, "diagnose/restored"))


def restore(folder: Path, model: Path, before: Path, **params: object) -> StageRun:
    options = {"tensors": [], **params}
    return run_stage("diagnose/restored", folder, options, inputs={"model": model, "reference": before})


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    """The quantized model, and the one before it."""
    before = artifact(tmp_path, layers())
    return run_stage("quantize/dynamic", tmp_path, inputs={"model": before}).output, before


def test_every_part_restored_is_the_model_before(tmp_path: Path, models: tuple[Path, Path]) -> None:
    result = restore(tmp_path, *models, tensors=["a", "c", "y"])
    restored, before = (answers(path, {"x": X})[0] for path in (result.model, models[1] / "model.onnx"))
    assert np.array_equal(restored, before)
    assert set(result.operators) == {"MatMul", "Relu", "Tanh"}


def test_a_part_may_be_named_by_a_node(tmp_path: Path, models: tuple[Path, Path]) -> None:
    by_node = restore(tmp_path, *models, nodes=["second"])
    by_tensor = restore(tmp_path, *models, tensors=["c"])
    assert digest(by_node.output) == digest(by_tensor.output)
    assert [by_node.operators.count(name) for name in ("MatMul", "MatMulInteger")] == [1, 2]


def test_a_tensor_that_they_do_not_share(tmp_path: Path, models: tuple[Path, Path]) -> None:
    with pytest.raises(StageFailed, match="the models do not share nowhere"):
        restore(tmp_path, *models, tensors=["nowhere"])


def test_a_node_that_no_file_has(tmp_path: Path, models: tuple[Path, Path]) -> None:
    with pytest.raises(StageFailed, match="no node of the model's file can be replaced") as failed:
        restore(tmp_path, *models, nodes=["fused by the runtime"])
    assert failed.value.why == "fused by the runtime: ONNX Runtime makes these nodes itself when it opens the model"
