from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from orun.errors import StageFailed, UnknownName
from tests.processors import exact_sums
from tests.stages.models import ADD, LOOKUP, SHARED_SIZES, SHARED_WEIGHTS, WORDY, parse, store_weights
from tests.stages.support import StageRun, answers, artifact, run_stage


def quantize(folder: Path, model: Path, **params: Any) -> StageRun:
    return run_stage("quantize/dynamic", folder, params, inputs={"model": model})


def weights(result: StageRun) -> dict[str, np.ndarray[Any, Any]]:
    stored = onnx.load(result.model).graph.initializer
    eight = (TensorProto.INT8, TensorProto.UINT8)
    return {
        tensor.name: numpy_helper.to_array(tensor) for tensor in stored if tensor.data_type in eight and tensor.dims
    }


FILTER = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 16] x) => (float[found] y, float[rows, 32] z)
{
  z = MatMul (x, w)
  shape = Constant <value = int64[1] {-1}> ()
  flat = Reshape (z, shape)
  limit = Constant <value = float {0.0}> ()
  chosen = Greater (flat, limit)
  y = Compress (flat, chosen)
}
"""


def test_a_model_that_finds_another_number_of_values(tmp_path: Path) -> None:
    """Of values near the limit, quantization finds others."""
    weight = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
    model = onnx.parser.parse_model(FILTER)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    before = artifact(tmp_path, model)
    run = quantize(tmp_path, before, dims={"n": [200]})
    feed = {"x": np.random.default_rng(1).standard_normal((200, 16)).astype(np.float32)}
    sizes = [answers(path, feed)[0].shape for path in (before / "model.onnx", run.model)]
    assert sizes[0] != sizes[1]


def test_recurrent_operators_without_an_integer_form_are_noted(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
    <ir_version: 9, opset_import: ["": 20]>
    g (float[time, batch, 2] x) => (float[time, batch, 4] z)
    { all, last = GRU <hidden_size = 2> (x, w, r)  axes = Constant <value = int64[1] {1}> ()
      flat = Squeeze (all, axes)  z = MatMul (flat, head) }
    """)
    shapes = {"w": (1, 6, 2), "r": (1, 6, 2), "head": (2, 4)}
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    model.graph.initializer.extend(numpy_helper.from_array(weight, name) for name, weight in weights.items())
    run = quantize(tmp_path, artifact(tmp_path, model))
    assert run.value("quantized") == 1
    assert run.notes == ("nodes of GRU stay in float: ONNX Runtime has no such operator in 8 bits",)


def matmul(folder: Path) -> Path:
    """One product with a weight whose columns differ a thousandfold."""
    model = parse(WORDY)
    columns = np.linspace(-1, 1, 16).reshape(4, 4) * [1, 10, 100, 1000]
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(columns.astype(np.float32), "w"))
    return artifact(folder, model)


def column_errors(result: StageRun, before: Path) -> list[float]:
    """Return the largest relative error in each column of the output, on one input."""
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    right, values = (answers(path, {"x": x})[0] for path in (before / "model.onnx", result.model))
    return [float(error) for error in np.abs(values - right).max(axis=0) / np.abs(right).max(axis=0)]


@exact_sums
def test_weights_in_8_bits_and_outputs_near(tmp_path: Path) -> None:
    before = matmul(tmp_path)
    result = quantize(tmp_path, before, per_channel=True)
    assert "MatMulInteger" in result.operators
    assert [(array.dtype, array.shape) for array in weights(result).values() if array.ndim == 2] == [(np.int8, (4, 4))]
    assert result.value("quantized") == 1
    assert max(column_errors(result, before)) < 0.02


def test_what_the_quantizer_advises_at_every_model_is_not_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    quantize(tmp_path, matmul(tmp_path))
    assert caplog.messages == []


def test_one_scale_for_all_loses_the_small_columns(tmp_path: Path) -> None:
    before = matmul(tmp_path)
    assert column_errors(quantize(tmp_path, before), before)[0] > 0.5


def test_the_range_of_weights(tmp_path: Path) -> None:
    def largest(**params: Any) -> int:
        return max(
            int(np.abs(array.astype(int)).max())
            for array in weights(quantize(tmp_path, matmul(tmp_path), **params)).values()
            if array.ndim == 2
        )

    assert largest() == 127
    assert largest(reduce_range=True) == 64
    assert largest(weight_type="uint8") == 255


def test_a_fused_model(tmp_path: Path, fused_bert: Path) -> None:
    result = quantize(tmp_path, fused_bert, per_channel=True, reduce_range=True)
    values = result.operators
    assert [values.count(name) for name in ("QAttention", "MatMulInteger", "QEmbedLayerNormalization")] == [2, 6, 1]
    assert result.value("quantized") == 2 + 6 + 3
    assert result.value("size") < (fused_bert / "model.onnx").stat().st_size / 2


def test_without_pre_processing(tmp_path: Path, fused_bert: Path) -> None:
    assert quantize(tmp_path, fused_bert, preprocess=False).value("quantized") == 11


def test_types_and_names_left_out(tmp_path: Path, tiny_bert: Path) -> None:
    every = quantize(tmp_path, tiny_bert)
    names = [node.name for node in onnx.load(tiny_bert / "model.onnx").graph.node if "query/MatMul" in node.name]
    assert every.value("quantized") - quantize(tmp_path, tiny_bert, exclude=names).value("quantized") == 2
    assert quantize(tmp_path, tiny_bert, op_types=["Gather"]).value("quantized") == 3


def sharing(folder: Path) -> Path:
    return artifact(folder, store_weights(onnx.parser.parse_model(SHARED_WEIGHTS), SHARED_SIZES))


@pytest.mark.parametrize("per_channel", [False, True])
def test_weights_that_several_nodes_read(tmp_path: Path, per_channel: bool) -> None:
    """ONNX Runtime transposes the weights of a Gemm and an LSTM in place, once for each node that reads them."""
    result = quantize(tmp_path, sharing(tmp_path), per_channel=per_channel)
    assert [result.operators.count(name) for name in ("MatMulInteger", "DynamicQuantizeLSTM")] == [4, 2]
    assert result.value("max_abs_error") < 0.1


def test_a_gemm_that_is_left_out(tmp_path: Path) -> None:
    """ONNX Runtime makes it a MatMul of another name before it looks at the names."""
    result = quantize(tmp_path, sharing(tmp_path), exclude=["first", "second"])
    assert result.operators.count("MatMulInteger") == 2


def test_a_weight_that_a_branch_reads_as_well(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 17]>
    g (float[n, 8] x, bool b) => (float[n, 8] y) {
      u = Gemm <transB = 1> (x, w)
      y = If (b) <then_branch = yes () => (float[n, 8] s) { s = Gemm <transB = 1> (u, w) },
                  else_branch = no () => (float[n, 8] t) { t = MatMul (u, w) }>
    }
    """)
    before = artifact(tmp_path, store_weights(model, {"w": (8, 8)}))
    assert quantize(tmp_path, before).value("max_abs_error") < 0.1


def test_a_look_up_alone(tmp_path: Path) -> None:
    result = quantize(tmp_path, artifact(tmp_path, parse(LOOKUP)))
    assert result.value("quantized") == 1
    assert "DequantizeLinear" in result.operators


def test_shapes_of_the_model_that_contradict_one_another(tmp_path: Path) -> None:
    model = parse(WORDY)
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("product", TensorProto.FLOAT, ["n", 9]))
    assert quantize(tmp_path, artifact(tmp_path, model), preprocess=False).value("quantized") == 1


def test_a_model_with_nothing_to_quantize(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, artifact(tmp_path, parse(ADD)))
    assert str(caught.value) == (
        "nothing in the model could be quantized\n"
        "  only MatMul, Attention, Conv, LSTM and Gather with constant weights are\n"
        "  hint: look at `op_types` and `exclude`"
    )


def test_weights_in_operators_without_integers(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
    g (float[n, 2] x) => (int64[n] label, float[n, 2] scores)
    {
      a = ai.onnx.ml.Scaler <offset = [0.0, 1.0], scale = [1.0, 2.0]> (x)
      label, scores = ai.onnx.ml.LinearClassifier <
        classlabels_ints = [0, 1], coefficients = [0.1, 0.2, 0.3, 0.4], intercepts = [0.0, 1.0]> (a)
    }
    """
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, artifact(tmp_path, parse(text)))
    assert str(caught.value) == (
        "nothing in the model could be quantized\n"
        "  its weights are in LinearClassifier and Scaler, which ONNX Runtime computes in float alone: int8 does not "
        "apply to them\n"
        "  hint: leave the stage out"
    )


def test_weights_in_float16(tmp_path: Path) -> None:
    names = ["u", "v", "w", "t"]
    weights = [numpy_helper.from_array(np.eye(2, dtype=np.float16), name) for name in names]
    nodes = [
        onnx.helper.make_node("MatMul", [f"x{place or ''}", name], [f"x{place + 1}"])
        for place, name in enumerate(names)
    ]
    ends = [onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT16, ["n", 2]) for name in ("x", "x4")]
    graph = onnx.helper.make_graph(nodes, "half", ends[:1], ends[1:], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, artifact(tmp_path, model))
    assert str(caught.value) == (
        "nothing in the model could be quantized\n"
        "  u, v, w and 1 more: in float16, and only float32 is quantized\n"
        "  hint: export the model in float32 (`module.float()` in PyTorch)"
    )


def test_a_node_that_is_not_there(tmp_path: Path, tiny_bert: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        quantize(tmp_path, tiny_bert, exclude=["/bert/encoder/layer.0/output/dense/MatMull"])
    assert str(caught.value) == (
        "exclude: the model has no '/bert/encoder/layer.0/output/dense/MatMull'\n"
        "  it has /bert/Add, /bert/And_1, /bert/Cast, /bert/Concat_1, /bert/Equal and 118 more\n"
        "  hint: any ONNX viewer shows them"
    )


@pytest.mark.slow
def test_an_attention_that_would_lose_its_mask(tmp_path: Path, tiny_bert: Path) -> None:
    fused = run_stage("optimize/transformer", tmp_path, {"method": "rules"}, inputs={"model": tiny_bert})
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, fused.output)
    names = [node.name for node in onnx.load(fused.model).graph.node if node.op_type == "Attention"]
    assert str(caught.value) == (
        "quantized, 2 of the model's attentions would lose their masks and biases\n"
        f"  ONNX Runtime's quantizer drops the attention bias of {', '.join(names)}\n"
        "  hint: fuse with `multi_head_attention: true`, which keeps the projections separate, or name them in "
        "`exclude`"
    )
    assert quantize(tmp_path, fused.output, exclude=names).operators.count("Attention") == 2
    options = {"method": "rules", "multi_head_attention": True}
    result = quantize(
        tmp_path, run_stage("optimize/transformer", tmp_path, options, inputs={"model": tiny_bert}).output
    )
    assert result.operators.count("MultiHeadAttention") == 2
    assert result.value("quantized") == 15


STANDARD_ATTENTION = """
<ir_version: 11, opset_import: ["" : 23]>
attention (float[1, 2, s, 4] x) => (float[1, 2, s, 4] y)
<float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8},
 float[1, 2, 1, 4] k = {1, 2, 3, 4, 5, 6, 7, 8}, float[1, 2, 1, 4] v = {8, 7, 6, 5, 4, 3, 2, 1}>
{
  q = MatMul (x, w)
  y = Attention (q, k, v)
}
"""


@pytest.mark.parametrize(("uses", "params"), [("quantize/dynamic", {}), ("quantize/static", {"format": "qoperator"})])
@pytest.mark.parametrize(
    ("first", "kinds", "fused"),
    [(0, True, True), (2, True, False), (2, False, False)],
    ids=["from 0", "from 2", "two tables"],
)
def test_embeddings_keep_their_positions(
    tmp_path: Path, uses: str, params: dict[str, Any], first: int, kinds: bool, fused: bool
) -> None:
    """ONNX Runtime's quantizer drops the positions of fused embeddings: those of RoBERTa and BART count from 2."""
    inputs = "ids, s, words, places, kinds, scale, shift" if kinds else "ids, , words, places, , scale, shift"
    places = ", ".join(map(str, range(first, first + 5)))
    model = onnx.parser.parse_model(
        f"""
        <ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (int32[batch, 5] ids) => (float[batch, 5, 16] y) <int32[1, 5] p = {{{places}}}> {{
            s = Sub(ids, ids)
            y, unused = com.microsoft.EmbedLayerNormalization({inputs}, , p)
        }}
        """
    )
    random = np.random.default_rng(0)
    sizes = {"words": (50, 16), "places": (40, 16), "kinds": (2, 16), "scale": (16,), "shift": (16,)}
    for name, size in sizes.items():
        values = random.standard_normal(size).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    run = run_stage(uses, tmp_path, params, inputs={"model": artifact(tmp_path, model)})
    assert run.value("max_abs_error") < 0.2
    assert ("QEmbedLayerNormalization" in run.operators) == fused
    note = (
        "the embeddings are quantized apart from their normalization, as ONNX Runtime's quantizer drops positions that "
        "do not count from 0"
    )
    assert (note in run.notes) != fused


def test_embeddings_that_would_lose_their_positions(tmp_path: Path) -> None:
    """Their mask is read, which the parts of the operator do not compute."""
    model = onnx.parser.parse_model(
        """
        <ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (int32[batch, 5] ids) => (float[batch, 5, 16] y, int32[batch] m) <int32[1, 5] p = {2, 3, 4, 5, 6}> {
            [embed] y, m = com.microsoft.EmbedLayerNormalization(ids, , words, places, , scale, shift, , p)
        }
        """
    )
    for name, size in {"words": (50, 16), "places": (40, 16), "scale": (16,), "shift": (16,)}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.ones(size, np.float32), name))
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, artifact(tmp_path, model))
    assert str(caught.value) == (
        "quantized, the embeddings of embed would lose their positions\n"
        "  ONNX Runtime's quantizer drops these, and a node whose mask is read cannot be split\n"
        "  hint: name them in `exclude`"
    )


def test_the_standards_own_attention_is_left_as_it_is(tmp_path: Path) -> None:
    """ONNX Runtime's quantizer takes it for its own operator of this name, and the result does not load."""
    result = quantize(tmp_path, artifact(tmp_path, parse(STANDARD_ATTENTION)))
    assert result.value("quantized") == 1
    assert {"MatMulInteger", "Attention"} <= set(result.operators)


def test_a_model_with_a_sequence(tmp_path: Path) -> None:
    """As of every EmbeddingBag of PyTorch; its declaration has no tensor's shape to forget."""
    model = onnx.parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 20]>
    g (float[2, 4] x) => (float[1, 2] y) <seq(float[1, 4]) rows, int64 first = {0}>
    { rows = SplitToSequence <axis = 0> (x)  row = SequenceAt (rows, first)  y = MatMul (row, w) }
    """)
    weight = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    result = quantize(tmp_path, artifact(tmp_path, model), preprocess=False)
    assert result.value("quantized") == 1
    assert result.operators[:2] == ["SplitToSequence", "SequenceAt"]
