"""`optimize/edit`: each edit on a small model, what it keeps, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from orun.errors import StageFailed, UnknownName
from orun.stages._graph.input_domain import InputDomain, InputValues, read_domain, write_domain
from tests.stages.models import LOOKUP, TWO_PRODUCTS, WORDY, convolution, parse
from tests.stages.support import StageRun, answers, artifact, run_stage

PLAIN = {"size", "nodes", "nodes_before"}
ENCODER = """
<ir_version: 9, opset_import: ["" : 20]>
encoder (int64[batch, length] ids, int64[batch, length] types) => (float[batch, length, 2] y)
<float[5, 2] words = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, float[2, 2] kinds = {1, 2, 3, 4}>
{ a = Gather (words, ids)  b = Gather (kinds, types)  y = Add (a, b) }
"""
PAIR = """
<ir_version: 9, opset_import: ["" : 20]>
pair (float[n, 2] a, float[n, 2] b) => (float[n, 2] y, float[n, 2] z) { y = Neg (a)  z = Neg (b) }
"""


VIEWER = "\n  hint: any ONNX viewer shows them"
OPERATORS = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}


def edit(
    folder: Path, model: onnx.ModelProto, *edits: dict[str, Any], other: Path | None = None, **params: Any
) -> StageRun:
    inputs = {"model": artifact(folder, model), **({"other": other} if other else {})}
    return run_stage("optimize/edit", folder, {"edits": [*edits], **params}, inputs=inputs)


def refusal(folder: Path, model: onnx.ModelProto, *edits: dict[str, Any], **params: Any) -> str:
    with pytest.raises((StageFailed, UnknownName)) as caught:
        edit(folder, model, *edits, **params)
    return str(caught.value)


def test_names_of_inputs_and_outputs(tmp_path: Path) -> None:
    """`product` is an inner value, and makes way."""
    run = edit(tmp_path, parse(WORDY), {"rename": {"x": "product", "y": "scores"}})
    assert run.interface == {"product": ["n", 4], "scores": ["n", 4]}
    assert (run.value("max_abs_error"), run.notes) == (0, ())


def test_the_input_domain_follows_a_name(tmp_path: Path) -> None:
    model = parse(LOOKUP)
    write_domain(model, InputDomain({"ids": InputValues(high=3)}, {"length": (4, 6)}))
    run = edit(tmp_path, model, {"rename": {"ids": "tokens"}}, {"axes": {"length": "time", "batch": 2}})
    assert read_domain(onnx.load(run.model)) == InputDomain({"tokens": InputValues(high=3)}, {"time": (4, 6)})
    assert run.interface == {
        "tokens": [2, "time"],
        "mask": [2, "time"],
        "extra": [2, 2],
        "y": [2, "time", 2],
    }
    assert (run.value("max_abs_error"), run.notes) == (0, ())


def test_sizes_of_an_axis_without_a_name_stay(tmp_path: Path) -> None:
    model = parse(WORDY)
    model.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    write_domain(model, domain := InputDomain({"x": InputValues(low=0)}, {"x.0": (4, 6)}))
    run = edit(tmp_path, model, {"rename": {"y": "scores"}})
    assert read_domain(onnx.load(run.model)) == domain


def test_a_fixed_batch_becomes_dynamic(tmp_path: Path) -> None:
    model = convolution()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    run = edit(tmp_path, model, {"shapes": {"image": ["batch", 3, 8, 8]}})
    assert run.interface == {"image": ["batch", 3, 8, 8], "scores": ["batch", 5]}
    assert run.value("max_abs_error") == 0


def test_a_batch_that_the_graph_holds(tmp_path: Path) -> None:
    model = parse("""
    <ir_version: 9, opset_import: ["" : 20]>
    flat (float[1, 2, 2] x) => (float[1, 4] y) <int64[2] shape = {1, 4}> { y = Reshape (x, shape) }
    """)
    text = refusal(tmp_path, model, {"shapes": {"x": ["batch", 2, 2]}})
    assert text.startswith("the edited model cannot run random values at batch=2\n")
    assert text.endswith("\n  hint: the graph may hold that size in a constant: export the model with a dynamic axis")


def test_images_as_bytes(tmp_path: Path) -> None:
    change = {"dtype": "uint8", "scale": 1 / 255, "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.25, 0.3]}
    run = edit(tmp_path, convolution(), {"types": {"image": change}})
    model = onnx.load(run.model)
    assert run.operators[:4] == ["Cast", "Mul", "Sub", "Div"]
    assert read_domain(model).inputs == {"image": InputValues(low=0, high=255)}
    assert run.value("max_abs_error") < 1e-5
    image = np.random.default_rng(0).integers(0, 256, (2, 3, 8, 8), np.uint8)
    mean, std = (np.array(change[name], np.float32).reshape(3, 1, 1) for name in ("mean", "std"))
    before = {"image": ((image / 255).astype(np.float32) - mean) / std}
    [expected] = answers(convolution().SerializeToString(), before)
    [scores] = answers(run.model, {"image": image})
    assert np.allclose(scores, expected, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint16", "int64", "bool"])
def test_an_input_takes_any_type(tmp_path: Path, dtype: str) -> None:
    header = '<ir_version: 9, opset_import: ["" : 20]>'
    model = parse(f"{header} half (float16[n, 2] x) => (float16[n, 2] y) {{ y = Neg (x) }}")
    run = edit(tmp_path, model, {"types": {"x": {"dtype": dtype}}})
    values = np.array([[0, 1]]).astype(dtype)
    assert [answer.tolist() for answer in answers(run.model, {"x": values})] == [[[0, -1]]]


def test_an_input_that_becomes_a_constant_of_any_shape(tmp_path: Path) -> None:
    run = edit(tmp_path, parse(ENCODER), {"make_constant": {"types": 1}}, {"rename": {"ids": "tokens"}})
    assert run.interface == {"tokens": ["batch", "length"], "y": ["batch", "length", 2]}
    assert run.value("max_abs_error") == 0
    [y] = answers(run.model, {"tokens": np.array([[0, 4]])})
    assert y.tolist() == [[[3, 5], [11, 13]]]


def test_an_input_of_fixed_shape_becomes_a_weight(tmp_path: Path) -> None:
    run = edit(tmp_path, parse(LOOKUP), {"axes": {"batch": 1}}, {"make_constant": {"extra": [[1, 2]]}})
    assert run.interface == {"ids": [1, "length"], "mask": [1, "length"], "y": [1, "length", 2]}
    assert run.value("max_abs_error") == 0


def test_weights_and_constants_become_inputs(tmp_path: Path) -> None:
    run = edit(tmp_path, parse(WORDY), {"make_input": ["w", "two"]}, {"rename": {"w": "weight"}})
    assert run.interface == {"x": ["n", 4], "weight": [4, 4], "two": [], "y": ["n", 4]}
    assert run.value("max_abs_error") < 1e-6  # what was folded is computed
    bounds = read_domain(onnx.load(run.model)).inputs
    assert bounds == {
        "weight": InputValues(low=float(np.float32(0.1)), high=float(np.float32(1.6))),
        "two": InputValues(low=2, high=2),
    }


def test_further_and_fewer_outputs(tmp_path: Path) -> None:
    run = edit(tmp_path, parse(TWO_PRODUCTS), {"add_outputs": ["h"]})
    assert run.interface == {"x": ["n", 2], "y": ["n", 2], "h": ["n", 2]}
    assert run.value("max_abs_error") == 0
    fewer = edit(tmp_path, onnx.load(run.model), {"drop_outputs": ["y"]})
    assert (fewer.interface, fewer.operators) == ({"x": ["n", 2], "h": ["n", 2]}, ["MatMul"])
    assert fewer.value("max_abs_error") == 0


def test_nodes_are_removed(tmp_path: Path) -> None:
    run = edit(tmp_path, parse(WORDY), {"remove": {"op_types": ["Identity"], "nodes": ["y"]}})
    assert run.operators == ["Constant", "Add", "Transpose", "Transpose", "MatMul", "Identity"]
    assert run.value("max_abs_error") > 1
    assert run.notes == ("remove may change what the model computes: its outputs may differ, see `max_abs_error`",)


def test_an_operator_is_replaced(tmp_path: Path) -> None:
    run = edit(tmp_path, convolution(), {"replace": {"nodes": ["relu"], "by": "LeakyRelu", "attributes": {"alpha": 0}}})
    assert run.operators[2] == "LeakyRelu"
    assert run.value("max_abs_error") == 0
    faster = {"op_types": ["Relu"], "by": "QuickGelu", "domain": "com.microsoft", "attributes": {"alpha": 1.702}}
    domains = {
        item.domain: item.version
        for item in onnx.load(edit(tmp_path, convolution(), {"replace": faster}).model).opset_import
    }
    assert domains == {"": 20, "com.microsoft": 1}


def test_a_model_is_split_at_a_tensor_and_merged_again(tmp_path: Path) -> None:
    model = convolution()
    head = edit(tmp_path, model, {"extract": {"outputs": ["r"]}})
    tail = edit(tmp_path, model, {"extract": {"inputs": ["r"]}})
    assert head.interface == {"image": ["n", 3, 8, 8], "r": ["n", 6, 8, 8]}
    assert tail.interface == {"r": ["n", 6, 8, 8], "scores": ["n", 5]}
    assert (head.operators, tail.operators) == (
        ["Conv", "BatchNormalization", "Relu"],
        ["GlobalAveragePool", "Flatten", "Gemm"],
    )
    assert (set(head.metrics), set(tail.metrics)) == (PLAIN, PLAIN)
    assert head.notes == ("no output was compared with the model before it: extract changed what goes in or comes out",)
    run = edit(
        tmp_path, onnx.load(head.model), {"merge": {"connect": {"r": "r"}, "prefix": "tail."}}, other=tail.output
    )
    assert run.interface == {"image": ["n", 3, 8, 8], "tail.scores": ["n", 5]}
    turned = edit(
        tmp_path,
        onnx.load(tail.model),
        {"merge": {"connect": {"r": "r"}, "place": "before", "prefix": "head."}},
        other=head.output,
    )
    image = np.random.default_rng(0).standard_normal((2, 3, 8, 8), np.float32)
    [expected] = answers(model.SerializeToString(), {"image": image})
    for edited, name in ((run, "image"), (turned, "head.image")):
        [scores] = answers(edited.model, {name: image})
        assert np.array_equal(scores, expected)


def test_a_piece_that_needs_fewer_inputs(tmp_path: Path) -> None:
    run = edit(tmp_path, parse(PAIR), {"extract": {"outputs": ["y"]}})
    assert run.interface == {"a": ["n", 2], "y": ["n", 2]}
    assert run.notes == ("no output was compared with the model before it: extract changed what goes in or comes out",)


def test_a_piece_between_inputs_and_outputs_of_the_model_is_compared(tmp_path: Path) -> None:
    run = edit(tmp_path, parse(PAIR), {"extract": {"inputs": ["b", "a"], "outputs": ["y"]}})
    assert run.interface == {"b": ["n", 2], "a": ["n", 2], "y": ["n", 2]}
    assert run.value("max_abs_error") == 0


def test_models_that_share_an_input(tmp_path: Path) -> None:
    other = artifact(tmp_path, parse(LOOKUP))
    merged = {"connect": {"y": "extra"}, "prefix": "then."}
    model = parse("""
    <ir_version: 9, opset_import: ["" : 20]>
    first (int64[batch, length] ids, float[batch, 2] x) => (float[batch, 2] y) { y = Neg (x) }
    """)
    run = edit(tmp_path, model, {"merge": merged | {"share": ["ids"]}}, other=other)
    shapes = {"ids": ["batch", "length"], "x": ["batch", 2], "then.mask": ["batch", "length"]}
    assert run.interface == {**shapes, "then.y": ["batch", "length", 2]}
    text = refusal(tmp_path, model, {"merge": merged | {"share": ["x"]}}, other=other)
    assert text == ("edits[0].merge.share: the model has no 'x'\n  it has ids")


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ({"rename": {"X": "image"}}, "edits[0].rename: the model has no 'X'\n  it has x, y"),
        ({"rename": {"x": "y"}}, "edits[0].rename: two inputs or outputs would have the name 'y'"),
        ({"axes": {"m": 1}}, "edits[0].axes: the model has no 'm'\n  it has n"),
        ({"axes": {"n": 0}}, "edits[0].axes: the axis 'n' cannot be 0"),
        ({"axes": {"n": ""}}, "edits[0].axes: the axis 'n' cannot be ''"),
        ({"rename": {"x": ""}}, "edits[0].rename: 'x' cannot be renamed to ''"),
        ({"shapes": {"x": [0, 4]}}, "edits[0].shapes: an axis of 'x' cannot be 0"),
        ({"shapes": {"x": ["", 4]}}, "edits[0].shapes: an axis of 'x' cannot be ''"),
        ({"shapes": {"x": ["n"]}}, "edits[0].shapes: input 'x' has 2 axes, not 1"),
        (
            {"types": {"x": {"dtype": "uint8", "mean": [1, 2]}}},
            (
                "edits[0].types: mean has 2 numbers for 4 channels of 'x'\n"
                "  hint: `axis` says which axis holds the channels"
            ),
        ),
        (
            {"make_constant": {"x": 1}},
            (
                "edits[0].make_constant: input 'x' cannot be a constant: its axis 'n' is dynamic\n"
                "  no other input has an axis of that name, from which its size could be read\n"
                "  hint: fix the axis first: `axes: {NAME: SIZE}`"
            ),
        ),
        ({"make_constant": {"x": "a"}}, "edits[0].make_constant: 'a' is no value of 'x', which is of FLOAT"),
        ({"make_input": ["v"]}, "edits[0].make_input: the model has no 'v'\n  it has two, w"),
        ({"drop_outputs": ["y"]}, "edits[0].drop_outputs: a model needs an output, and all would be dropped"),
        ({"add_outputs": ["y"]}, "edits[0].add_outputs: 'y' is an output already"),
        ({"remove": {}}, "edits[0].remove: names no node\n  hint: `nodes: [NAME]` or `op_types: [Identity]`"),
        ({"remove": {"nodes": ["two"]}}, "edits[0].remove: Constant 'two' has no input that could take its place"),
        (
            {"replace": {"op_types": ["Mul"], "by": "Mull"}},
            (
                "edits[0].replace.by: the model has no 'Mull'\n"
                f"  it has Abs, Acos, Acosh, Add, AffineGrid and {len(OPERATORS) - 5} more{VIEWER}"
            ),
        ),
        (
            {"extract": {}},
            "edits[0].extract: names no value\n  hint: `outputs: [NAME]` for the head, `inputs: [NAME]` for the tail",
        ),
        (
            {"merge": {"connect": {"y": "x"}}},
            (
                "edits[0].merge: there is no model to merge\n  no stage is connected to the input `other`\n"
                "  hint: needs: {model: STAGE, other: STAGE}"
            ),
        ),
        ({}, "edits[0]: an edit has one key\n  it has 0"),
    ],
)
def test_what_cannot_be(edits: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, parse(WORDY), edits) == message


def test_models_that_do_not_fit(tmp_path: Path) -> None:
    other = artifact(tmp_path, parse(LOOKUP))
    text = refusal(tmp_path, parse(WORDY), {"merge": {"connect": {"y": "ids"}}}, other=other)
    assert text == "edits[0].merge: output 'y' is of float, and input 'ids' of int64"
    text = refusal(tmp_path, parse(WORDY), {"merge": {"connect": {"y": "extra"}}}, other=other)
    assert (text.splitlines()[0], text.splitlines()[-1]) == (
        "edits[0].merge: the models cannot be merged",
        "  hint: where names collide, set `prefix`; the log has the whole message",
    )
    text = refusal(tmp_path, parse(WORDY), {"merge": {"connect": {"nope": "ids"}}}, other=other)
    assert text == ("edits[0].merge.connect: the model has no 'nope'\n  it has y")
    text = refusal(tmp_path, parse(WORDY), {"merge": {"connect": {"y": "nope"}}}, other=other)
    assert text == ("edits[0].merge.connect: the model at `other` has no 'nope'\n  it has extra, ids, mask")


def test_a_check_may_be_off(tmp_path: Path) -> None:
    run = edit(tmp_path, parse(WORDY), {"rename": {"x": "image"}}, check=False)
    assert set(run.metrics) == PLAIN
    assert run.notes == ("no output was compared with the model before it: `check` is off",)
