from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from orun.errors import OutputRefused
from orun.stages.contract import Artifact, Port, Spec
from orun.stages.ensure import check_output
from tests.stages.models import parse

SAME = Spec(inputs={"model": Port(("onnx",), "a model")})
CHANGED = Spec(inputs={"model": Port(("onnx",), "a model")}, interface="changed")


def affine(
    *,
    dims: tuple[int | str, ...] = ("batch", 4),
    out: tuple[int | str, ...] = ("batch", 4),
    name: str = "x",
    to: int = 1,
) -> ModelProto:
    """A model that adds w to x, with the shapes given."""
    graph = helper.make_graph(
        [helper.make_node("Add", [name, "w"], ["y"])],
        "affine",
        [helper.make_tensor_value_info(name, to, dims)],
        [helper.make_tensor_value_info("y", to, out)],
        [numpy_helper.from_array(np.ones(4, helper.tensor_dtype_to_np_dtype(to)), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / "output").mkdir()
    return tmp_path / "output"


def check(spec: Spec, output: Path, before: ModelProto | None = None) -> None:
    """Check the output of a stage whose input was the model before, if there was one."""
    inputs = {}
    if before:
        inputs["model"] = output.parent / "input"
        inputs["model"].mkdir()
        onnx.save(before, inputs["model"] / "model.onnx")
    check_output("int8", spec, output, inputs)


def refusal(spec: Spec, output: Path, before: ModelProto | None = None) -> str:
    with pytest.raises(OutputRefused) as caught:
        check(spec, output, before)
    return str(caught.value)


def external(output: Path, location: str = "weights.bin") -> ModelProto:
    """A model with its weights in external data."""
    model = affine()
    onnx.save(model, output / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    model = onnx.load(output / "model.onnx", load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    (output / "model.onnx").write_bytes(model.SerializeToString())
    return model


def test_a_model_like_its_input(output: Path) -> None:
    onnx.save(affine(), output / "model.onnx")
    check(SAME, output, affine())


def test_external_data_wherever_it_lies_below(output: Path) -> None:
    external(output, "data/weights.bin")
    (output / "data").mkdir()
    (output / "weights.bin").rename(output / "data" / "weights.bin")
    check(SAME, output, affine())


@pytest.mark.parametrize("artifact", ["onnx", "engine", "dataset", "bundle", "files"])
def test_nothing_is_not_enough(output: Path, artifact: Artifact) -> None:
    (output / "empty").mkdir()
    save = "save the model to context.result; " if artifact == "onnx" else ""
    assert refusal(Spec(output=artifact), output) == (
        f"int8 left nothing\n  its kind yields {artifact}, so that it must fill its output folder\n"
        f'  hint: {save}a function that yields only metrics declares it: @stage(output="metrics")'
    )


def test_a_stage_that_measures_may_leave_nothing_or_anything(output: Path) -> None:
    check_output("latency", Spec(output="metrics"), output, {})
    (output / "samples.json").write_text("[]")
    check_output("latency", Spec(output="metrics"), output, {})


def link(path: Path) -> None:
    path.symlink_to("/etc/hosts")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


@pytest.mark.parametrize(
    ("make", "message"),
    [(link, "a link"), (os.mkfifo, "a socket, a pipe or a device"), (listening, "a socket, a pipe or a device")],
)
def test_only_files_and_folders(
    output: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], message: str
) -> None:
    monkeypatch.chdir(output)
    (output / "a").write_text("a")
    make(output / "b")
    assert (
        refusal(Spec(output="files"), output) == f"int8 left {message}\n  b: an artifact holds only files and folders"
    )


def test_a_name_that_is_not_unicode(output: Path) -> None:
    Path(os.fsdecode(os.fsencode(output) + b"/caf\xe9")).touch()
    assert refusal(Spec(output="files"), output) == "int8 left a file whose name is not Unicode\n  caf\ufffd"


def test_folders_deeper_than_a_path_may_be_long(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(output)
    for _ in range(25):
        Path("d" * 200).mkdir()
        os.chdir("d" * 200)
    os.chdir(output)
    assert refusal(Spec(output="files"), output) == (
        f"int8 left folders in folders that are too deep\n  {'d' * 60}...: a path of more than 3000 bytes"
    )


@pytest.mark.parametrize("make", [lambda _: None, Path.touch, link])
def test_no_output_folder(output: Path, make: Callable[[Path], None]) -> None:
    output.rmdir()
    make(output)
    assert refusal(Spec(output="files"), output) == (
        "int8 left no output folder\n  something removed it while the stage ran"
    )


def test_no_model(output: Path) -> None:
    (output / "int8.onnx").write_text("x")
    (output / "notes.txt").write_text("x")
    assert refusal(SAME, output) == (
        "int8 left no model.onnx\n  its folder holds int8.onnx, notes.txt\n  hint: Save the model to context.result"
    )


def test_no_onnx(output: Path) -> None:
    (output / "model.onnx").write_text("not a model")
    assert refusal(SAME, output) == (
        "int8 left a bad model: model.onnx is not an ONNX model\n  it is a text file, which begins with 'not a model'"
    )


@pytest.mark.parametrize("location", ["/etc/weights.bin", "../weights.bin", "a/../../weights.bin"])
def test_external_data_outside_of_the_folder(output: Path, location: str) -> None:
    external(output, location)
    assert refusal(SAME, output) == (
        "int8 left a bad model: model.onnx names external data outside its folder\n"
        f"  location {location!r}; a model may only read files in or below its own folder"
    )


def test_external_data_that_is_not_there(output: Path) -> None:
    external(output, "other.bin")
    assert refusal(SAME, output) == (
        "int8 left a bad model: model.onnx names external data that is missing\n  no file 'other.bin' next to it"
    )


def test_external_data_that_is_cut_short(output: Path) -> None:
    external(output)
    os.truncate(output / "weights.bin", 7)
    assert refusal(SAME, output) == (
        "int8 left a model whose external data is cut short\n  tensor 'w' ends at byte 16 of weights.bin, which has 7"
    )


def test_files_that_the_model_does_not_name(output: Path) -> None:
    external(output)
    (output / "left.data").write_text("x")
    (output / "tmp").mkdir()
    (output / "tmp" / "old.bin").write_text("x")
    assert refusal(SAME, output) == (
        "int8 left files that its model does not name\n"
        "  left.data, tmp/old.bin: an onnx artifact is model.onnx and the external data that its tensors name\n"
        "  hint: Write temporary files to the working folder, and other artifacts in their own stage"
    )


def test_a_model_that_the_checker_refuses(output: Path) -> None:
    model = affine()
    model.graph.node[0].op_type = "NoSuchOperator"
    (output / "model.onnx").write_bytes(model.SerializeToString())
    assert refusal(SAME, output).startswith(
        "int8 left a model that the ONNX checker refuses\n"
        "  No Op registered for NoSuchOperator with domain_version of 17\n"
    )


def test_a_model_of_a_later_onnx(output: Path) -> None:
    model = affine()
    model.ir_version, model.opset_import[0].version = 99, 98
    (output / "model.onnx").write_bytes(model.SerializeToString())
    version, opset = onnx.__version__, onnx.defs.onnx_opset_version()
    assert refusal(SAME, output) == (
        "int8 left a model that the ONNX checker refuses\n"
        f"  Your model ir_version 99 is higher than the checker's ({onnx.IR_VERSION}).\n"
        f"  hint: its IR version is 99, and onnx {version} knows {onnx.IR_VERSION}, its operator set is 98, and onnx "
        f"{version} knows {opset}: upgrade onnx, or export the model for that version"
    )


@pytest.mark.parametrize(
    ("after", "difference"),
    [
        (affine(name="ids"), "inputs: x -> ids"),
        (affine(to=TensorProto.DOUBLE), "input 'x': float -> double\n  output 'y': float -> double"),
        (
            affine(dims=("batch", 4, 4), out=("batch", 4, 4)),
            "input 'x': shape [?, 4] -> [?, 4, 4]\n  output 'y': shape [?, 4] -> [?, 4, 4]",
        ),
        (affine(dims=(1, 4)), "input 'x': shape [?, 4] -> [1, 4]"),
        (affine(dims=("batch", "width")), "input 'x': shape [?, 4] -> [?, ?]"),
        (affine(out=("batch", "width")), "output 'y': shape [?, 4] -> [?, ?]"),
    ],
)
def test_another_interface(output: Path, after: ModelProto, difference: str) -> None:
    onnx.save(after, output / "model.onnx")
    assert refusal(SAME, output, affine()) == (
        "int8 changed the inputs or outputs of the model\n"
        f"  {difference}\n"
        "  hint: A kind that does so on purpose declares it: interface='changed'"
    )


def test_another_interface_of_a_kind_that_says_so(output: Path) -> None:
    onnx.save(affine(name="ids", to=TensorProto.DOUBLE), output / "model.onnx")
    check(CHANGED, output, affine())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (affine(), affine(dims=("N", 4), out=("M", 4))),  # the name of an open dimension
        (affine(out=("batch", "width")), affine()),  # an output that is known better
    ],
)
def test_what_may_differ(output: Path, before: ModelProto, after: ModelProto) -> None:
    onnx.save(after, output / "model.onnx")
    check(SAME, output, before)


def test_initializers_among_the_inputs_of_old_models_are_none(output: Path) -> None:
    old = affine()
    old.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    onnx.save(affine(), output / "model.onnx")
    check(SAME, output, old)


def test_values_that_are_no_tensors(output: Path) -> None:
    model = parse(
        '<ir_version: 9, opset_import: ["": 17]> g (float[4] t) => (seq(float[4]) s) { s = SequenceConstruct (t) }'
    )
    onnx.save(model, output / "model.onnx")
    check(SAME, output, model)


def test_weights_in_nested_graphs_count(output: Path) -> None:
    """A file that only the branch of an If names is no surplus."""
    branch = "b () => (float[4] z) <float[4] k = {1, 1, 1, 1}> { z = Identity (k) }"
    model = parse(
        '<ir_version: 9, opset_import: ["": 17]> g (bool c) => (float[4] y) '
        f"{{ y = If <then_branch = {branch}, else_branch = {branch}> (c) }}"
    )
    for attribute in model.graph.node[0].attribute:
        (tensor,) = attribute.g.initializer
        tensor.CopyFrom(numpy_helper.from_array(np.ones(4, np.float32), "k"))
        raw = tensor.raw_data
        onnx.external_data_helper.set_external_data(tensor, "k.bin", 0, len(raw))
        tensor.ClearField("raw_data")
        (output / "k.bin").write_bytes(raw)
    (output / "model.onnx").write_bytes(model.SerializeToString())
    check(SAME, output)
