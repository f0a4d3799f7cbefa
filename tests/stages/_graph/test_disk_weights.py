"""Models whose weights stay on disk: loaded, completed again, and joined with parts of one another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from orun.stages._graph.disk_weights import load_on_disk
from orun.stages._graph.io import save

LAYERS = """
<ir_version: 9, opset_import: ["" : 20]>
layers (float[n, 64] x, bool b) => (float[n, 64] y)
{
  c = MatMul (x, w)
  k = Constant <value = float[1] {2.0}> ()
  d = Mul (c, k)
  y = If (b) <
    then_branch = then () => (float[n, 64] t) { t = Identity (d) },
    else_branch = other () => (float[n, 64] e) { e = Add (d, small) }
  >
}
"""


@pytest.fixture
def model() -> onnx.ModelProto:
    result = parser.parse_model(LAYERS)
    random = np.random.default_rng(0)
    weights = {"w": random.standard_normal((64, 64)), "small": random.standard_normal(64)}
    result.graph.initializer.extend(
        numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()
    )
    inner = result.graph.node[-1].attribute[1].g
    inner.node[0].input[1] = "inner"
    inner.initializer.append(numpy_helper.from_array(np.ones((1, 64), np.float32) * 3, "inner"))
    return result


@pytest.mark.parametrize("external", [False, True])
def test_only_large_weights_are_apart_and_all_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: onnx.ModelProto, external: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    before = onnx.ModelProto.FromString(model.SerializeToString())
    source = tmp_path / "source"
    source.mkdir()
    if external:
        onnx.save(model, source / "model.onnx", save_as_external_data=True, location="data", size_threshold=0)
    else:
        save(model, source / "model.onnx")
    light = load_on_disk(source / "model.onnx", "weights")
    locations = {tensor.name: tensor.data_location for tensor in light.graph.initializer}
    assert locations == {"w": onnx.TensorProto.EXTERNAL, "small": onnx.TensorProto.DEFAULT}
    assert light.ByteSize() < 64 * 64 * 4
    right = numpy_helper.to_array(before.graph.initializer[0])
    assert np.array_equal(numpy_helper.to_array(light.graph.initializer[0]), right)
    onnx.load_external_data_for_model(light, ".")
    assert [numpy_helper.to_array(tensor).tobytes() for tensor in light.graph.initializer] == [
        numpy_helper.to_array(tensor).tobytes() for tensor in before.graph.initializer
    ]
    inner = light.graph.node[-1].attribute[1].g.initializer[0]
    assert np.array_equal(numpy_helper.to_array(inner), np.full((1, 64), 3, np.float32))
