from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from orun.errors import StageFailed
from tests.stages.conftest import MODULES
from tests.stages.models import WORDY, parse
from tests.stages.support import StageRun, artifact, run_stage


def change(folder: Path, function: str, **params: Any) -> StageRun:
    asked = {"function": f"changes.py:{function}", **params}
    model = artifact(folder, parse(WORDY))
    return run_stage("optimize/python", folder, asked, inputs={"model": model}, root=MODULES)


def refusal(folder: Path, function: str, **params: Any) -> str:
    with pytest.raises(StageFailed) as caught:
        change(folder, function, **params)
    return str(caught.value)


def operators(made: StageRun) -> list[str]:
    return [node.op_type for node in onnx.load(made.model).graph.node]


def test_a_function_over_the_proto(tmp_path: Path) -> None:
    made = change(tmp_path, "remove_transposes")
    assert operators(made) == ["Constant", "Add", "Identity", "MatMul", "Mul"]
    assert {name: made.value(name) for name in ("nodes", "nodes_before", "max_abs_error")} == {
        "nodes": 5,
        "nodes_before": 7,
        "max_abs_error": 0,
    }


def test_a_pass_of_onnx_ir(tmp_path: Path) -> None:
    made = change(tmp_path, "eliminate_identity", form="ir")
    assert operators(made) == ["Constant", "Add", "Transpose", "Transpose", "MatMul", "Mul"]
    assert made.value("max_abs_error") == 0


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
