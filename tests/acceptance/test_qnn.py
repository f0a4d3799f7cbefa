"""QNN on the simulator that its package brings along: contexts for Qualcomm's NPU, and the plug-in by its path."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

import orun
from tests.acceptance.support import copy_plugin, make_environments

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 4] x) => (float[4, 4] y)
<float[4, 4] w = {1, 0, 0.5, 0, 0, 1, 0, 0.25, 0.5, 0, 1, 0, 0, 0.25, 0, 1}> {
  m = MatMul(x, w)
  y = Relu(m)
}
"""
PIPELINE = """
environments:
  qnn: {packages: [onnxruntime==1.31.1, onnxruntime-qnn==2.7.0, onnx==1.23.2, numpy==2.4.6]}
targets:
  htp:
    environment: qnn
    providers: [QNNExecutionProvider: {backend_type: htp}]
    fallback: forbid-cpu
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  covered: {uses: check/coverage, needs: import, with: {target: htp}}
  engine: {uses: compile/engine, needs: import, with: {target: htp, launches: 1, atol: 1e-2}}
"""
BY_PATH = PIPELINE.replace(
    "QNNExecutionProvider: {backend_type: htp}",
    "{library: LIBRARY, name: QNNExecutionProvider, options: {backend_type: htp}}",
)


@pytest.mark.slow
def test_a_plugin_by_its_path_is_used_and_in_the_key(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    (tmp_path / "packages.yaml").write_text(PIPELINE, "utf-8")
    make_environments(tmp_path / "packages.yaml")
    library = copy_plugin(tmp_path / "packages.yaml", "libonnxruntime_providers_qnn.so", tmp_path / "lib")
    (tmp_path / "path.yaml").write_text(BY_PATH.replace("LIBRARY", str(library.relative_to(tmp_path))), "utf-8")
    result = orun.run(tmp_path / "path.yaml", store=tmp_path / "store")
    assert result.exit_code == 0, [stage.failure for stage in result.stages]
    assert result["covered"].metrics["coverage"].value == 1
    assert result["engine"].metrics["max_abs_error"].value < 1e-2
    contents = [item.subject for item in result["covered"].inputs if item.kind == "content"]
    assert contents == ["target.plugins[0]"]


@pytest.mark.slow
def test_a_context_is_made_loaded_back_and_right(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    (tmp_path / "qnn.yaml").write_text(PIPELINE, "utf-8")
    make_environments(tmp_path / "qnn.yaml")
    result = orun.run(tmp_path / "qnn.yaml", store=tmp_path / "store")
    assert result.exit_code == 0, [stage.failure for stage in result.stages]
    assert result["covered"].metrics["coverage"].value == 1
    engine = result["engine"]
    assert (engine.metrics["compiled"].value, engine.metrics["left"].value) == (1, 0)
    assert engine.metrics["max_abs_error"].value < 1e-2
    folder = Path(engine.out)
    assert sorted(path.name for path in folder.iterdir()) == ["engine.json", "model.onnx", "model_qnn.bin"]
    assert json.loads((folder / "engine.json").read_text())["provider"] == "QNNExecutionProvider"
    assert [node.op_type for node in onnx.load(folder / "model.onnx").graph.node] == ["EPContext"]
