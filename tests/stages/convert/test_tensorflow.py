"""Networks of TensorFlow and Keras, converted from every form they come in, and compared with TensorFlow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime import InferenceSession

import orun
from orun.core.source_model import SourceModel
from orun.errors import OrunError, PipelineError
from orun.measure.framework_model import FrameworkSession
from orun.pipeline.fragments import to_plain_default
from orun.stages._graph import input_domain
from orun.stages.contract import to_module_name
from orun.stages.convert.tensorflow import Params
from orun.stages.params import list_params
from orun.stages.reference_models import open_source
from tests.stages.conftest import MODULES
from tests.stages.support import StageRun, run_stage
from tests.thin import mostly_slow

TOKENS = {"shape": ["batch", "length"]}
TEXT = {"inputs": {"ids": TOKENS, "mask": {**TOKENS, "fill": "mask"}}}
TEXT_SHAPES = {
    "ids": ["batch", "length"],
    "mask": ["batch", "length"],
    "pooled": ["batch", 8],
    "sequence": ["batch", "length", 8],
}
PAIR = {"left": {"shape": ["batch", 4]}, "right": {"shape": ["batch", 4]}}


def convert(folder: Path, model: str, **params: Any) -> StageRun:
    return run_stage("convert/tensorflow", folder, {"model": f"networks.py:{model}", **params}, root=MODULES)


def refusal(folder: Path, model: str, **params: Any) -> str:
    with pytest.raises(OrunError) as caught:
        convert(folder, model, **params)
    return str(caught.value)


@pytest.mark.parametrize(
    ("model", "params", "expected"),
    [
        ("sequential", {}, {"input": ["batch", 8, 8, 1], "output": ["batch", 10]}),
        pytest.param("masked", TEXT, TEXT_SHAPES, marks=pytest.mark.slow),
        pytest.param("attentive", TEXT, TEXT_SHAPES, marks=pytest.mark.slow),
        # the quick tests have an LSTM among the layers of indices
        pytest.param("recurrent", {}, {"input": ["batch", 5, 3], "output": ["batch", 2]}, marks=pytest.mark.slow),
        pytest.param("prepared", {}, {"scores": ["batch", 6], "output": ["batch", 2]}, marks=pytest.mark.slow),
        ("subclassed", {"inputs": PAIR}, {"left": ["batch", 4], "right": ["batch", 4], "output": ["batch", 3]}),
        pytest.param("module", {}, {"x": ["batch", 3], "sum": ["batch"], "y": ["batch", 2]}, marks=pytest.mark.slow),
        (
            "function",
            {"inputs": {"x": {"shape": ["n", 2]}, "y": {"shape": ["n", 2]}}, "outputs": ["z"]},
            {"x": ["n", 2], "y": ["n", 2], "z": ["n", 2]},
        ),
    ],
)
def test_models_of_every_make(
    tmp_path: Path, model: str, params: dict[str, Any], expected: dict[str, list[int | str]]
) -> None:
    run = convert(tmp_path, model, **params)
    assert run.interface == expected
    assert run.value("max_abs_error") < 1e-5
    onnx.checker.check_model(onnx.load(run.model), full_check=True)


@pytest.mark.slow
def test_several_outputs_keep_the_names_of_keras(tmp_path: Path) -> None:
    assert [*convert(tmp_path, "two_outputs").interface] == ["x", "kind", "score"]
    assert [*convert(tmp_path, "two_outputs", outputs=["kind", "points"]).interface] == ["x", "kind", "points"]
    assert refusal(tmp_path, "two_outputs", outputs=["score", "kind"]) == (
        "`outputs` gives the model's output 'kind' the name 'score', which another output has\n"
        "  it names them in order, and the model's own names are kind, score\n"
        "  hint: outputs: [kind, score], or other names in this order"
    )
    # a layer that yields both has one name for them
    assert [*convert(tmp_path, "shared_output").interface] == ["x", "output_0", "output_1"]


SOUND: dict[str, Any] = {"inputs": {"input": {"shape": ["batch", "length", 1]}}, "dims": {"length": [400, 800]}}


@pytest.mark.slow
def test_a_constant_waveform(tmp_path: Path) -> None:
    """Its convolutions yield what is constant but for rounding, which the norms behind them make large."""
    run = convert(tmp_path, "speech", **SOUND)
    assert 1e-4 < run.value("max_abs_error") < 2e-2
    (note,) = run.notes
    assert re.fullmatch(
        r"the converted model is off by \S+ in output 'output' for (lowest|highest) values at batch=2, length=400, "
        r"beyond the tolerance: the TensorFlow model differs from itself, with rounding errors added to its inputs and "
        r"weights, by up to \S+ there, and 10 times that is allowed",
        note,
    )


@pytest.mark.slow
def test_a_wrong_conversion_of_an_ill_conditioned_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_domain = input_domain.write_domain

    def spoil(model: onnx.ModelProto, *arguments: Any) -> None:
        weight = next(tensor for tensor in model.graph.initializer if list(tensor.dims) == [32, 4])
        weight.CopyFrom(onnx.numpy_helper.from_array(1.01 * onnx.numpy_helper.to_array(weight), weight.name))
        write_domain(model, *arguments)

    monkeypatch.setattr(input_domain, "write_domain", spoil)
    assert refusal(tmp_path, "speech", **SOUND).startswith(
        "the converted model disagrees with the TensorFlow model in output 'output'\n  "
    )


def test_an_operator_that_onnx_does_not_have(tmp_path: Path) -> None:
    assert refusal(tmp_path, "without_an_operator") == (
        "tf2onnx cannot convert Erfinv\n"
        "  ONNX has no operator of that name, and tf2onnx leaves TensorFlow's in its place\n"
        "  hint: write it with other operations in the model; the log says where it stands"
    )


@pytest.mark.parametrize(
    ("model", "operators"),
    [
        ("texts_by_a_table", "LookupTableFindV2"),
        ("texts_in_parts", "LookupTableFindV2, StaticRegexReplace, StringSplitV2"),
    ],
)
def test_texts_that_tensorflow_turns_into_numbers(tmp_path: Path, model: str, operators: str) -> None:
    assert refusal(tmp_path, model) == (
        "tf2onnx cannot convert the model\n"
        f"  it uses {operators}, as the layers StringLookup, IntegerLookup and TextVectorization do\n"
        "  hint: leave such a layer out of the exported model, and give the model its numbers"
    )


def test_texts_that_tensorflow_compares(tmp_path: Path) -> None:
    assert refusal(tmp_path, "texts_compared") == (
        "tf2onnx cannot convert the model\n"
        "  it compares texts by Equal\n"
        "  hint: encode texts outside of the exported model, and give the model its numbers"
    )


@pytest.mark.slow
def test_files_that_lack_the_code_of_a_layer(network_files: Path, tmp_path: Path) -> None:
    hint = (
        "if it has layers of your own, return the model from a function of the file that defines them: "
        "`model: file.py:function`; the log has the whole message"
    )
    for name, why, advised in (
        ("own.keras", "Could not locate class 'Scale'", hint),
        ("masked.h5", "ValueError: Unknown layer: 'NotEqual'", f"save the model as .keras; {hint}"),
    ):
        with pytest.raises(OrunError) as caught:
            run_stage("convert/tensorflow", tmp_path, {"model": name}, root=network_files)
        assert (caught.value.problem, caught.value.hint) == (f"TensorFlow cannot read {name}", advised)
        assert why in caught.value.why


def require_answer(run: StageRun, network_files: Path) -> None:
    """It answers what the network answered that is in the files."""
    session = InferenceSession(run.model, providers=["CPUExecutionProvider"])
    (argument,) = session.get_inputs()
    assert argument.shape == ["batch", 8, 8, 1]
    (answer,) = session.run(["classes"], {argument.name: np.load(network_files / "image.npy")})
    assert np.abs(answer - np.load(network_files / "answer.npy")).max() < 1e-5


@pytest.mark.parametrize("name", mostly_slow(["model.keras", "model.h5", "saved", "model.tflite", "model.pb"], "saved"))
def test_files_of_every_kind(network_files: Path, tmp_path: Path, name: str) -> None:
    run = run_stage("convert/tensorflow", tmp_path, {"model": name, "outputs": ["classes"]}, root=network_files)
    assert run.value("max_abs_error") < 1e-5
    require_answer(run, network_files)
    assert str(network_files).encode() not in run.model.read_bytes()


@pytest.mark.slow
def test_the_model_of_a_file_answers_as_the_converted_one(network_files: Path, tmp_path: Path) -> None:
    """As a reference of stages that measure."""
    import tensorflow as tf

    run = run_stage("convert/tensorflow", tmp_path, {"model": "model.keras"}, root=network_files)
    params = {item.name: to_plain_default(item.default) for item in list_params(Params)}
    entry = to_module_name("convert/tensorflow")
    source = SourceModel("convert", entry, "tensorflow", params | {"model": "model.keras"})
    framework = FrameworkSession(run.model, open_source(source, network_files, 0, None))
    assert framework.title == f"TensorFlow {tf.__version__}, traced by tf.function"
    feed = {item.name: np.load(network_files / "image.npy") for item in framework.get_inputs()}
    (answer,) = framework.run(None, feed)
    assert np.abs(answer - np.load(network_files / "answer.npy")).max() < 1e-5


def trained(network_files: Path, folder: Path, *names: str) -> dict[str, Path]:
    """What a stage that trains leaves, for the port."""
    path = Path(tempfile.mkdtemp(dir=folder))
    for name in names:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes((network_files / name).read_bytes())
    return {"trained": path}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model.keras", "model.tflite"])
def test_a_model_from_a_stage(network_files: Path, tmp_path: Path, name: str) -> None:
    params = {"outputs": ["classes"]}
    run = run_stage("convert/tensorflow", tmp_path, params, inputs=trained(network_files, tmp_path, name))
    require_answer(run, network_files)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("model.keras", "model.h5"), "model.h5, model.keras"),
        (("image.npy",), "none"),
        (("saved/saved_model.pb", "model.pb"), "none"),  # programs, which can write files
    ],
)
def test_what_a_stage_left_that_is_no_one_model(
    network_files: Path, tmp_path: Path, names: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(OrunError) as caught:
        run_stage("convert/tensorflow", tmp_path, inputs=trained(network_files, tmp_path, *names))
    assert str(caught.value) == f"the input `trained` must hold one model: .keras, .h5, .tflite\n  found {expected}"


TRAINED = """
from orun import Context, stage

@stage(inputs={}, output="files")
def train(context: Context) -> None:
    pass
"""
PIPELINE = """
stages:
  train: {uses: ./train.py:train}
  good: {uses: convert/tensorflow, needs: train}
  none: {uses: convert/tensorflow}
  both: {uses: convert/tensorflow, needs: train, with: {model: train.py:train}}
"""


def test_a_model_comes_from_a_stage_or_a_parameter(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINED)
    (tmp_path / "p.yaml").write_text(PIPELINE)
    with pytest.raises(PipelineError) as caught:
        orun.load(tmp_path / "p.yaml")
    assert [(problem.position.line, problem.message) for problem in caught.value.problems] == [
        (5, "missing 'model' or 'needs'"),
        (6, "'model' and 'needs' exclude one another"),
    ]


def test_what_is_no_such_file(network_files: Path, tmp_path: Path) -> None:
    def message(**params: Any) -> str:
        with pytest.raises(OrunError) as caught:
            run_stage("convert/tensorflow", tmp_path, params, root=network_files)
        return str(caught.value)

    assert message(model="image.npy") == (
        "image.npy is no model that TensorFlow can read\n"
        "  expected .keras, .h5, .tflite or .pb, or the folder of a SavedModel"
    )
    assert message(model="saved", signature="serving") == (
        "the SavedModel has no signature 'serving'\n"
        "  it has serve, serving_default\n"
        "  hint: name one: `signature: serve`"
    )
    assert message(model="coder") == (
        "the SavedModel has no signature 'serving_default'\n"
        "  it has decode, encode\n"
        "  hint: name one: `signature: decode`"
    )
    assert message(model="unsigned") == (
        "the SavedModel has no signature 'serving_default'\n"
        "  it has none\n"
        "  hint: save it with a signature: "
        "tf.saved_model.save(model, folder, signatures={'serving_default': function})"
    )
    assert message(model="coder.tflite") == (
        "coder.tflite has several signatures, and tf2onnx converts one\n"
        "  it has decode, encode\n"
        "  hint: convert the SavedModel that it was made of, and name one: `signature: decode`"
    )
    assert message(model="model.pb", tensors=["nothing:0"]).startswith("the graph has no such tensor\n  ")
    assert message(model="model.pb", tensors=["x"]) == (
        "the graph has no such tensor\n"
        "  The name 'x' looks like an (invalid) Operation name, not a Tensor. "
        'Tensor names must be of the form "<op_name>:<output_index>".'
    )
    (tmp_path / "bad.tflite").write_bytes(b"no model")
    with pytest.raises(OrunError) as caught:
        run_stage("convert/tensorflow", tmp_path, {"model": "bad.tflite"})
    assert caught.value.problem == "TensorFlow cannot read bad.tflite"
    (tmp_path / "half.keras").write_bytes((network_files / "model.keras").read_bytes()[:-100])
    with pytest.raises(OrunError) as caught:
        run_stage("convert/tensorflow", tmp_path, {"model": "half.keras"})
    assert str(caught.value) == (
        "half.keras is no complete Keras file\n"
        "  it is not a zip file: was writing it interrupted?\n"
        "  hint: save the model again: model.save('half.keras')"
    )


def test_the_only_signature_of_a_file(network_files: Path, tmp_path: Path) -> None:
    run = run_stage("convert/tensorflow", tmp_path, {"model": "encoder"}, root=network_files)
    assert run.interface == {"x": ["batch", 2], "code": ["batch", 2]}


def test_a_model_that_tensorflow_cannot_trace(tmp_path: Path) -> None:
    assert refusal(tmp_path, "resized").startswith(
        "TensorFlow cannot trace the model\n  OperatorNotAllowedInGraphError: "
    )
    assert refusal(tmp_path, "resized").endswith(
        "\n  hint: fix the axes that it leaves open: `inputs: {image: {shape: [batch, 64, 64, 3]}}`"
    )
    run = convert(tmp_path, "resized", inputs={"image": {"shape": ["batch", 4, 3, 3]}})
    assert run.interface == {"image": ["batch", 4, 3, 3], "output": ["batch", 8, 6, 3]}


@pytest.mark.slow
def test_the_same_bytes_in_every_process(network_files: Path, tmp_path: Path) -> None:
    """tf2onnx counts and sorts as sets iterate; a loop and the files are where it shows most."""
    processes = []
    for seed in ("1", "31337"):
        command = [sys.executable, str(Path(__file__).with_name("digests.py")), str(network_files), str(tmp_path)]
        environment = os.environ | {"PYTHONHASHSEED": seed}
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    first, second = (json.loads(process.communicate(timeout=580)[0].splitlines()[-1]) for process in processes)
    assert first == second
    assert len(first) == 4


@pytest.mark.slow
def test_layers_keep_their_names(tmp_path: Path) -> None:
    graph = onnx.load(convert(tmp_path, "sequential").model).graph
    names = [node.name for node in graph.node]
    assert any(name.endswith("/convolution") for name in names)
    assert any("/dense" in name for name in names)
    assert not [name for name in names if "__" in name]
    assert not graph.value_info


@pytest.mark.slow
def test_external_data_beside_the_model(tmp_path: Path) -> None:
    run = convert(tmp_path, "sequential", external_data="always")
    assert sorted(path.name for path in run.output.iterdir()) == ["model.onnx", "model.onnx.data"]


@pytest.mark.slow
def test_the_seed_makes_the_weights(tmp_path: Path) -> None:
    def convert_with(seed: int) -> bytes:
        params = {"model": "networks.py:module"}
        return run_stage("convert/tensorflow", tmp_path, params, root=MODULES, seed=seed).model.read_bytes()

    assert convert_with(1) == convert_with(1)
    assert convert_with(1) != convert_with(2)


@pytest.mark.parametrize(
    ("model", "params", "message"),
    [
        *(
            (
                model,
                {},
                (
                    f"networks.py:{model} does not say what it takes\n"
                    "  it has neither a signature nor inputs of its own\n"
                    "  hint: say it: inputs: {name: {shape: [batch, 8]}}"
                ),
            )
            for model in ("subclassed", "unbuilt")
        ),
        ("text", {}, "networks.py:text must return a Keras model or a function of TensorFlow\n  it returned a str"),
        (
            "sequential",
            {"outputs": ["a", "b"]},
            (
                "the TensorFlow model returns 1 tensors, and `outputs` names 2\n"
                "  by its own names output\n"
                "  hint: name each tensor that the model returns, in order"
            ),
        ),
        (
            "sequential",
            {"outputs": ["input"]},
            (
                "inputs and outputs need names that differ, and 'input' stands twice\n  inputs input; outputs input\n"
                "  hint: give the output another name in `outputs`"
            ),
        ),
        ("sequential", {"outputs": [""]}, "inputs and outputs need names\n  one is empty"),
        ("sequential", {"inputs": {"image": {"low": 0}}}, "the model has no input image\n  it takes input"),
        (
            "sequential",
            {"dims": {"width": [1]}},
            "the model has no dynamic axis 'width'\n  its dynamic axes are batch",
        ),
        *(
            (
                "sequential",
                {"inputs": {"input": {"shape": shape}}},
                (
                    f"inputs: the shape of 'input' cannot be {shape}\n"
                    "  the model has [?, 8, 8, 1]\n"
                    "  hint: name or fix the axes that it leaves open, and repeat the others"
                ),
            )
            for shape in (["n", 8, 9, 1], ["n"])
        ),
        (
            "sequential",
            {"inputs": {"input": {"dtype": "int64"}}},
            "inputs: 'input' cannot be of int64\n  the model takes float32",
        ),
        (
            "sequential",
            {"signature": "other"},
            "`signature` is for the folder of a SavedModel, and networks.py:sequential is another form of model",
        ),
        (
            "sequential",
            {"tensors": ["x:0"]},
            "`tensors` is for a frozen graph, .pb, and networks.py:sequential is another form of model",
        ),
        (
            "logarithm",
            {},
            (
                "the TensorFlow model yields values that are not finite in output 'output'\n"
                "  for random values at batch=1\n"
                "  hint: say in `inputs` which values the model takes: `low`, `high`, `fill`"
            ),
        ),
    ],
)
def test_parameters_that_do_not_fit_the_model(tmp_path: Path, model: str, params: dict[str, Any], message: str) -> None:
    assert refusal(tmp_path, model, **params) == message


def test_values_that_the_model_takes_are_declared(tmp_path: Path) -> None:
    run = convert(tmp_path, "logarithm", inputs={"x": {"low": 0.5, "high": 2}})
    assert run.value("max_abs_error") < 1e-6


def test_axes_that_must_be_equal_have_one_name(tmp_path: Path) -> None:
    inputs = {"x": {"shape": ["n", 2]}, "y": {"shape": ["m", 2]}}
    message = refusal(tmp_path, "function", inputs=inputs)
    assert message.startswith("the TensorFlow model cannot run random values at ")
    assert message.endswith(
        "\n  hint: say in `inputs` which values the model takes, `low`, `high`, `fill`, and give axes that must be "
        "equal one name, `shape: [batch, length]`; which sizes it takes, `dims: {n: [16, 32], m: [16, 32]}`"
    )


def test_the_reason_why_a_layer_cannot_run(tmp_path: Path) -> None:
    """TensorFlow puts a listing of files before it, for each layer of Keras."""
    assert refusal(tmp_path, "cropped").startswith(
        "the TensorFlow model cannot run random values at batch=1, image_1=2, image_2=7\n"
        "  Input to reshape is a tensor with 14 values, but the requested shape requires a multiple of 32\n"
        "  [[{{node "
    )


@pytest.mark.slow
def test_a_model_that_fails_at_the_sizes_of_images(tmp_path: Path) -> None:
    """ONNX Runtime moves a transposition through the resizing, which it then refuses."""
    message = refusal(tmp_path, "bicubic")
    assert message.startswith("the converted model cannot run random values at batch=64, image_1=48\n")
    assert message.endswith("\n  hint: try another `opset`")


@pytest.mark.parametrize("model", ["random", "stateful"])
def test_a_model_that_answers_differently_each_time(tmp_path: Path, model: str) -> None:
    assert refusal(tmp_path, model) == (
        "the TensorFlow model answers the same inputs differently each time\n"
        "  it draws random numbers, keeps state, or was saved in training mode\n"
        "  hint: no tf.random in the call; stateful=False in recurrent layers: let the model take the states as "
        "inputs, `initial_state`, and yield them, `return_state=True`"
    )


@pytest.mark.slow
def test_a_model_that_no_graph_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orun.stages._tf.export.GRAPH_LIMIT", 2000)
    # 4 x (9 + 1) of the convolution, 4 x 4 of the normalization, 64 x 10 + 10 of the product, in float32
    assert refusal(tmp_path, "sequential") == (
        "the model's variables take 2.82 kB, and it cannot be converted from TensorFlow\n"
        "  tf2onnx makes constants of them in one graph of TensorFlow, which ends at 2 GiB\n"
        "  hint: convert it in parts, or build the model in PyTorch and use `convert/torch`"
    )
