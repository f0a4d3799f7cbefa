"""A model for web pages, from check to page, in a pipeline."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import onnx
import pytest

import orun
from tests.web import VERSION, install_web, require_program

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 4] x) => (float[N, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { y = MatMul(x, w) }
"""
PIPELINE = f"""
vars: {{web: {VERSION}}}

stages:
  import: {{uses: convert/onnx, with: {{path: model.onnx}}}}
  check:
    uses: check/web
    needs: import
    with: {{onnxruntime_web: "${{vars.web}}", runtime: node}}
    gate: {{max_abs_error: {{max: 1e-4}}}}
  latency:
    uses: measure/web
    needs: {{model: import, reference: import}}
    with: {{onnxruntime_web: "${{vars.web}}", time: 10ms}}
  page: {{uses: release/web, needs: [import, check, latency], with: {{onnxruntime_web: "${{vars.web}}"}}}}
"""


@pytest.fixture
def project(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline file with its model, and onnxruntime-web beside it."""
    require_program("chromium")
    require_program("node")
    installed = install_web(tmp_path_factory)
    shutil.copytree(installed / "node_modules", tmp_path / "node_modules", copy_function=os.link)
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    (tmp_path / "web.yaml").write_text(PIPELINE)
    return tmp_path


@pytest.mark.slow
def test_from_check_to_page(project: Path) -> None:
    file, store = project / "web.yaml", project / "store"
    result = orun.run(file, store=store)
    assert {stage.stage: stage.outcome for stage in result.stages} == dict.fromkeys(
        ("import", "check", "latency", "page"), "built"
    )
    assert result.ok
    page = store / "out" / "web" / "page"
    assert orun.verify(page).ok
    measured = json.loads((page / "measurements.json").read_text())
    assert [entry["stage"] for entry in measured["stages"]] == ["import", "check", "latency"]
    assert {stage.outcome for stage in orun.run(file, store=store).stages} == {"cached"}

    wasm = project / "node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm"
    content = wasm.read_bytes()
    wasm.unlink()  # a link to the file of other tests
    wasm.write_bytes(content + b"\x00\x03\x02ab")  # a section that means nothing
    plan = orun.plan(file, store=store)
    (check,) = [step for step in plan.steps if step.stage.id == "check"]
    assert check.action == "run"
    assert "ort-wasm-simd-threaded.wasm" in str(check.reasons)
