from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import onnx
import onnxsim
import onnxslim
import pytest
from onnx import numpy_helper
from onnxslim.core.pattern.registry import DEFAULT_FUSION_PATTERNS

from orun.errors import StageFailed
from orun.stages.optimize.simplify import Pass, Pattern
from tests.stages.models import WORDY, parse, tied
from tests.stages.support import StageRun, artifact, run_stage

BATCHED = """
<ir_version: 9, opset_import: ["" : 20]>
batched (float[b, s, 2] x) => (float[b, s, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2] bias = {1, 2}>
{
  product = MatMul (x, w)
  y = Add (product, bias)
}
"""


def simplify(folder: Path, model: onnx.ModelProto, **params: Any) -> StageRun:
    return run_stage("optimize/simplify", folder, params, inputs={"model": artifact(folder, model)})


def refusal(folder: Path, model: onnx.ModelProto, **params: Any) -> str:
    with pytest.raises(StageFailed) as caught:
        simplify(folder, model, **params)
    return str(caught.value)


def test_folds_and_removes_and_agrees(tmp_path: Path) -> None:
    run = simplify(tmp_path, parse(WORDY))
    assert run.operators == ["Constant", "MatMul", "Mul"]
    assert {name: metric.value for name, metric in run.metrics.items()} == {
        "size": run.model.stat().st_size,
        "nodes": 3,
        "nodes_before": 7,
        "max_abs_error": 0.0,
    }
    assert not onnx.load(run.model).metadata_props


def test_matmul_and_add_stay_apart_unless_asked(tmp_path: Path) -> None:
    model = parse(BATCHED)
    assert simplify(tmp_path, model).operators == ["MatMul", "Add"]
    assert simplify(tmp_path, model, skip=[]).operators.count("Gemm") == 1


def test_a_pass_is_left_out(tmp_path: Path) -> None:
    skip = ["eliminate_identity", "fuse_consecutive_transposes", "eliminate_nop_transpose"]
    run = simplify(tmp_path, parse(WORDY), skip=skip)
    assert run.operators.count("Transpose") == 2


@pytest.mark.filterwarnings("ignore")
def test_the_passes_are_those_of_onnxsim(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--list-default-optimizers", "--list-other-optimizers"):
        monkeypatch.setattr(sys, "argv", ["onnxsim", option])
        with pytest.raises(SystemExit):
            onnxsim.main()
    assert set(get_args(Pass)) <= {*capsys.readouterr().out.split()}


def test_a_wrong_result_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simplifier that halves a weight: what a broken pass does."""
    right = onnxsim.simplify

    def halve(*arguments: object, output_path: str, **options: object) -> None:
        right(*arguments, output_path=output_path, **options)
        model = onnx.load(output_path)
        weight = model.graph.initializer[0]
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) / 2, weight.name))
        onnx.save(model, output_path)

    monkeypatch.setattr(onnxsim, "simplify", halve)
    problem, *_, hint = refusal(tmp_path, parse(WORDY)).splitlines()
    assert problem == "the simplified model disagrees with the model before it in output 'y'"
    assert hint == "  hint: leave out the pass that does it: `skip: [...]`"


@pytest.mark.parametrize(
    ("library", "function", "error", "why"),
    [
        (onnxsim, "simplify", RuntimeError("Unrecognized attribute"), "RuntimeError: Unrecognized attribute"),
        (onnxslim, "slim", KeyError(), "KeyError: no message"),
    ],
)
def test_a_simplifier_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: ModuleType, function: str, error: Exception, why: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(library, function, fail)
    assert refusal(tmp_path, parse(WORDY), tool=library.__name__) == (
        f"{library.__name__} cannot simplify the model\n"
        f"  {why}\n"
        "  hint: leave passes out, `skip: [...]`, or use `optimize/graph` with `level: basic` instead; "
        "the log has the whole message"
    )


def test_onnxslim(tmp_path: Path) -> None:
    """It folds and cancels as onnxsim does, and leaves no Constant."""
    run = simplify(tmp_path, parse(WORDY), tool="onnxslim")
    assert run.operators == ["MatMul", "Mul"]
    assert [run.value(name) for name in ("nodes", "nodes_before", "max_abs_error")] == [2, 7, 0.0]
    skip = ["EliminationTranspose", "EliminationTransposeAsReshape"]
    assert simplify(tmp_path, parse(WORDY), tool="onnxslim", skip=skip).operators.count("Transpose") == 2


OF_OLD = """
<ir_version: 3, opset_import: ["" : 9]>
old (float[n, 4] x, float[n, 4] unread) => (float[n, 4] y) { y = Relu (x) }
"""


def test_onnxslim_keeps_what_nobody_reads(tmp_path: Path) -> None:
    """By itself it drops such an input."""
    run = simplify(tmp_path, parse(OF_OLD), tool="onnxslim")
    assert [value.name for value in onnx.load(run.model).graph.input] == ["x", "unread"]


def test_an_operator_set_before_onnxslim(tmp_path: Path) -> None:
    assert refusal(tmp_path, parse(OF_OLD.replace(": 9]", ": 6]")), tool="onnxslim") == (
        "onnxslim takes operator sets from 7 on\n"
        "  the model uses 6\n"
        "  hint: put `convert/opset` before it, or simplify with `tool: onnxsim`"
    )


def test_onnxslim_leaves_what_is_fused(tmp_path: Path, tiny_bert: Path) -> None:
    slim = run_stage("optimize/simplify", tmp_path, {"tool": "onnxslim"}, inputs={"model": tiny_bert})
    fused = run_stage("optimize/transformer", tmp_path, inputs={"model": slim.output})
    assert fused.operators.count("Attention") == 2


def test_the_patterns_are_those_of_onnxslim() -> None:
    assert set(get_args(Pattern)) <= set(DEFAULT_FUSION_PATTERNS)


def test_a_pass_of_the_other_tool(tmp_path: Path) -> None:
    assert refusal(tmp_path, parse(WORDY), tool="onnxslim", skip=["eliminate_identity"]).splitlines()[:2] == [
        "skip: onnxslim has no pass 'eliminate_identity'",
        f"  its passes are {', '.join(get_args(Pattern))}",
    ]


@pytest.mark.parametrize("tool", ["onnxsim", "onnxslim"])
def test_a_table_of_words_that_is_the_last_product_as_well_is_stored_once(tmp_path: Path, tool: str) -> None:
    run = simplify(tmp_path, tied(), tool=tool)
    assert [tensor.name for tensor in onnx.load(run.model).graph.initializer if len(tensor.dims) > 1] == ["table"]
    assert run.value("max_abs_error") == 0
