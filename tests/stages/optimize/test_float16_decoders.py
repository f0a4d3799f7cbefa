"""Decoders of `transformers` in float16, with masks as their export declared them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.errors import StageFailed
from tests.stages.conftest import export_decoder
from tests.stages.modules.architectures import DECODERS
from tests.stages.support import artifact, run_stage
from tests.thin import mostly_slow

LOOSE = {"atol": 0.05, "rtol": 0.05}
UNSEEN = "were not compared: they depend on attention rows that see nothing"


@pytest.mark.parametrize("family", mostly_slow(DECODERS, "mistral"))
def test_padded_behind(tmp_path: Path, family: str) -> None:
    made = run_stage(
        "optimize/float16", tmp_path, LOOSE, inputs={"model": export_decoder(tmp_path, family, "right-padded")}
    )
    if DECODERS[family][1].get("sliding_window"):  # behind a text by more than the window
        (note,) = made.notes
        left = 490 if family.startswith("gemma") else 495  # whose token of padding scores 0 in each row
        assert note == f"{left} of 5,049 values of output 'scores' {UNSEEN}"
    else:
        assert made.notes == ()


@pytest.mark.parametrize(
    ("family", "fuse"), mostly_slow(product(["llama", "mistral", "gpt2"], [False, True]), ("llama", True))
)
def test_padded_anywhere(tmp_path: Path, family: str, *, fuse: bool) -> None:
    model = export_decoder(tmp_path, family, "mask")
    if fuse:
        model = run_stage("optimize/transformer", tmp_path, {"method": "rules"}, inputs={"model": model}).output
    made = run_stage("optimize/float16", tmp_path, LOOSE, inputs={"model": model})
    (note,) = made.notes
    assert note.endswith(f" values of output 'scores' {UNSEEN}")
    left, total = (int(part.replace(",", "")) for part in (note.split()[0], note.split()[2]))
    assert 0 < left < total / 10


def test_weights_that_float16_cannot_hold(tmp_path: Path) -> None:
    """Rows that see nothing are left out, and the others are still compared."""
    model = onnx.load(export_decoder(tmp_path, "llama", "mask") / "model.onnx")
    head = next(one for one in reversed(model.graph.initializer) if one.dims == [32, 99])
    large = (numpy_helper.to_array(head) + 1e-4 * np.arange(99)).astype(np.float32) * 1e6
    head.CopyFrom(numpy_helper.from_array(large, head.name))
    with pytest.raises(StageFailed) as caught:
        run_stage("optimize/float16", tmp_path, LOOSE, inputs={"model": artifact(tmp_path, model)})
    assert caught.value.what == "the float16 model disagrees with the model before it in output 'scores'"
