from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from orun.errors import StageFailed, UnknownName
from tests.stages.models import LOOKUP, TWO_PRODUCTS, WORDY, parse
from tests.stages.support import StageRun, answers, artifact, run_stage


def convert(folder: Path, model: Path, **params: Any) -> StageRun:
    return run_stage("optimize/float16", folder, params, inputs={"model": model})


def types(run: StageRun) -> list[int]:
    graph = onnx.load(run.model).graph
    return [value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)]


def test_half_the_size_and_near(tmp_path: Path, tiny_bert: Path) -> None:
    before = (tiny_bert / "model.onnx").stat().st_size
    run = convert(tmp_path, tiny_bert)
    assert run.value("size") < 0.7 * before
    assert 0 < run.value("max_abs_error") < 5e-3
    assert run.value("half_weights") > 30
    assert types(run) == [TensorProto.INT64, TensorProto.INT64, TensorProto.FLOAT]


def test_inputs_and_outputs_too(tmp_path: Path) -> None:
    run = convert(tmp_path, artifact(tmp_path, parse(WORDY)), keep_io_types=False)
    assert types(run) == [TensorProto.FLOAT16, TensorProto.FLOAT16]
    assert "Cast" not in run.operators
    assert 0 < run.value("max_abs_error") < 1e-2


@pytest.fixture(scope="module")
def half_bert(tmp_path_factory: pytest.TempPathFactory, fused_bert: Path) -> StageRun:
    return convert(tmp_path_factory.mktemp("half"), fused_bert)


@pytest.mark.parametrize("block", ["MatMul", "SkipLayerNormalization", "Attention"])
def test_a_fused_model_with_types_kept(tmp_path: Path, fused_bert: Path, half_bert: StageRun, block: str) -> None:
    """Several such nodes read one value, and ONNX cannot infer the type of what fused operators yield."""
    kept = convert(tmp_path, fused_bert, block_types=[block])
    assert kept.operators.count(block) == half_bert.operators.count(block) > 0
    assert kept.value("half_weights") < half_bert.value("half_weights")
    onnx.checker.check_model(kept.model)


def test_what_has_no_float16_form_stays_as_it_is(tmp_path: Path) -> None:
    graph = "g (float[n,4] x) => (float[n,4] y) <int64 axis = {1}> { a = MatMul (x, w) y = CumSum (a, axis) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}')
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"))
    run = run_stage("optimize/float16", tmp_path, inputs={"model": artifact(tmp_path, model)})
    (sums,) = (node for node in onnx.load(run.model).graph.node if node.op_type == "CumSum")
    (cast,) = (node for node in onnx.load(run.model).graph.node if sums.input[0] in node.output)
    assert (cast.op_type, cast.attribute[0].i) == ("Cast", onnx.TensorProto.FLOAT)


def test_inputs_and_outputs_without_a_name(tmp_path: Path) -> None:
    """As those of exported decoders: an optional output that nothing reads, and bounds that are left out."""
    graph = (
        "g (float[n,4] x) => (float[n,4] y) <float[4] scale = {1, 2, 3, 4}, float low = {-1}> "
        "{ c = Clip (x, low, low) t, u = LayerNormalization (c, scale) y = Abs (t) }"
    )
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}')
    model.graph.node[1].output[1] = ""
    model.graph.node[0].input[:] = ["x", "low", ""]
    run = convert(tmp_path, artifact(tmp_path, model))
    (clip,) = (node for node in onnx.load(run.model).graph.node if node.op_type == "Clip")
    assert [bool(name) for name in clip.input] == [True, True, False]
    assert run.value("max_abs_error") < 1e-2


def test_a_node_is_kept_by_its_name(tmp_path: Path) -> None:
    run = convert(tmp_path, artifact(tmp_path, parse(TWO_PRODUCTS)), block_nodes=["first"])
    stored = {tensor.name: tensor.data_type for tensor in onnx.load(run.model).graph.initializer}
    assert stored == {"w": TensorProto.FLOAT, "v": TensorProto.FLOAT16}


def test_a_value_that_several_kept_nodes_read(tmp_path: Path, tiny_bert: Path) -> None:
    run = convert(tmp_path, tiny_bert, block_types=["MatMul", "Softmax"])
    outputs = [name for node in onnx.load(run.model).graph.node for name in node.output]
    assert len(outputs) == len(set(outputs))


def test_what_half_precision_cannot_hold(tmp_path: Path) -> None:
    model = parse(WORDY)
    large = np.full((4, 4), 1e6, np.float32)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(large, "w"))
    with pytest.raises(StageFailed) as caught:
        convert(tmp_path, artifact(tmp_path, model))
    assert caught.value.problem == "the float16 model disagrees with the model before it in output 'y'"
    assert caught.value.hint == (
        "keep what needs range or precision in float32: `mixed: true`, `block_types`, `block_nodes`"
    )


RANGE = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 2] x) => (float[n, 2] y)
<float[2, 2] a = {0.1, 0.2, 0.3, 0.4}, float[2, 2] large = {1e6, 2e6, 3e6, 4e6}, float scale = {1e-7}>
{
  p = MatMul (x, a) q = Tanh (p) r = MatMul (q, a) s = Tanh (r)
  [beyond] t = MatMul (s, large) u = Mul (t, scale) v = MatMul (u, a) y = Tanh (v)
}
"""


def test_what_must_stay_float32_is_found(tmp_path: Path) -> None:
    model = artifact(tmp_path, parse(RANGE))
    with pytest.raises(StageFailed, match=r"^the float16 model disagrees with the model before it"):
        convert(tmp_path, model)
    run = convert(tmp_path, model, mixed=True)
    assert (run.value("kept"), run.value("half_weights")) == (2, 1)
    assert "2 of 8 nodes stay float32:\n  t\n  u\n" in run.log
    graph = onnx.load(run.model).graph
    assert [node.name for node in graph.node if node.op_type == "MatMul"] == ["", "", "beyond", ""]
    stored = {tensor.name: tensor.data_type for tensor in graph.initializer}
    assert stored["large"] == TensorProto.FLOAT
    assert stored["a"] == TensorProto.FLOAT16


WIDE = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 1] amount, int64[n, 1] cents, bool c) => (float[n, 3] y, float[n, 3] z, float[n, 3] branch)
<float[3, 3] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}, float scale = {1e-9}>
{
  whole = Cast <to = 1> (cents)
  y = Concat <axis = 1> (amount, whole, amount)
  small = Mul (y, scale)
  z = MatMul (small, w)
  branch = If (c) <
    then_branch = a () => (float[n, 3] p) { r = Concat <axis = 1> (amount, whole, whole)  p = Mul (r, scale) },
    else_branch = b () => (float[n, 3] q) { q = Mul (y, scale) }
  >
}
"""


@pytest.mark.parametrize("keep", [True, False])
def test_float32_nodes_get_and_yield_what_float16_cannot_hold(tmp_path: Path, *, keep: bool) -> None:
    """In every graph; without `keep_io_types` the model's own inputs and outputs are float16 as asked."""
    values = {"low": 1e7, "high": 1e8} if keep else {"low": 1e3, "high": 6e4}
    params = {"inputs": {"amount": values, "cents": values}, "block_types": ["Concat", "Mul"]}
    run = convert(tmp_path, artifact(tmp_path, parse(WIDE)), keep_io_types=keep, **params)
    cents = np.array([[91_767_063 if keep else 66_000]], np.int64)
    amount = np.array([[91_767_062.74 if keep else 6.1]], np.float32 if keep else np.float16)
    for c in (True, False):
        y, _, branch = answers(run.model, {"amount": amount, "cents": cents, "c": np.array(c)})
        if keep:
            assert y.tolist() == [[91_767_064.0] * 3]
        expected = np.array([[amount[0, 0], cents[0, 0], cents[0, 0] if c else amount[0, 0]]], np.float64) * 1e-9
        np.testing.assert_allclose(branch, expected, rtol=1e-2, atol=6e-8)
    graph = onnx.load(run.model).graph
    casts = {name: node.attribute[0].i for node in graph.node for name in node.output if node.op_type == "Cast"}
    narrow = {name for name, kind in casts.items() if kind == TensorProto.FLOAT16}
    assert [node.op_type for node in graph.node if not narrow.isdisjoint(node.input)] == ["MatMul"]


def test_what_is_out_of_range_is_named_before_a_label_that_differs(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 2] amount) => (int64[m, 1] label, float[m, 2] scores) <float[2, 2] w = {1.0, 0.5, 0.5, 1.0}>
    { wide = Concat <axis = 0> (amount, amount) scores = MatMul (wide, w) label = ArgMax <axis = 1> (scores) }
    """
    with pytest.raises(StageFailed) as caught:
        convert(tmp_path, artifact(tmp_path, parse(text)), inputs={"amount": {"low": 1e5, "high": 1e6}})
    assert caught.value.problem == "the float16 model disagrees with the model before it in output 'scores'"
    assert caught.value.why.startswith("4 of 4 values are not finite: input 'amount' holds ")
    assert " beyond the largest number of float16, 65504\nfor " in caught.value.why


def test_no_error_beyond_the_tolerance(tmp_path: Path) -> None:
    model = artifact(tmp_path, parse(TWO_PRODUCTS))
    error = convert(tmp_path, model, rtol=0.0).value("max_abs_error")
    assert convert(tmp_path, model, rtol=0.0, atol=error).value("max_abs_error") == error > 0
    with pytest.raises(StageFailed, match=r"^the float16 model disagrees with the model before it in output 'y'\n"):
        convert(tmp_path, model, rtol=0.0, atol=error * 0.9)


def test_nothing_to_convert(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        convert(tmp_path, artifact(tmp_path, parse(LOOKUP)), block_types=["Gather", "Cast", "Unsqueeze", "Mul", "Add"])
    assert (
        str(caught.value) == "nothing in the model could be converted\n  all of its float32 weights must stay float32"
    )


def test_a_model_that_is_float16_already(tmp_path: Path) -> None:
    first = convert(tmp_path, artifact(tmp_path, parse(TWO_PRODUCTS)))
    with pytest.raises(StageFailed) as caught:
        convert(tmp_path, first.output)
    assert str(caught.value) == "nothing in the model could be converted\n  it has no float32 weights"


def test_an_operator_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        convert(tmp_path, artifact(tmp_path, parse(WORDY)), block_types=["Matmul"])
    assert str(caught.value) == (
        "block_types: the model has no 'Matmul'\n"
        "  it has Add, Constant, Identity, MatMul, Mul and 1 more\n"
        "  hint: any ONNX viewer shows them"
    )


HALF_OUT = """
<ir_version: 9, opset_import: ["" : 20]>
half (float[n, 4] x) => (float16[n, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}>
{
  product = MatMul (x, w)
  y = Cast <to = 10> (product)
}
"""


def test_an_output_that_is_float16_already(tmp_path: Path) -> None:
    run = convert(tmp_path, artifact(tmp_path, parse(HALF_OUT)))
    assert types(run) == [TensorProto.FLOAT, TensorProto.FLOAT16]
    assert run.value("half_weights") == 1


NORM = """
<ir_version: 9, opset_import: ["" : 20]>
norm (float[n, 4] x) => (float[n, 4] y, float[n, 1] mean) <float[4] scale = {1, 2, 3, 4}, float[4, 4] w = WEIGHTS>
{
  product = MatMul (x, w)
  y, mean = LayerNormalization (product, scale)
}
"""


def test_an_operator_that_the_converter_makes_wrong(tmp_path: Path) -> None:
    """The mean that LayerNormalization yields stays float32 whatever its input is."""
    text = NORM.replace("WEIGHTS", f"{{{', '.join(['0.5'] * 16)}}}")
    model = artifact(tmp_path, parse(text))
    with pytest.raises(StageFailed) as caught:
        convert(tmp_path, model)
    assert caught.value.problem == "ONNX Runtime cannot open the float16 model"
    assert caught.value.hint == (
        "keep what needs range or precision in float32: `mixed: true`, `block_types`, `block_nodes`"
    )
    assert convert(tmp_path, model, block_types=["LayerNormalization"]).value("half_weights") == 1


CHOICE = """
<ir_version: 9, opset_import: ["" : 20]>
choice (float[n, 4] x, bool c) => (float[n, 4] y, float[n, 4] x, float[n, 4] z)
<float[4, 4] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6}>
{
  a = MatMul(x, w)
  b = If (c) <
    then_branch = yes () => (float[n, 4] u) <float[4] one = {0.1, 0.1, 0.1, 0.1}> { u = Add(a, one) },
    else_branch = no () => (float[n, 4] k) { k = Neg(a) }
  >
  y = Relu(b)
  z = Neg(x)
}
"""


@pytest.mark.parametrize("keep", [True, False])
def test_branches_that_read_around_them_and_an_output_that_is_an_input(tmp_path: Path, *, keep: bool) -> None:
    run = convert(tmp_path, artifact(tmp_path, parse(CHOICE)), keep_io_types=keep)
    graph = onnx.load(run.model).graph
    assert [value.name for value in graph.output] == ["y", "x", "z"]
    kind = TensorProto.FLOAT if keep else TensorProto.FLOAT16
    assert types(run) == [kind, TensorProto.BOOL, kind, kind, kind]
    assert run.value("half_weights") == 2
    assert 0 < run.value("max_abs_error") < 1e-2


RETURNED = """
<ir_version: 9, opset_import: ["" : 20]>
choice (float[n, 4] x, bool c) => (float[n, 4] y, float[4] v)
<float[4, 4] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6},
 float[4] v = {1, 2, 3, 4}>
{
  a = MatMul(x, w)
  b = If (c) <
    then_branch = yes () => (float[4] one) <float[4] one = {0.1, 0.2, 0.3, 0.4}> { },
    else_branch = no () => (float[n, 4] k) { k = Neg(a) }
  >
  y = Mul(a, b)
}
"""


@pytest.mark.parametrize("keep", [True, False])
def test_constants_that_graphs_return(tmp_path: Path, *, keep: bool) -> None:
    """As in the loop of every EmbeddingBag of PyTorch."""
    run = convert(tmp_path, artifact(tmp_path, parse(RETURNED)), keep_io_types=keep)
    onnx.checker.check_model(run.model, full_check=True)
    kind = TensorProto.FLOAT if keep else TensorProto.FLOAT16
    assert types(run) == [kind, TensorProto.BOOL, kind, kind]
    assert run.value("half_weights") == 3
    assert 0 < run.value("max_abs_error") < 1e-2


def test_an_operator_of_an_inner_graph_stays_float32(tmp_path: Path) -> None:
    run = convert(tmp_path, artifact(tmp_path, parse(RETURNED)), block_types=["Neg"])
    onnx.checker.check_model(run.model, full_check=True)
    (choice,) = (node for node in onnx.load(run.model).graph.node if node.op_type == "If")
    inner = {item.name: [node.op_type for node in item.g.node] for item in choice.attribute}
    assert inner == {"then_branch": ["Constant"], "else_branch": ["Neg", "Cast"]}


@pytest.mark.parametrize("also_read", [False, True])
def test_a_product_of_what_is_turned(tmp_path: Path, *, also_read: bool) -> None:
    """ONNX Runtime ends with a segmentation fault on it: it is multiplied first, and turned then."""
    model = parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 20]>
    tagger (float[t, n, 48] x) => (float[n, t, 5] y)
    { turned = Transpose <perm = [1, 0, 2]> (x)  y = MatMul (turned, w) }
    """)
    weight = np.random.default_rng(0).standard_normal((48, 5)).astype(np.float32) / 8
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    if also_read:
        model.graph.output.append(helper.make_tensor_value_info("turned", TensorProto.FLOAT, ["n", "t", 48]))
    run = run_stage("optimize/float16", tmp_path, {"keep_io_types": False}, inputs={"model": artifact(tmp_path, model)})
    assert sorted(run.operators) == ["MatMul", *["Transpose"] * (1 + also_read)]
    [product] = [node for node in onnx.load(run.model).graph.node if node.op_type == "MatMul"]
    assert list(product.input) == ["x", "w"]
    assert 0 < run.value("max_abs_error") < 0.01


@pytest.mark.parametrize("order", [[1, 0, 2], [1, 2, 0], [1, 2, 3, 0]])
@pytest.mark.parametrize("product", ["MatMul (turned, w)", "MatMul (w, turned)"])
@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("opset", [11, 20])
def test_products_of_what_is_turned_on_either_side(
    tmp_path: Path, order: list[int], product: str, axes: int, opset: int
) -> None:
    """ONNX Runtime ends on those whose weight has fewer axes than the other."""
    contracted, batched = "klmn"[: len(order)], "abcd"[: len(order) + axes - 2]
    weight = np.random.default_rng(0).standard_normal((4,) * axes).astype(np.float32) / 4
    model = parser.parse_model(f"""
    <ir_version: 9, opset_import: ["" : {opset}]>
    turns (float[{",".join(contracted)}] x) => (float[{",".join(batched)}] y)
    {{ turned = Transpose <perm = {order}> (x)  once = {product}  y = MatMul (once, twice) }}
    """)
    for axis in model.graph.input[0].type.tensor_type.shape.dim:
        axis.dim_value = 4
    for name, values in (("w", weight), ("twice", np.eye(4, dtype=np.float32))):
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    run = run_stage("optimize/float16", tmp_path, inputs={"model": artifact(tmp_path, model)})
    assert run.value("half_weights") == 2
    assert 0 < run.value("max_abs_error") < 0.01


def test_a_product_behind_a_product_of_what_is_turned(tmp_path: Path) -> None:
    model = parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 20]>
    tagger (float[t, n, 4] x) => (float[n, t, 4] y)
    { turned = Transpose <perm = [1, 0, 2]> (x)  once = MatMul (turned, w)  y = MatMul (once, w) }
    """)
    model.graph.initializer.append(numpy_helper.from_array(np.eye(4, dtype=np.float32) / 3, "w"))
    run = run_stage("optimize/float16", tmp_path, {"keep_io_types": False}, inputs={"model": artifact(tmp_path, model)})
    assert [node.op_type for node in onnx.load(run.model).graph.node] == ["MatMul", "MatMul", "Transpose"]
