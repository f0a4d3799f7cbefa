"""Decoders of `transformers` in float16, with masks as their export declared them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.errors import StageFailed
from tests.stages.conftest import export_decoder
from tests.stages.modules.architectures import DECODERS
from tests.stages.support import StageRun, artifact, run_stage

LOOSE = {"atol": 0.05, "rtol": 0.05}
UNSEEN = "were not compared: they depend on attention rows that see nothing"


@pytest.fixture(scope="module")
def mistral(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder whose window is shorter than some paddings behind its texts."""
    return export_decoder(tmp_path_factory.mktemp("mistral"), "mistral", "right-padded")


def to_float16(folder: Path, model: Path) -> StageRun:
    return run_stage("optimize/float16", folder, LOOSE, inputs={"model": model})


def fuse_attention(folder: Path, model: Path) -> Path:
    return run_stage("optimize/transformer", folder, {"method": "rules"}, inputs={"model": model}).output


def test_rows_behind_a_text_by_more_than_the_window_see_nothing(tmp_path: Path, mistral: Path) -> None:
    note = f"495 of 5,049 values of output 'scores' {UNSEEN}"
    assert to_float16(tmp_path, mistral).notes == (note,)
    assert to_float16(tmp_path, fuse_attention(tmp_path, mistral)).notes == (note,)


@pytest.mark.slow
@pytest.mark.parametrize("family", [family for family in DECODERS if family != "mistral"])
def test_padded_behind(tmp_path: Path, family: str) -> None:
    run = to_float16(tmp_path, export_decoder(tmp_path, family, "right-padded"))
    windowed = family.startswith("gemma")  # its token of padding scores 0 in each row
    assert run.notes == ((f"490 of 5,049 values of output 'scores' {UNSEEN}",) if windowed else ())


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "mistral", "gpt2"])
def test_padded_anywhere(tmp_path: Path, family: str) -> None:
    model = export_decoder(tmp_path, family, "mask")
    for form in (model, fuse_attention(tmp_path, model)):
        (note,) = to_float16(tmp_path, form).notes
        assert note.endswith(f" values of output 'scores' {UNSEEN}")
        left, total = (int(part.replace(",", "")) for part in (note.split()[0], note.split()[2]))
        assert 0 < left < total / 10


@pytest.mark.slow
def test_weights_that_float16_cannot_hold(tmp_path: Path, mistral: Path) -> None:
    """Rows that see nothing are left out, and the others are still compared."""
    model = onnx.load(mistral / "model.onnx")
    head = next(tensor for tensor in reversed(model.graph.initializer) if tensor.dims == [32, 99])
    large = (numpy_helper.to_array(head) + 1e-4 * np.arange(99)).astype(np.float32) * 1e6
    head.CopyFrom(numpy_helper.from_array(large, head.name))
    with pytest.raises(StageFailed) as caught:
        to_float16(tmp_path, artifact(tmp_path, model))
    assert caught.value.problem == "the float16 model disagrees with the model before it in output 'scores'"
