from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from orun.core.targets import Provider, Target
from orun.errors import OrunError, UsageError
from tests.stages.models import WORDY, parse
from tests.stages.support import StageRun, artifact, run_stage


def optimize(folder: Path, model: Path, target: Target | None = None, **params: Any) -> StageRun:
    return run_stage("optimize/graph", folder, params, inputs={"model": model}, target=target)


def test_levels_go_further_and_agree(tmp_path: Path) -> None:
    nodes = {}
    for level in ("disable", "basic", "extended", "layout", "all"):
        run = optimize(tmp_path, artifact(tmp_path, parse(WORDY)), level=level)
        assert run.value("max_abs_error") < 1e-6
        nodes[level] = run.value("nodes")
    assert nodes == {"disable": 6, "basic": 2, "extended": 1, "layout": 1, "all": 1}


def test_extended_fuses_to_its_own_operators(tmp_path: Path, tiny_bert: Path) -> None:
    run = optimize(tmp_path, tiny_bert)
    assert run.value("max_abs_error") < 1e-5
    assert "SkipLayerNormalization" in run.operators
    assert "SkipLayerNormalization" not in optimize(tmp_path, tiny_bert, level="basic").operators
    assert "SkipLayerNormalization" not in optimize(tmp_path, tiny_bert, skip=["SkipLayerNormFusion"]).operators


def test_sizes_that_the_target_fixes_are_left_to_the_session(tmp_path: Path) -> None:
    target = Target("small", session={"free_dimension_overrides": {"n": 2}})
    run = optimize(tmp_path, artifact(tmp_path, parse(WORDY)), target)
    assert onnx.load(run.model).graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"


def test_a_provider_that_cannot_load_is_no_cpu(tmp_path: Path) -> None:
    target = Target("nowhere", (Provider("NoSuchExecutionProvider"),))
    with pytest.raises(OrunError, match="NoSuchExecutionProvider"):
        optimize(tmp_path, artifact(tmp_path, parse(WORDY)), target)


def test_an_operator_that_onnx_runtime_does_not_know(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "nowhere" : 1]> g (float[2] x) => (float[2] y) { y = nowhere.Op(x) }'
    )
    folder = artifact(tmp_path, model)
    with pytest.raises(UsageError) as caught:
        optimize(tmp_path, folder)
    assert str(caught.value) == (
        "ONNX Runtime cannot optimize the model\n"
        f"  {folder.name}/model.onnx: Fatal error: nowhere:Op(-1) is not a registered function/op"
    )


OF_OLD = """
<ir_version: 3, opset_import: ["" : 9]>
old (float[n, 2] x, float[2, 2] w) => (float[n, 2] y) <float[2, 2] w = {1, 2, 3, 4}>
{
  turned = Transpose (w)
  y = MatMul (x, turned)
}
"""


def test_what_is_folded_in_a_model_of_old(tmp_path: Path) -> None:
    """Up to IR version 3 whatever is stored must be an input too, which a folded constant is not."""
    run = optimize(tmp_path, artifact(tmp_path, parse(OF_OLD)), level="basic")
    assert run.operators == ["MatMul"]
    assert onnx.load(run.model).ir_version == 4


GELU = """
<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]>
g (float[n, 4] x) => (float[n, 4] y) { y = com.microsoft.Gelu (x) }
"""


def test_the_session_options_of_the_target_decide(tmp_path: Path) -> None:
    model = artifact(tmp_path, onnx.parser.parse_model(GELU))
    target = Target("fast", session={"optimization.enable_gelu_approximation": "1"})
    runs = [optimize(tmp_path, model, chosen, level="extended", atol=1e-2) for chosen in (None, target)]
    assert [result.operators for result in runs] == [["Gelu"], ["FastGelu"]]
