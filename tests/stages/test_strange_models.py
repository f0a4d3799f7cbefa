"""Valid models unlike those of today's exporters: each kind accepts them, or says in a line why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from orun.errors import OrunError, UsageError
from orun.measure.metrics.fidelity import SQNR_LIMIT
from orun.stages._graph.io import load_graph
from tests.processors import exact_sums
from tests.stages.models import store_weights
from tests.stages.support import artifact, run_stage

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.standard_normal((16, 16)).astype(np.float32)
LOG = "the log has the whole message"


def float_value(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def product(*, opset: int = 20, ir: int = 9, **weights: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """`y = x w`."""
    stored = [numpy_helper.from_array(value, name) for name, value in ({"w": WEIGHT} | weights).items()]
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    graph = helper.make_graph([node], "product", [float_value("x", "n", 16)], [float_value("y", "n", 16)], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def of_old() -> onnx.ModelProto:
    """A model of IR version 3, in which each stored tensor is an input too."""
    model = product(opset=7, ir=3)
    model.graph.input.append(float_value("w", 16, 16))
    return model


def sparse() -> onnx.ModelProto:
    """A model whose weight is a sparse initializer."""
    model = product()
    values, indices = np.array([1, 2], np.float32), np.array([[0, 0], [3, 5]], np.int64)
    sparse_tensor = helper.make_sparse_tensor(
        numpy_helper.from_array(values, "w"), numpy_helper.from_array(indices, "places"), [16, 16]
    )
    del model.graph.initializer[:]
    model.graph.sparse_initializer.append(sparse_tensor)
    return model


def refusal(uses: str, folder: Path, model: onnx.ModelProto, **params: Any) -> str:
    """Return the whole message with which a kind refuses a model."""
    with pytest.raises(OrunError) as caught:
        run_stage(uses, folder, params, inputs={"model": artifact(folder, model)})
    return str(caught.value)


@pytest.mark.parametrize(
    ("uses", "params", "inputs", "nodes"),
    [
        ("quantize/static", {}, ["x"], 6),
        ("quantize/static", {"smooth": 0.5}, ["x"], 10),
        ("quantize/dynamic", {}, ["x"], 5),
        ("quantize/weights", {"block_size": 16}, ["x"], 1),
        ("quantize/weights", {"block_size": 16, "algorithm": "gptq"}, ["x"], 1),
        ("optimize/transformer", {"method": "rules"}, ["x", "w"], 1),
        ("optimize/prune", {}, ["x", "w"], 1),
        ("optimize/low-rank", {"method": "plain", "size": 0.9}, ["x"], 2),
    ],
)
def test_weights_that_are_inputs_as_well(
    tmp_path: Path, uses: str, params: dict[str, Any], inputs: list[str], nodes: int
) -> None:
    """Those that a kind replaces are inputs no longer."""
    result = run_stage(uses, tmp_path, params, inputs={"model": artifact(tmp_path, of_old())})
    assert [value.name for value in load_graph(result.model).graph.input] == inputs
    assert result.value("nodes") == nodes


@pytest.mark.parametrize(
    ("uses", "nodes"),
    [("optimize/simplify", 1), ("optimize/graph", 1), ("optimize/transformer", 1), ("quantize/dynamic", 5)],
)
def test_a_size_of_minus_one_is_any_size(tmp_path: Path, uses: str, nodes: int) -> None:
    model = product()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = -1
    assert run_stage(uses, tmp_path, inputs={"model": artifact(tmp_path, model)}).value("nodes") == nodes


def test_an_input_that_nothing_reads_stays(tmp_path: Path) -> None:
    model = product()
    model.graph.input.insert(0, float_value("unread", "n"))
    for method in ("onnxruntime", "rules"):
        result = run_stage(
            "optimize/transformer", tmp_path, {"method": method}, inputs={"model": artifact(tmp_path, model)}
        )
        assert [value.name for value in load_graph(result.model).graph.input] == ["unread", "x"]


def test_functions_of_the_model_are_converted_with_it(tmp_path: Path) -> None:
    model = product()
    nodes = [helper.make_node("MatMul", ["a", "b"], ["m"]), helper.make_node("Relu", ["m"], ["c"])]
    model.functions.append(
        helper.make_function("mine", "Layer", ["a", "b"], ["c"], nodes, [helper.make_opsetid("", 20)])
    )
    model.graph.node[0].op_type, model.graph.node[0].domain = "Layer", "mine"
    model.opset_import.append(helper.make_opsetid("mine", 1))
    result = run_stage("convert/opset", tmp_path, {"version": 18}, inputs={"model": artifact(tmp_path, model)})
    assert [node.op_type for node in load_graph(result.model).graph.node] == ["MatMul", "Relu"]
    assert result.value("max_abs_error") == 0


@pytest.mark.parametrize(
    ("uses", "params", "message"),
    [
        (
            "convert/opset",
            {"version": 21},
            (
                "ONNX cannot convert the model to operator set 21\n  ConvertError: Input w is undefined!\n"
                f"  hint: export the model at that version: `opset` of `convert/torch`; {LOG}"
            ),
        ),
        (
            "optimize/float16",
            {},
            "nothing in the model could be converted\n  all of its float32 weights must stay float32",
        ),
        (
            "quantize/dynamic",
            {},
            (
                "ONNX Runtime cannot quantize the model so\n  RuntimeError: Invalid model with unknown "
                f"initializers/tensors.{{'w'}}\n  hint: leave nodes out: `exclude`; {LOG}"
            ),
        ),
        (
            "quantize/static",
            {},
            (
                "ONNX Runtime cannot quantize the model so\n  AssertionError: Graph is not a DAG\n"
                f"  hint: try another `format`, `activation_type` or `weight_type`; {LOG}"
            ),
        ),
    ],
)
def test_what_a_tool_cannot_read_is_its_refusal(
    tmp_path: Path, uses: str, params: dict[str, Any], message: str
) -> None:
    assert refusal(uses, tmp_path, sparse(), **params) == message


@pytest.mark.parametrize(
    ("uses", "tool"),
    [
        ("quantize/dynamic", "ONNX Runtime cannot quantize the model so\n  "),
        ("quantize/static", "ONNX Runtime cannot quantize the model so\n  "),
        ("quantize/weights", ""),
    ],
)
def test_weights_that_are_not_finite(tmp_path: Path, uses: str, tool: str) -> None:
    broken = WEIGHT.copy()
    broken[2, 3] = np.nan
    assert refusal(uses, tmp_path, product(w=broken)) == (
        f"{tool}not all values of w are finite\n"
        "  hint: find out what made them so, or leave out the nodes that read them: `exclude`"
    )


def test_outputs_that_are_no_tensors_are_not_compared(tmp_path: Path) -> None:
    model = product()
    model.graph.node.append(helper.make_node("SequenceConstruct", ["y", "y"], ["pair"]))
    model.graph.output.append(helper.make_tensor_sequence_value_info("pair", TensorProto.FLOAT, None))
    for outputs in (2, 1):  # beside one that is a tensor, and alone
        del model.graph.output[: 2 - outputs]
        before = artifact(tmp_path, model)
        result = run_stage("quantize/debug", tmp_path, inputs={"model": before, "reference": before})
        assert result.value("sqnr.min") == SQNR_LIMIT
        assert result.value("tensors") == 1


def with_output(node: onnx.NodeProto, kind: onnx.TypeProto, *domains: onnx.OperatorSetIdProto) -> onnx.ModelProto:
    """The product with a further output, computed from `y`, that is no tensor."""
    model = product()
    model.graph.node.append(node)
    model.graph.output.append(helper.make_value_info(node.output[0], kind))
    model.opset_import.extend(domains)
    return model


def odd_outputs() -> list[onnx.ModelProto]:
    """A sequence, an optional value, and a sequence of maps, as a classifier has them."""
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 16])
    maps = onnx.TypeProto()
    maps.sequence_type.elem_type.map_type.key_type = TensorProto.INT64
    maps.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
    labels = helper.make_node("ZipMap", ["y"], ["z"], domain="ai.onnx.ml", classlabels_int64s=range(16))
    return [
        with_output(helper.make_node("SequenceConstruct", ["y"], ["z"]), helper.make_sequence_type_proto(tensor)),
        with_output(helper.make_node("Optional", ["y"], ["z"]), helper.make_optional_type_proto(tensor)),
        with_output(labels, maps, helper.make_opsetid("ai.onnx.ml", 3)),
    ]


@pytest.mark.parametrize("place", range(3))
def test_shapes_beside_outputs_that_are_no_tensors(tmp_path: Path, place: int) -> None:
    model = odd_outputs()[place]
    result = run_stage("optimize/shapes", tmp_path, {"fix": {"n": 3}}, inputs={"model": artifact(tmp_path, model)})
    outputs = load_graph(result.model).graph.output
    assert [axis.dim_value for axis in outputs[0].type.tensor_type.shape.dim] == [3, 16]
    assert outputs[1].type.WhichOneof("value") == model.graph.output[1].type.WhichOneof("value")


def test_maps_are_compared_by_their_values(tmp_path: Path) -> None:
    model = artifact(tmp_path, odd_outputs()[2])
    assert 0 < run_stage("optimize/float16", tmp_path, inputs={"model": model}).value("max_abs_error") < 0.02


@exact_sums
def test_what_a_branch_takes_from_around_it_is_quantized_before_it(tmp_path: Path) -> None:
    model = parser.parse_model("""
    <ir_version: 9, opset_import: ["": 20]>
    g (float[n, 16] x, bool c) => (float[n, 16] y)
    {
      a = MatMul (x, w)
      y = If <then_branch = taken () => (float[n, 16] r) { r = Relu (a) },
              else_branch = other () => (float[n, 16] s) { s = Neg (x) }> (c)
    }
    """)
    model.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    result = run_stage("quantize/dynamic", tmp_path, inputs={"model": artifact(tmp_path, model)})
    assert result.value("quantized") == 1
    assert 0 < result.value("max_abs_error") < 0.5


def test_a_matrix_without_values_is_not_pruned(tmp_path: Path) -> None:
    model = product(w=np.zeros((16, 0), np.float32))
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 0
    assert refusal("optimize/prune", tmp_path, model) == (
        "nothing in the model could be pruned\n"
        "  it has no Conv, Gemm, MatMul with enough stored weights\n"
        "  hint: leave the stage out"
    )


def test_what_the_mobile_format_cannot_hold(tmp_path: Path) -> None:
    assert refusal("compile/mobile", tmp_path, odd_outputs()[1]) == (
        "ONNX Runtime cannot write the model in its own format\n  We do not support type [9] for now"
    )


@pytest.mark.parametrize(
    ("kind", "name"), [(TensorProto.BFLOAT16, "bfloat16"), (TensorProto.FLOAT8E5M2, "float8_e5m2")]
)
def test_types_that_no_array_has(tmp_path: Path, kind: int, name: str) -> None:
    model = product()
    model.graph.node[0].input[0] = "cast"
    model.graph.node.insert(0, helper.make_node("Cast", ["x"], ["cast"], to=TensorProto.FLOAT))
    model.graph.input[0].type.tensor_type.elem_type = kind
    assert refusal("optimize/graph", tmp_path, model) == (
        f"input 'x' of the model is of {name}, which ONNX Runtime cannot take from a NumPy array\n"
        "  hint: let the model take float32 and cast it"
    )


def test_outputs_of_a_node_that_nobody_asked_for(tmp_path: Path) -> None:
    model = parser.parse_model("""
    <ir_version: 9, opset_import: ["": 20]>
    g (float[n, 2, 3] x) => (float[1, 2, 4] state) { , , state = LSTM <hidden_size = 4> (x, w, r) }
    """)
    before = artifact(tmp_path, store_weights(model, {"w": (1, 16, 3), "r": (1, 16, 4)}))
    result = run_stage("quantize/debug", tmp_path, inputs={"model": before, "reference": before})
    assert result.value("tensors") == 1


def test_what_the_usability_checker_fails_on_is_written_all_the_same(tmp_path: Path) -> None:
    model = product()
    model.graph.node.append(helper.make_node("Transpose", ["w"], ["turned"]))
    model.graph.node.append(helper.make_node("MatMul", ["y", "turned"], ["z"]))
    model.graph.output.append(float_value("z", "n", 16))
    result = run_stage("compile/mobile", tmp_path, inputs={"model": artifact(tmp_path, model)})
    document = json.loads((result.output / "usability.json").read_text())
    assert document["nnapi"] == {"verdict": "UNKNOWN", "why": "IndexError: list index out of range"}
    assert "share.nnapi" not in result.metrics
    assert (result.output / "model.ort").stat().st_size == result.value("size")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"location": "w.data", "offset": "-5"},
            (
                "model.onnx names external data that cannot be read\n"
                "  External data offset must be non-negative, got -5 for tensor 'w'"
            ),
        ),
        ({"location": ""}, "model.onnx names external data without a file\n  location ''"),
    ],
)
def test_external_data_that_makes_no_sense(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    model = product()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "w.data").write_bytes(WEIGHT.tobytes())
    with pytest.raises(UsageError) as caught:
        run_stage("convert/onnx", tmp_path, {"path": str(tmp_path / "model.onnx")})
    assert str(caught.value) == message


def test_external_data_that_is_cut_short(tmp_path: Path) -> None:
    onnx.save(product(), tmp_path / "model.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    (tmp_path / "w.data").write_bytes(b"1234")
    with pytest.raises(UsageError) as caught:
        run_stage("convert/onnx", tmp_path, {"path": str(tmp_path / "model.onnx")})
    assert str(caught.value) == (
        "model.onnx names external data that cannot be read\n"
        "  External data length (1024) exceeds available data (4 bytes from offset 0) for tensor 'w'"
    )
