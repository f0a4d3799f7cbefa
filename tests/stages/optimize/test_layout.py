from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.errors import StageFailed, UnknownName
from orun.stages._graph.sessions import open_model
from tests.stages.models import ADD, convolution, parse
from tests.stages.support import StageRun, artifact, run_stage

# As from TensorFlow: channels last outside, first inside.
FROM_TENSORFLOW = """
<ir_version: 9, opset_import: ["" : 20]>
images (float[n, 4, 6, 2] x) => (float[n, 4, 6, 2] y, float[n, 2] means) <float[2] bias = {1, 2}>
{
  a = Transpose <perm = [0, 3, 1, 2]> (x)
  b = Conv <pads = [1, 1, 1, 1]> (a, k)
  c = Transpose <perm = [0, 2, 3, 1]> (b)
  d = Add (c, bias)
  y = Relu (d)
  axes = Constant <value = int64[2] {1, 2}> ()
  means = ReduceMean <keepdims = 0> (y, axes)
}
"""


def change_layout(folder: Path, model: onnx.ModelProto, **params: Any) -> StageRun:
    return run_stage("optimize/layout", folder, params, inputs={"model": artifact(folder, model)})


def from_tensorflow() -> onnx.ModelProto:
    model = onnx.parser.parse_model(FROM_TENSORFLOW)
    kernel = np.random.default_rng(0).standard_normal((2, 2, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(kernel, "k"))
    onnx.checker.check_model(model, full_check=True)
    return model


def test_channels_last(tmp_path: Path) -> None:
    model = convolution()
    run = change_layout(tmp_path, model)
    assert run.interface == {"image": ["n", 8, 8, 3], "scores": ["n", 5]}
    assert [run.value(name) for name in ("transposes", "transposes_before")] == [1, 0]
    images = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    (before,) = open_model(artifact(tmp_path, model) / "model.onnx", ["scores"])({"image": images})
    (after,) = open_model(run.model, ["scores"])({"image": images.transpose(0, 2, 3, 1).copy()})
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_channels_first_cancels_the_transposes_of_tensorflow(tmp_path: Path) -> None:
    run = change_layout(tmp_path, from_tensorflow(), to="nchw")
    assert run.interface == {"x": ["n", 2, 4, 6], "y": ["n", 2, 4, 6], "means": ["n", 2]}
    assert [run.value(name) for name in ("transposes", "transposes_before")] == [0, 2]
    assert run.value("max_abs_error") < 1e-6


def test_there_and_back(tmp_path: Path) -> None:
    last = change_layout(tmp_path, convolution())
    first = run_stage("optimize/layout", tmp_path, {"to": "nchw"}, inputs={"model": last.output})
    assert first.interface == {"image": ["n", 3, 8, 8], "scores": ["n", 5]}
    assert first.value("transposes") == 0


def test_one_value_alone(tmp_path: Path) -> None:
    run = change_layout(tmp_path, from_tensorflow(), to="nchw", values=["y"])
    assert run.interface == {"x": ["n", 4, 6, 2], "y": ["n", 2, 4, 6], "means": ["n", 2]}


def test_what_has_no_images(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        change_layout(tmp_path, parse(ADD))
    assert str(caught.value) == (
        "the model has no images to turn\n"
        "  none of its inputs and outputs has four axes: x has 2, y has 2\n"
        "  hint: name those to turn: `values: [...]`"
    )
    with pytest.raises(StageFailed) as caught:
        change_layout(tmp_path, parse(ADD), values=["x"])
    assert caught.value.problem == "x cannot be turned"
    with pytest.raises(UnknownName) as unknown:
        change_layout(tmp_path, parse(ADD), values=["z"])
    assert unknown.value.problem == "values: the model has no 'z'"
