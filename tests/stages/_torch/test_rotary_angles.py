"""RotaryEmbedding as PyTorch's exporters write it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

from orun.measure.dataset import Array
from orun.stages._torch.rotary_angles import expand_rotary_angles
from tests.stages.models import parse
from tests.stages.support import answers

ROTATED = """
<ir_version: 10, opset_import: ["" : 23]>
rotated (float[batch, 2, n, 4] x, float[1, n, 2] cos, float[1, n, 2] sin) => (float[batch, 2, n, 4] y)
{ y = RotaryEmbedding (x, cos, sin) }
"""


def test_angles_for_every_text(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((3, 2, 5, 4)).astype(np.float32)
    angles = random.standard_normal((1, 5, 2)).astype(np.float32)
    feed = {"x": x, "cos": np.cos(angles), "sin": np.sin(angles)}
    model = parse(ROTATED)

    def answer() -> Array:
        onnx.save(model, tmp_path / "model.onnx")
        return answers(tmp_path / "model.onnx", feed)[0]

    with pytest.raises((Fail, InvalidArgument, RuntimeException), match="cos_cache"):
        answer()
    expand_rotary_angles(model)
    onnx.checker.check_model(model, full_check=True)
    first, second = x[..., :2], x[..., 2:]
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    right = np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
    np.testing.assert_allclose(answer(), right, rtol=1e-5, atol=1e-6)


def test_angles_by_position_stay() -> None:
    text = ROTATED.replace("RotaryEmbedding (x, cos, sin)", "RotaryEmbedding (x, table, table, places)")
    model = parse(text.replace("float[1, n, 2] sin)", "float[1, n, 2] sin, float[9, 2] table, int64[batch, n] places)"))
    before = model.SerializeToString()
    expand_rotary_angles(model)
    assert model.SerializeToString() == before
