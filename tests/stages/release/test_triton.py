"""`release/triton`: a configuration that Triton's own message type takes, and says what was meant."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format  # type: ignore[import-untyped]  # has no types

from orun.core.targets import Interpreter, Provider, Target
from orun.errors import UsageError
from tests.stages.models import LOOKUP, parse
from tests.stages.support import StageRun, artifact, run_stage

from .support import MATMUL
from .test_server import MEAN, SUM, TEXTS

CUDA = Target("gpu", (Provider("CUDAExecutionProvider"),))
NO_NAME = "{} is not a valid name for a folder\n  allowed are up to 255 letters, digits, `_`, `.` and `-`"
NO_BATCH = (
    "`max_batch_size` needs a model whose inputs and outputs all have the batch as first axis; {}\n"
    "  hint: export it with a dynamic first axis, or set `max_batch_size: 0`"
)
SCALAR = """
<ir_version: 9, opset_import: ["" : 20]>
scalar (float[batch, 2] x, float factor) => (float[batch, 2] y) { y = Mul(x, factor) }
"""
TIME_FIRST = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[time, batch_size, 2] x) => (float[time, batch_size, 2] y) { y = Neg (x) }
"""


@pytest.fixture(scope="module")
def message(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The message type `ModelConfig`, from NVIDIA's client; without the packages that the client itself needs."""
    folder = tmp_path_factory.mktemp("tritonclient")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(folder)]
    subprocess.run([*pip, "tritonclient==2.73.0"], check=True, timeout=120)
    file = folder / "tritonclient/grpc/model_config_pb2.py"
    spec = importlib.util.spec_from_file_location("model_config_pb2", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it was generated for the protobuf before ours
        spec.loader.exec_module(module)
    return module.ModelConfig


def make(folder: Path, text: str, params: dict[str, Any], target: Target | None = None) -> StageRun:
    return run_stage(
        "release/triton",
        folder,
        {"name": "tiny", **params},
        inputs={"model": artifact(folder, parse(text))},
        target=target,
    )


def read(run: StageRun, message: Any) -> Any:
    return text_format.Parse((run.output / "tiny/config.pbtxt").read_text("utf-8"), message())


@pytest.mark.slow
def test_a_batched_model(tmp_path: Path, message: Any) -> None:
    run = make(
        tmp_path,
        MATMUL,
        {"version": 7, "max_batch_size": 32, "preferred_batch_sizes": [16, 8], "max_queue_delay": 100, "instances": 2},
        Target("cpu", session={"intra_op_num_threads": 4, "graph_optimization_level": "extended"}),
    )
    assert sorted(str(path.relative_to(run.output)) for path in run.output.rglob("*") if path.is_file()) == [
        "tiny/7/model.onnx",
        "tiny/config.pbtxt",
    ]
    config = read(run, message)
    assert (config.name, config.backend, config.max_batch_size) == ("tiny", "onnxruntime", 32)
    ((config_input,), (config_output,)) = (config.input, config.output)
    assert (config_input.name, list(config_input.dims), config_input.data_type) == ("x", [4], 11)
    assert (config_output.name, list(config_output.dims), config_output.data_type) == ("y", [2], 11)
    assert list(config.dynamic_batching.preferred_batch_size) == [8, 16]
    assert config.dynamic_batching.max_queue_delay_microseconds == 100
    assert (config.instance_group[0].count, config.instance_group[0].kind) == (2, 2)
    assert config.optimization.graph.level == 1
    assert config.parameters["intra_op_thread_count"].string_value == "4"
    (warm,) = config.model_warmup
    assert (warm.batch_size, list(warm.inputs["x"].dims), warm.inputs["x"].zero_data) == (1, [4], True)


def test_all_axes_without_batching(tmp_path: Path, message: Any) -> None:
    config = read(make(tmp_path, LOOKUP, {"warm_up": False}), message)
    assert {value.name: (list(value.dims), value.data_type) for value in config.input} == {
        "ids": ([-1, -1], 9),
        "mask": ([-1, -1], 9),
        "extra": ([-1, 2], 11),
    }
    assert config.max_batch_size == 0
    assert not config.HasField("dynamic_batching")
    assert not config.model_warmup


def test_a_scalar_is_one_value_without_an_axis(tmp_path: Path, message: Any) -> None:
    _, factor = read(make(tmp_path, SCALAR, {}), message).input
    assert (list(factor.dims), list(factor.reshape.shape), factor.HasField("reshape")) == ([1], [], True)


def test_accelerators_of_a_target(tmp_path: Path, message: Any) -> None:
    options = {"trt_fp16_enable": "True", "trt_max_workspace_size": "1024", "trt_int8_enable": "False"}
    target = Target(
        "trt",
        (Provider("TensorrtExecutionProvider", options), Provider("CUDAExecutionProvider")),
        {"execution_mode": "parallel"},
    )
    config = read(make(tmp_path, MATMUL, {}, target), message)
    tensorrt, cuda = config.optimization.execution_accelerators.gpu_execution_accelerator
    assert (tensorrt.name, dict(tensorrt.parameters)) == (
        "tensorrt",
        {"precision_mode": "FP16", "max_workspace_size_bytes": "1024"},
    )
    assert (cuda.name, dict(cuda.parameters)) == ("cuda", {})
    assert config.instance_group[0].kind == 1
    assert config.parameters["execution_mode"].string_value == "1"


@pytest.mark.parametrize(
    ("text", "params", "message"),
    [
        (SCALAR, {"max_batch_size": 8}, NO_BATCH.format("'factor' has no axes")),
        (TIME_FIRST, {"max_batch_size": 8}, NO_BATCH.format("that of 'x' is axis 1")),
        (MATMUL.replace("batch", "3"), {"max_batch_size": 8}, NO_BATCH.format("that of 'x' is always 3")),
        (MATMUL, {"max_queue_delay": 8}, "`preferred_batch_sizes` and `max_queue_delay` need a `max_batch_size`"),
        (
            MATMUL,
            {"max_batch_size": 4, "preferred_batch_sizes": [8]},
            "a preferred batch of 8 is over `max_batch_size`, 4",
        ),
        (
            MATMUL,
            {"max_batch_size": 4, "preferred_batch_sizes": [0, 2]},
            "a preferred batch of 0 has no examples",
        ),
        (MATMUL, {"name": "../up"}, NO_NAME.format("'../up'")),
        (MATMUL, {"name": 256 * "n"}, NO_NAME.format(f"'{79 * 'n'}")),
    ],
)
def test_what_does_not_suit_triton(tmp_path: Path, text: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(tmp_path, text, params)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("params", "target", "message"),
    [
        ({"device": "gpu"}, Target("cpu"), "`device: gpu`, and target 'cpu' has no GPU provider"),
        ({"device": "cpu"}, CUDA, "`device: cpu`, and target 'gpu' names CUDAExecutionProvider"),
        (
            {},
            Target("phone", (Provider("QNNExecutionProvider"), Provider("CPUExecutionProvider"))),
            (
                "Triton's ONNX Runtime back end has no QNNExecutionProvider, which target 'phone' names\n"
                "  hint: use a target with TensorrtExecutionProvider, CUDAExecutionProvider, OpenVINOExecutionProvider "
                "or CPUExecutionProvider"
            ),
        ),
        (
            {},
            Target("own", session={"custom_op_libraries": ["own.so"]}),
            (
                "target 'own' names libraries of custom operators, whose path on the server is unknown\n"
                "  hint: use a target without them, and add `model_operations` with their paths to config.pbtxt"
            ),
        ),
    ],
)
def test_what_triton_cannot_be_told(tmp_path: Path, params: dict[str, Any], target: Target, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(tmp_path, MATMUL, params, target)
    assert str(caught.value) == message


def test_session_options_without_a_parameter_are_noted(tmp_path: Path, message: Any) -> None:
    session = {"intra_op_num_threads": 1, "graph_optimization_level": "layout", "enable_mem_pattern": False}
    run = make(tmp_path, MATMUL, {"max_batch_size": 8, "preferred_batch_sizes": [4, 4]}, Target("c", session=session))
    assert run.notes == ("Triton has no parameter for enable_mem_pattern, graph_optimization_level of target 'c'",)
    assert list(read(run, message).dynamic_batching.preferred_batch_size) == [4]
    assert make(tmp_path, MATMUL, {}, Target("c", session={"graph_optimization_level": "all"})).notes == ()


def test_batches_that_change_the_answers_are_noted(tmp_path: Path) -> None:
    (note,) = make(tmp_path, MEAN, {"max_batch_size": 4}).notes
    assert note.startswith("batches change the answers: output 'y' by up to ")
    np.savez(tmp_path / "same.npz", x=np.zeros((3, 4), np.float32))
    run = make(tmp_path, MEAN, {"max_batch_size": 4, "data": "same.npz"})
    assert run.notes == ()  # of these examples, the mean of the batch is that of each row
    assert make(tmp_path, MEAN, {"max_batch_size": 1}).notes == ()
    with pytest.raises(UsageError, match=r"^`max_batch_size` needs a row of output 'y' for each row of the inputs\n"):
        make(tmp_path, SUM, {"max_batch_size": 4})


def test_batches_on_a_target_of_another_environment_are_not_tried(tmp_path: Path) -> None:
    target = Target("old", interpreter=Interpreter("/old/bin/python"))
    run = make(tmp_path, MEAN, {"max_batch_size": 4}, target)
    assert run.notes == ("batches were not tried: target 'old' has an environment of its own",)


def test_a_model_of_texts_does_not_warm_up(tmp_path: Path) -> None:
    run = make(tmp_path, TEXTS, {})
    assert run.notes == ("the server does not warm up: the model has text inputs, and may fail on empty texts",)
    assert "model_warmup" not in (run.output / "tiny/config.pbtxt").read_text("utf-8")
    assert make(tmp_path, TEXTS, {"warm_up": False}).notes == ()
