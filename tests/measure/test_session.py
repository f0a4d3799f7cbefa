"""Sessions for a target: options really set, and every silent fall-back an error."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from orun.core.targets import Provider, Target
from orun.errors import UsageError
from orun.measure.session import open_session
from orun.measure.session_options import build_session_options


@pytest.fixture
def model(tmp_path: Path) -> Path:
    text = '<ir_version: 9, opset_import: ["" : 20]> g (float[batch, 3] x) => (float[batch, 3] y) { y = Add (x, x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_runs_the_model(model: Path) -> None:
    session = open_session(model, Target("cpu"))
    (result,) = session.run(None, {"x": np.array([[1, 2, 3]], np.float32)})
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert result.tolist() == [[2, 4, 6]]


@pytest.mark.parametrize(
    ("opset", "version", "why", "hint"),
    [
        (
            999,
            10,
            r"too/new.onnx: ONNX Runtime only \*guarantees\* support for models stamped .* is till opset \d+\.",
            "export it with an older operator set, lower it by a stage `convert/opset`, or upgrade ONNX Runtime",
        ),
        (
            17,
            999,
            r"too/new.onnx: Unsupported model IR version: 999, max supported IR version: \d+",
            "save it by an older onnx, lower its ir_version if it uses nothing newer, or upgrade ONNX Runtime",
        ),
    ],
)
def test_a_model_that_is_too_new(tmp_path: Path, opset: int, version: int, why: str, hint: str) -> None:
    """The first lines were the place in the sources of ONNX Runtime, with its signature."""
    graph = onnx.parser.parse_model(
        f'<ir_version: {version}, opset_import: ["" : {opset}]> g (float x) => (float x) {{}}'
    )
    (tmp_path / "too").mkdir()
    onnx.save(graph, tmp_path / "too/new.onnx")
    with pytest.raises(UsageError) as caught:
        open_session(tmp_path / "too/new.onnx", Target("cpu"))
    assert caught.value.problem == "ONNX Runtime cannot open new.onnx for target 'cpu'"
    assert re.fullmatch(why, caught.value.why)
    assert caught.value.hint == hint


def test_a_type_that_an_operator_lacks(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 20]>
        g (double[1, 1, 4] x, double[1, 1, 3] w) => (double[1, 1, 2] y) { y = Conv (x, w) }
    """)
    onnx.save(model, tmp_path / "double.onnx")
    with pytest.raises(UsageError) as caught:
        open_session(tmp_path / "double.onnx", Target("cpu"))
    assert caught.value.why == (
        "Could not find an implementation for Conv(11) node with name '', whose inputs are double"
    )
    assert caught.value.hint == (
        "it has most kernels for float32: convert the model in that type, in PyTorch by `return module.float()` and no "
        "other type in the module's code"
    )


def test_every_option_reaches_onnx_runtime() -> None:
    target = Target(
        "cpu",
        session={
            "intra_op_num_threads": 3,
            "inter_op_num_threads": 2,
            "enable_mem_pattern": False,
            "execution_mode": "parallel",
            "graph_optimization_level": "extended",
            "session.disable_prepacking": True,
            "free_dimension_overrides": {"batch": 1},
            "execution_order": "priority",
            "denormals_as_zero": True,
            "cpu_arena": None,
        },
    )
    options = build_session_options(target)
    assert options.intra_op_num_threads == 3
    assert options.inter_op_num_threads == 2
    assert options.enable_mem_pattern is False
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    assert options.get_session_config_entry("session.disable_prepacking") == "1"
    assert options.execution_order == onnxruntime.ExecutionOrder.PRIORITY_BASED
    assert options.get_session_config_entry("session.set_denormal_as_zero") == "1"


def test_a_free_dimension_is_fixed(model: Path) -> None:
    session = open_session(model, Target("cpu", session={"free_dimension_overrides": {"batch": 4}}))
    assert session.get_inputs()[0].shape == [4, 3]


def test_a_provider_that_is_not_built_in_is_refused(model: Path) -> None:
    with pytest.raises(UsageError) as error:
        open_session(model, Target("npu", (Provider("NonsenseExecutionProvider"), Provider("CPUExecutionProvider"))))
    assert str(error.value) == (
        "target 'npu': NonsenseExecutionProvider is not in this build of ONNX Runtime\n"
        f"  it has {', '.join(onnxruntime.get_available_providers())}\n"
        "  hint: install the build of ONNX Runtime that has it, then look again: orun doctor"
    )


def test_a_provider_that_does_not_load_is_refused(model: Path) -> None:
    name = "CUDAExecutionProvider"
    if name not in onnxruntime.get_available_providers():
        pytest.skip("this build of ONNX Runtime has no CUDA")
    if name in onnxruntime.InferenceSession(model, providers=[name]).get_providers():
        pytest.skip("CUDA loads on this machine")
    with pytest.raises(UsageError) as error:
        open_session(model, Target("gpu", (Provider(name),)))
    assert str(error.value) == (
        "target 'gpu': CUDAExecutionProvider did not load; the session would run on CPUExecutionProvider\n"
        "  a library or device that it needs is not on this machine; ONNX Runtime's own message is in the log\n"
        "  hint: see what this machine can run: orun doctor"
    )


def test_a_provider_that_refuses_to_register_is_no_fall_back(model: Path) -> None:
    name = "TensorrtExecutionProvider"
    if name not in onnxruntime.get_available_providers():
        pytest.skip("this build of ONNX Runtime has no TensorRT")
    if name in onnxruntime.InferenceSession(model, providers=[name]).get_providers():
        pytest.skip("TensorRT loads on this machine")
    with pytest.raises(UsageError) as error:
        open_session(model, Target("trt", (Provider(name),)))
    assert error.value.problem == "ONNX Runtime cannot open model.onnx for target 'trt'"


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(UsageError) as error:
        open_session(path, Target("cpu"))
    assert error.value.problem == "ONNX Runtime cannot open model.onnx for target 'cpu'"
    assert "Protobuf parsing failed" in error.value.why


def test_a_language_that_is_not_installed(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (string[N] x) => (string[M] y) {
        y = StringNormalizer<case_change_action = "LOWER", locale = "xx_XX.UTF-8">(x)
    }"""
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    with pytest.raises(UsageError) as error:
        open_session(path, Target("cpu"))
    assert "Failed to construct locale with name:xx_XX.UTF-8" in error.value.why
    assert error.value.hint == (
        "install the language that the model's StringNormalizer names, or convert the model anew with a language that "
        "all systems have; in convert/sklearn, `options: {locale: C.UTF-8}`"
    )


def test_limits_of_the_arena_reach_onnx_runtime(model: Path) -> None:
    target = Target("cpu", session={"cpu_arena": {"max_mem": 1 << 26, "extend": "as-requested"}})
    session = open_session(model, target)
    assert session.get_session_options().get_session_config_entry("session.use_env_allocators") == "1"
    assert session.run(None, {"x": np.ones((1, 3), np.float32)})[0].tolist() == [[2, 2, 2]]


def test_an_optimizer_that_is_left_out_does_nothing(tmp_path: Path) -> None:
    result = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 20]> g (float[2, 2] x) => (float[2, 2] y) '
        "<float[2, 2] w = {1, 2, 3, 4}, float[2] b = {1, 1}> {m = MatMul(x, w) y = Add(m, b)}"
    )
    onnx.save(result, tmp_path / "model.onnx")
    (tmp_path / "work").mkdir()
    with contextlib.chdir(tmp_path / "work"):
        kept = operators(tmp_path / "model.onnx", Target("cpu", session={"disabled_optimizers": ["MatMulAddFusion"]}))
        fused = operators(tmp_path / "model.onnx", Target("cpu"))
    assert (kept, fused) == (["Add", "MatMul"], ["Gemm"])


def operators(model: Path, target: Target) -> list[str]:
    """The operators that a session runs."""
    session = open_session(model, target, profile="p")
    session.run(None, {"x": np.ones((2, 2), np.float32)})
    events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    return sorted({event["args"]["op_name"] for event in events if event["name"].endswith("_kernel_time")})


def test_custom_operators_that_cannot_be_loaded(tmp_path: Path) -> None:
    library = tmp_path / "operators.so"
    library.write_bytes(b"no library")
    with pytest.raises(UsageError) as error:
        build_session_options(Target("cpu", session={"custom_op_libraries": [str(library)]}))
    assert error.value.problem == f"target 'cpu': the custom operators of {library} cannot be loaded"
    assert "file too short" in error.value.why or "invalid ELF header" in error.value.why
