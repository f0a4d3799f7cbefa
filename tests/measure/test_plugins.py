"""Plug-in providers by path that ONNX Runtime refuses; tests/acceptance/test_qnn.py has those that it takes."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest

import orun
from orun.core.targets import Provider, Target
from orun.errors import PipelineError, UsageError
from orun.measure.session import open_session
from tests.measure.support import save_model

LIBRARY = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_shared.so"
NO_PLUGIN = f"{LIBRARY} is no plug-in of ONNX Runtime"
PIPELINE = """
targets:
  npu: {providers: [{library: LIBRARY, name: MyExecutionProvider}]}
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}}
  covered: {uses: check/coverage, needs: import, with: {target: npu}}
"""


def test_a_library_that_is_no_plugin(tmp_path: Path) -> None:
    save_model(tmp_path / "model.onnx")
    target = Target("npu", (Provider("MyExecutionProvider", {}, str(LIBRARY)),))
    with pytest.raises(UsageError) as caught:
        open_session(tmp_path / "model.onnx", target)
    assert caught.value.problem == NO_PLUGIN
    assert "CreateEpFactories" in caught.value.why


def test_it_is_an_error_at_the_line_of_the_stage_before_any_runs(tmp_path: Path) -> None:
    save_model(tmp_path / "model.onnx")
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("LIBRARY", str(LIBRARY)))
    with pytest.raises(PipelineError) as caught:
        orun.run(tmp_path / "p.yaml", store=tmp_path / "store")
    (problem,) = caught.value.problems
    assert (problem.position.line, problem.position.column) == (6, 3)
    assert problem.message == (
        "target 'npu' of stage 'covered' cannot run here: MyExecutionProvider does not load on this machine "
        f"({NO_PLUGIN})"
    )


def test_its_path_is_taken_relative_to_the_pipeline_file(tmp_path: Path) -> None:
    target = Target("npu", (Provider("MyExecutionProvider", {}, "lib/my.so"), Provider("CPUExecutionProvider")))
    assert target.plugins == ("lib/my.so",)
    assert [item.library for item in target.resolve_paths(tmp_path).providers] == [str(tmp_path / "lib/my.so"), ""]
