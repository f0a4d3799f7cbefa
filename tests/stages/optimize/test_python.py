from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.errors import OutputRefused, StageFailed
from tests.stages.conftest import MODULES
from tests.stages.models import WORDY, parse
from tests.stages.support import StageRun, answers, artifact, run_stage


def change(folder: Path, function: str, **params: Any) -> StageRun:
    given_params = {"function": f"changes.py:{function}", **params}
    model = artifact(folder, parse(WORDY))
    return run_stage("optimize/python", folder, given_params, inputs={"model": model}, root=MODULES)


def refusal(folder: Path, function: str, **params: Any) -> str:
    with pytest.raises(StageFailed) as caught:
        change(folder, function, **params)
    return str(caught.value)


def test_a_function_over_the_proto(tmp_path: Path) -> None:
    run = change(tmp_path, "remove_transposes")
    assert run.operators == ["Constant", "Add", "Identity", "MatMul", "Mul"]
    assert {name: run.value(name) for name in ("nodes", "nodes_before", "max_abs_error")} == {
        "nodes": 5,
        "nodes_before": 7,
        "max_abs_error": 0,
    }


def test_a_pass_of_onnx_ir(tmp_path: Path) -> None:
    run = change(tmp_path, "eliminate_identity", form="ir")
    assert run.operators == ["Constant", "Add", "Transpose", "Transpose", "MatMul", "Mul"]
    assert run.value("max_abs_error") == 0


def test_a_result_that_differs(tmp_path: Path) -> None:
    text = refusal(tmp_path, "wrong_weight")
    assert text.startswith("the changed model disagrees with the model before it in output 'y'\n  ")
    assert text.endswith("hint: look at what changes.py:wrong_weight changes; `check: false` where that is meant")
    assert change(tmp_path, "wrong_weight", check=False).value("max_abs_error") > 1


def test_a_function_that_returns_something_else(tmp_path: Path) -> None:
    hint = "\n  hint: `form` says whether it gets and returns an onnx.ModelProto or an onnx_ir.Model"
    assert refusal(tmp_path, "nothing") == (
        f"changes.py:nothing must return a ModelProto\n  it returned a NoneType{hint}"
    )
    assert refusal(tmp_path, "nothing", form="ir") == (
        f"changes.py:nothing must return a Model\n  it returned a NoneType{hint}"
    )


def test_further_outputs_are_said(tmp_path: Path) -> None:
    with pytest.raises(OutputRefused) as caught:
        change(tmp_path, "with_scores")
    assert str(caught.value) == (
        "optimize/python changed the inputs or outputs of the model\n  outputs: y -> y, scores\n"
        "  hint: `interface: changed` where that is meant"
    )
    run = change(tmp_path, "with_scores", interface="changed")
    assert [value.name for value in onnx.load(run.model).graph.output] == ["y", "scores"]
    assert run.value("max_abs_error") == 0


def test_outputs_that_stayed_are_compared(tmp_path: Path) -> None:
    text = refusal(tmp_path, "wrong_with_scores", interface="changed")
    assert text.startswith("the changed model disagrees with the model before it in output 'y'\n  ")


def test_other_inputs_are_only_run(tmp_path: Path) -> None:
    run = change(tmp_path, "from_bytes", interface="changed")
    assert set(run.metrics) == {"size", "nodes", "nodes_before"}
    assert run.log == "ran the changed model on 5 inputs: it takes others than before, or yields others\n"
    [y] = answers(run.model, {"pixels": np.full((2, 4), 3, np.uint8)})
    assert np.allclose(y, np.full((2, 4), 3.0) @ numpy_helper.to_array(parse(WORDY).graph.initializer[0]) * 4)
