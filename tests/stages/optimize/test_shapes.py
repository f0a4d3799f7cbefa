from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from orun.errors import StageFailed, UnknownName
from tests.stages.models import ADD, LOOKUP, parse, shapes_of
from tests.stages.support import StageRun, artifact, run_stage


def fix(folder: Path, model: Path, **params: Any) -> StageRun:
    return run_stage("optimize/shapes", folder, params, inputs={"model": model})


def shapes(run: StageRun) -> dict[str, list[int | str]]:
    graph = onnx.load(run.model).graph
    return shapes_of((*graph.input, *graph.value_info, *graph.output))


def test_every_shape_of_a_transformer_is_known(tmp_path: Path, tiny_bert: Path) -> None:
    run = fix(tmp_path, tiny_bert, fix={"batch": 1, "sequence": 16})
    assert run.value("dynamic_values") == 0
    assert run.value("fixed_shapes") > 100
    assert run.value("max_abs_error") < 1e-6
    known = shapes(run)
    assert known["input_ids"] == [1, 16]
    assert known["hidden"] == [1, 16, 32]
    assert all(isinstance(axis, int) for axes in known.values() for axis in axes)


def test_operators_of_onnx_runtime_too(tmp_path: Path, fused_bert: Path) -> None:
    run = fix(tmp_path, fused_bert, fix={"batch": 2, "sequence": 8})
    assert shapes(run)["EmbedLayerNormalization_0_output"] == [2, 8, 32]


def test_an_axis_may_stay(tmp_path: Path) -> None:
    run = fix(tmp_path, artifact(tmp_path, parse(LOOKUP)), fix={"length": 3}, dims={"batch": [4, 5]})
    known = shapes(run)
    assert (known["ids"], known["rows"], known["y"]) == (["batch", 3], ["batch", 3, 2], ["batch", 3, 2])
    assert run.value("dynamic_values") == 4


def test_nothing_to_fix_still_infers(tmp_path: Path) -> None:
    assert shapes(fix(tmp_path, artifact(tmp_path, parse(LOOKUP))))["wide"] == ["batch", "length", 1]


def test_a_model_with_a_normalised_output(tmp_path: Path) -> None:
    """ReduceL2 with its axes as an input, which ONNX Runtime's own inference gives up on."""
    model = parse("""
    <ir_version: 9, opset_import: ["" : 20]>
    norm (float[n, 4] x) => (float[n, 4] y) <int64[1] axes = {1}>
    {
      length = ReduceL2 (x, axes)
      shape = Shape (x)
      wide = Expand (length, shape)
      y = Div (x, wide)
    }
    """)
    assert shapes(fix(tmp_path, artifact(tmp_path, model), fix={"n": 2}))["length"] == [2, 1]


def test_an_axis_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        fix(tmp_path, artifact(tmp_path, parse(LOOKUP)), fix={"lenght": 3})
    assert str(caught.value) == ("fix: the model has no 'lenght'\n  it has batch, length")


def test_a_model_that_needs_its_axis(tmp_path: Path) -> None:
    """A reshape to a size that the fixed one does not divide."""
    model = parse("""
    <ir_version: 9, opset_import: ["" : 20]>
    pairs (float[n] x) => (float[m, 2] y) <int64[2] shape = {-1, 2}> { y = Reshape (x, shape) }
    """)
    run = fix(tmp_path, artifact(tmp_path, model), fix={"n": 6})
    assert shapes(run)["y"] == [3, 2]
    with pytest.raises(StageFailed, match="n=5"):
        fix(tmp_path, artifact(tmp_path, model), fix={"n": 5})


def test_a_model_of_two_inputs_with_one_axis(tmp_path: Path) -> None:
    assert shapes(fix(tmp_path, artifact(tmp_path, parse(ADD)), fix={"n": 9})) == {"x": [9, 3], "y": [9, 3]}


WINDOWED = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 4] x) => (float[n, 4] y)
{
  size = Constant <value = int64 {4}> ()
  window = HannWindow (size)
  shown = Mul (x, window)
  y = Neg (shown)
}
"""


def test_shapes_that_are_declared_inside_follow(tmp_path: Path) -> None:
    model = parse(WINDOWED)
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("shown", onnx.TensorProto.FLOAT, [3, 4]))
    assert shapes(fix(tmp_path, artifact(tmp_path, model), fix={"n": 2}))["shown"] == [2, 4]


def test_what_onnx_runtimes_inference_cannot_follow(tmp_path: Path) -> None:
    run = fix(tmp_path, artifact(tmp_path, parse(WINDOWED)), fix={"n": 2})
    assert run.log.startswith("ONNX Runtime's inference cannot follow the model, ONNX's own is used: ")
    assert shapes(run)["shown"] == [2, 4]
    assert run.value("dynamic_values") == 0


def test_axes_that_follow_from_others(tmp_path: Path) -> None:
    """A mask is as long as the past and the text together; an axis without a name stays dynamic."""
    model = parse("""
    <ir_version: 9, opset_import: ["" : 20]>
    decoder (float[batch, past] before, float[batch, length] now, float[batch, both] mask, float[any, 3] free)
      => (float[batch, both] y, float[any, 3] same)
    { all = Concat <axis = 1> (before, now)  y = Mul (all, mask)  same = Identity (free) }
    """)
    for value in (model.graph.input[2], model.graph.output[0]):
        value.type.tensor_type.shape.dim[1].dim_param = "past + length"
    for value in (model.graph.input[3], model.graph.output[1]):
        value.type.tensor_type.shape.dim[0].Clear()
    path = artifact(tmp_path, model)
    some = fix(tmp_path, path, fix={"length": 1})
    assert shapes(some) == {
        "before": ["batch", "past"],
        "now": ["batch", 1],
        "mask": ["batch", "past + 1"],
        "free": ["free_d0", 3],
        "all": ["batch", "past + 1"],
        "y": ["batch", "past + 1"],
        "same": ["free_d0", 3],
    }
    every = shapes(fix(tmp_path, path, fix={"batch": 1, "past": 4, "length": 1}))
    assert every["mask"] == every["y"] == [1, 5]
