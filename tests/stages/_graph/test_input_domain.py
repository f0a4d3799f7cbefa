"""Input domain of a model: declared once, carried along, and respected by all made-up inputs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from orun.errors import OrunError, UsageError
from orun.stages._data.synthetic import make_examples
from orun.stages._graph.feeds import Input
from orun.stages._graph.input_domain import (
    PROPERTY,
    DeclaredInput,
    InputDomain,
    InputValues,
    build_domain,
    carry_domain,
    read_domain,
    write_domain,
)
from orun.stages._graph.io import load_graph
from orun.stages._graph.signature import build_inputs, find_sizes
from orun.stages.contract import Port, Spec
from orun.stages.timing import Sizes, make_feeds, make_timed_feeds
from tests.stages.conftest import MODULES, SCORER
from tests.stages.models import ADD, LOOKUP, WORDY, parse, store_weights
from tests.stages.support import artifact, make_context, run_stage

DOMAIN = InputDomain(
    {"ids": InputValues(high=3), "mask": InputValues("right-padded"), "extra": InputValues(low=2, high=5)},
    {"length": (4, 6)},
)
UNKNOWN = "inputs: the model has no '{}'\n  it has extra, ids, mask"
SPEC = Spec(inputs={"model": Port(("onnx",), "The model.")})


def declared(domain: InputDomain = DOMAIN, text: str = LOOKUP) -> onnx.ModelProto:
    model = parse(text)
    write_domain(model, domain)
    return model


def test_inputs_are_made_up_within_it() -> None:
    model = declared()
    assert build_inputs(model) == (
        Input("ids", "int64", ("batch", "length"), low=0, high=3),
        Input("mask", "int64", ("batch", "length"), fill="right-padded"),
        Input("extra", "float32", ("batch", 2), low=2, high=5),
    )
    assert find_sizes(model) == {"length": (4, 6)}


def test_it_is_json_in_the_file() -> None:
    (entry,) = declared().metadata_props
    assert entry.key == "orun.input_domain"
    assert json.loads(entry.value) == {
        "inputs": {
            "ids": {"fill": "random", "high": 3},
            "mask": {"fill": "right-padded"},
            "extra": {"fill": "random", "low": 2, "high": 5},
        },
        "sizes": {"length": [4, 6]},
    }
    assert read_domain(declared()) == DOMAIN
    assert build_domain(build_inputs(declared()), {"length": [4, 6]}).inputs["mask"] == InputValues("right-padded")


def test_an_integer_that_is_no_mask_is_not_taken_for_one() -> None:
    assert build_inputs(declared(InputDomain({"mask": InputValues(high=7)})))[1] == Input(
        "mask", "int64", ("batch", "length"), high=7
    )


def test_bounds_that_a_narrower_type_does_not_have() -> None:
    model = declared(InputDomain({"x": InputValues(low=-1e5, high=1e5)}), ADD)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    assert [(item.low, item.high) for item in build_inputs(model)] == [(-65504, 65504)]


def test_what_the_model_no_longer_has_is_not_read() -> None:
    model = declared(InputDomain({"gone": InputValues(high=3)}, {"gone": (4,), "length": (2,)}))
    assert [item.name for item in build_inputs(model)] == ["ids", "mask", "extra"]
    assert find_sizes(model) == {"length": (2,)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting property name enclosed in double quotes"),
        ('{"inputs": {"mask": {"fil": "mask"}}}', "Object contains unknown field `fil`"),
        ('{"inputs": {"mask": {"fill": "left"}}}', "Invalid enum value 'left'"),
        ('{"sizes": {"length": [1.5]}}', "Expected `int`, got `float`"),
        ("[" * 200_000, "its lists and objects are nested too deep"),
    ],
)
def test_a_property_that_cannot_be_read(text: str, why: str) -> None:
    model = parse(LOOKUP)
    model.metadata_props.add(key=PROPERTY, value=text)
    with pytest.raises(UsageError) as caught:
        build_inputs(model)
    assert caught.value.problem == "the model's property `orun.input_domain` cannot be read"
    assert caught.value.why.startswith(why)
    assert '{"inputs": {"mask": {"fill": "right-padded"}' in caught.value.hint


def test_a_dataset_that_is_made_up(tmp_path: Path) -> None:
    dataset = make_examples(artifact(tmp_path, declared()) / "model.onnx", 20, {}, 0)
    assert {row.shape for row in dataset.inputs["ids"]} == {(4,), (6,)}
    assert max(int(row.max()) for row in dataset.inputs["ids"]) == 3
    assert min(float(row.min()) for row in dataset.inputs["extra"]) >= 2
    assert all((np.diff(row) <= 0).all() for row in dataset.inputs["mask"])


@pytest.mark.parametrize(("sizes", "expected"), [((4, 6), 6), ((200, 300), 200), ((64, 512), 128)])
def test_what_is_timed(tmp_path: Path, sizes: tuple[int, ...], expected: int) -> None:
    model = artifact(tmp_path, declared(InputDomain(DOMAIN.inputs, {"length": sizes}))) / "model.onnx"
    (feed,) = make_feeds({"model": model}, Sizes(), 0, None).values()
    assert feed["ids"].shape == (1, expected)
    assert feed["ids"].max() <= 3
    assert feed["extra"].min() >= 2
    (feed,) = make_feeds({"model": model}, Sizes(axes={"length": 9}), 0, None).values()
    assert feed["ids"].shape == (1, 9)


def test_a_stage_that_drops_it(tmp_path: Path) -> None:
    before, after = artifact(tmp_path, declared()), artifact(tmp_path, parse(LOOKUP))
    twin = tmp_path / "twin"
    os.link(after / "model.onnx", twin)
    content = twin.read_bytes()
    assert carry_domain(SPEC, after, {"model": before}) == ()
    assert read_domain(load_graph(after / "model.onnx")) == DOMAIN
    assert [path.name for path in after.iterdir()] == ["model.onnx"]
    assert twin.read_bytes() == content  # which may be a file of the store


def test_a_stage_that_drops_the_names_of_axes(tmp_path: Path) -> None:
    before, nameless = artifact(tmp_path, declared()), declared()
    for value in nameless.graph.input:
        for axis in value.type.tensor_type.shape.dim:
            axis.ClearField("dim_param")
    after = artifact(tmp_path, nameless)
    carry_domain(SPEC, after, {"model": before})
    model = load_graph(after / "model.onnx")
    assert [item.shape for item in build_inputs(model)] == [("batch", "length"), ("batch", "length"), ("batch", 2)]
    assert find_sizes(model) == {"length": (4, 6)}


def test_a_stage_that_leaves_its_own(tmp_path: Path) -> None:
    own = InputDomain({"ids": InputValues(high=1)})
    after = artifact(tmp_path, declared(own))
    assert carry_domain(SPEC, after, {"model": artifact(tmp_path, declared())}) == ()
    assert read_domain(load_graph(after / "model.onnx")) == own


def test_a_stage_that_changes_the_inputs_says_what_becomes_of_it(tmp_path: Path) -> None:
    renamed = parse(LOOKUP.replace("extra", "further"))
    notes = carry_domain(SPEC, artifact(tmp_path, renamed), {"model": artifact(tmp_path, declared())})
    assert notes == (
        "the input domain of extra is dropped: the model no longer has this input",
        "the input domain does not cover further, which the model takes now",
    )


# Texts that a kind can fuse nothing of, with a product for those that change weights.
ENCODER = """
<ir_version: 9, opset_import: ["" : 17]>
encoder (int64[batch, sequence] ids, int64[batch, sequence] mask) => (float[batch, sequence, 64] hidden)
{
  rows = Gather (table, ids)
  shown = Cast <to = 1> (mask)
  axis = Constant <value = int64[1] {2}> ()
  column = Unsqueeze (shown, axis)
  masked = Mul (rows, column)
  same = Identity (masked)
  hidden = MatMul (same, weight)
}
"""
LENGTHS = (3, 4, 5, 6)
TEXTS = InputDomain({"ids": InputValues(high=90), "mask": InputValues("right-padded")}, {"sequence": LENGTHS})
ADDITIONS: dict[str, dict[str, Any]] = {
    "optimize/shapes": {"fix": {"sequence": 5}},
    "convert/opset": {"version": 21},
    "optimize/low-rank": {"method": "plain", "size": 0.9},
    "optimize/python": {"function": "changes.py:eliminate_identity", "form": "ir"},
}


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    model = store_weights(onnx.parser.parse_model(ENCODER), {"table": (100, 64), "weight": (64, 64)})
    write_domain(model, TEXTS)
    return artifact(tmp_path, model)


@pytest.mark.parametrize(
    "kind",
    [
        "convert/opset",
        "optimize/simplify",
        "optimize/graph",
        "optimize/transformer",
        "optimize/float16",
        "optimize/shapes",
        "optimize/python",
        "optimize/prune",
        "optimize/low-rank",
        "quantize/dynamic",
        "quantize/static",
        "quantize/weights",
        "release/metadata",
    ],
)
def test_every_kind_keeps_it(tmp_path: Path, encoder: Path, kind: str) -> None:
    """Kinds keep the domain themselves, so that the metric `size` is that of the file."""
    provenance = tmp_path / "provenance.json"
    provenance.write_text('{"pipeline": "p", "needs": {}, "stages": []}')
    result = run_stage(
        kind, tmp_path, ADDITIONS.get(kind, {}), inputs={"model": encoder}, root=MODULES, provenance=provenance
    )
    model = load_graph(result.model)
    assert read_domain(model) == TEXTS
    assert find_sizes(model) == ({} if kind == "optimize/shapes" else {"sequence": LENGTHS})
    assert result.value("size") == sum(path.stat().st_size for path in result.output.iterdir())
    if "compared" in result.log:  # at four lengths, or at the three sizes of the batch, and at the bounds
        assert f"on {5 if kind == 'optimize/shapes' else 6} inputs" in result.log


def test_an_export_declares_it(tmp_path: Path) -> None:
    padded = {**SCORER["inputs"]["mask"], "fill": "right-padded"}
    inputs = {**SCORER["inputs"], "mask": padded}
    params = {**SCORER, "inputs": inputs, "dims": {"length": [3, 6]}, "exporter": "torchscript"}
    exported = run_stage("convert/torch", tmp_path, params, root=MODULES)
    model = load_graph(exported.model)
    assert read_domain(model) == InputDomain(
        {"ids": InputValues(high=10), "mask": InputValues("right-padded")}, {"length": (3, 6)}
    )
    assert find_sizes(model) == {"length": (3, 6)}
    assert exported.value("size") == exported.model.stat().st_size


def test_sizes_of_a_stage_go_before(tmp_path: Path, encoder: Path) -> None:
    result = run_stage("optimize/graph", tmp_path, {"dims": {"sequence": [2, 3, 4, 5, 6]}}, inputs={"model": encoder})
    assert "on 7 inputs" in result.log


def test_a_model_that_exists(tmp_path: Path) -> None:
    onnx.save(declared(), tmp_path / "given.onnx")
    params: dict[str, Any] = {"path": "given.onnx"}
    assert read_domain(load_graph(run_stage("convert/onnx", tmp_path, params).model)) == DOMAIN
    params |= {"inputs": {"ids": {"high": 1}}, "dims": {"batch": [2]}}
    result = run_stage("convert/onnx", tmp_path, params)
    assert read_domain(load_graph(result.model)) == InputDomain(
        {**DOMAIN.inputs, "ids": InputValues(high=1)}, {"length": (4, 6), "batch": (2,)}
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"inputs": {"id": {"high": 1}}}, UNKNOWN.format("id")),
        ({"inputs": {"ids": {"low": 9}}}, "input 'ids' takes values from 9 to 4, which is an empty range"),
        ({"dims": {"width": [1]}}, "the model has no dynamic axis 'width'\n  its dynamic axes are batch, length"),
        ({"dims": {"length": [-1]}}, "the dynamic axis 'length' cannot be -1\n  sizes are whole numbers from 0 on"),
    ],
)
def test_a_domain_that_no_input_is_within(tmp_path: Path, params: dict[str, Any], message: str) -> None:
    onnx.save(parse(LOOKUP), tmp_path / "given.onnx")
    with pytest.raises(OrunError) as caught:
        run_stage("convert/onnx", tmp_path, {"path": "given.onnx", **params})
    assert str(caught.value) == message


def test_inputs_of_a_stage_go_before(tmp_path: Path) -> None:
    """The domain allows an index of 4, at which the reference fails; the stage's `inputs` excludes it."""
    model = declared(InputDomain({"ids": InputValues(low=4, high=7)}))
    before = artifact(tmp_path, model)
    with pytest.raises(OrunError, match=r"^the model before it cannot run random values at "):
        run_stage("optimize/graph", tmp_path, inputs={"model": before})
    params = {"inputs": {"ids": {"high": 3}}, "dims": {"length": [5]}}
    result = run_stage("optimize/graph", tmp_path, params, inputs={"model": before})
    assert "on 5 inputs" in result.log
    assert read_domain(load_graph(result.model)) == read_domain(model)
    with pytest.raises(OrunError) as caught:
        run_stage("optimize/graph", tmp_path, {"inputs": {"id": {"high": 3}}}, inputs={"model": before})
    assert str(caught.value) == UNKNOWN.format("id")


def test_inputs_of_a_stage_go_before_in_calibration_too(tmp_path: Path) -> None:
    model = parse(WORDY)
    write_domain(model, InputDomain({"x": InputValues(low=-100, high=100)}))
    scales = []
    for params in ({}, {"inputs": {"x": {"low": -1, "high": 1}}}):
        result = run_stage("quantize/static", tmp_path, params, inputs={"model": artifact(tmp_path, model)})
        (scale,) = (tensor for tensor in onnx.load(result.model).graph.initializer if tensor.name == "x_scale")
        scales.append(float(onnx.numpy_helper.to_array(scale)))
    assert 0.7 < scales[0] <= 200 / 255 < 100 * scales[1] * 1.1
    assert 0.007 < scales[1] <= 2 / 255


def test_inputs_of_a_stage_go_before_in_what_is_timed(tmp_path: Path) -> None:
    stage = make_context(tmp_path, inputs={"model": artifact(tmp_path, declared())})
    feed = make_timed_feeds(stage, {"extra": DeclaredInput(low=7, high=8)}, Sizes(axes={"length": 5}))["model"]
    assert 7 <= feed["extra"].min() <= feed["extra"].max() <= 8
    assert feed["ids"].shape == (1, 5)
    with pytest.raises(OrunError) as caught:
        make_timed_feeds(stage, {"more": DeclaredInput()}, Sizes())
    assert str(caught.value) == UNKNOWN.format("more")
