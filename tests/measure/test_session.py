"""Sessions for a target: options really set, and every silent fall-back an error."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from orun.errors import UsageError
from orun.measure import session as sessions
from orun.measure.session import open_session, session_options
from orun.targets import Provider, Target


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"], name="twice")], "g", tensors[:1], tensors[1:])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def test_runs_the_model(model: Path) -> None:
    session = open_session(model, Target("cpu"))
    (result,) = session.run(None, {"x": np.array([[1, 2, 3]], np.float32)})
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert result.tolist() == [[2, 4, 6]]


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
        },
    )
    options = session_options(target)
    assert options.intra_op_num_threads == 3
    assert options.inter_op_num_threads == 2
    assert options.enable_mem_pattern is False
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    assert options.get_session_config_entry("session.disable_prepacking") == "1"


def test_a_free_dimension_is_fixed(model: Path) -> None:
    session = open_session(model, Target("cpu", session={"free_dimension_overrides": {"batch": 4}}))
    assert session.get_inputs()[0].shape == [4, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"intra_op_num_thread": 2},
            (
                "target 'cpu': unknown session option intra_op_num_thread\n"
                "  did you mean intra_op_num_threads?\n"
                "  hint: a configuration entry of ONNX Runtime has a dot in its name, "
                "such as session.disable_prepacking"
            ),
        ),
        ({"intra_op_num_threads": "2"}, "target 'cpu': session option intra_op_num_threads must be int, not '2'"),
        ({"intra_op_num_threads": True}, "target 'cpu': session option intra_op_num_threads must be int, not True"),
        (
            {"graph_optimization_level": "some"},
            (
                "target 'cpu': session option graph_optimization_level cannot be 'some'\n"
                "  expected one of disable, basic, extended, layout, all"
            ),
        ),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as error:
        session_options(Target("cpu", session=options))
    assert str(error.value) == message


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
    assert error.value.what == "ONNX Runtime cannot open model.onnx for target 'trt'"


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(UsageError) as error:
        open_session(path, Target("cpu"))
    assert error.value.what == "ONNX Runtime cannot open model.onnx for target 'cpu'"
    assert "Protobuf parsing failed" in error.value.why


def test_onnx_runtime_says_where_nodes_landed(model: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    assert sessions._cpu_nodes(session.get_provider_graph_assignment_info()) == ["twice (Add)"]


def placed_on_the_cpu(count: int) -> SimpleNamespace:
    """What `_check_placement` asks of a session: there is no second provider on every machine to make one."""
    nodes = [SimpleNamespace(name=f"n{index}" if index else "", op_type="Shape") for index in range(count)]
    subgraph = SimpleNamespace(ep_name="CPUExecutionProvider", get_nodes=lambda: nodes)
    other = SimpleNamespace(ep_name="CUDAExecutionProvider", get_nodes=lambda: nodes)
    return SimpleNamespace(get_provider_graph_assignment_info=lambda: [other, subgraph])


def test_forbid_cpu_names_the_nodes() -> None:
    target = Target("gpu", (Provider("CUDAExecutionProvider"),), fallback="forbid-cpu")
    with pytest.raises(UsageError) as error:
        sessions._check_placement(target, placed_on_the_cpu(7))
    assert str(error.value) == (
        "target 'gpu' forbids the CPU, and 7 nodes landed on it\n"
        "  (unnamed) (Shape), n1 (Shape), n2 (Shape), n3 (Shape), n4 (Shape) and 2 more\n"
        "  hint: allow it with `fallback: warn`, or change the model so that the provider takes these nodes"
    )


def test_warn_says_it_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    target = Target("gpu", (Provider("CUDAExecutionProvider"),), fallback="warn")
    sessions._check_placement(target, placed_on_the_cpu(1))
    assert caplog.messages == ["target 'gpu': 1 node on the CPU: (unnamed) (Shape)"]


def test_nothing_on_the_cpu_is_nothing_to_say(caplog: pytest.LogCaptureFixture) -> None:
    target = Target("gpu", (Provider("CUDAExecutionProvider"),), fallback="forbid-cpu")
    sessions._check_placement(target, placed_on_the_cpu(0))
    assert caplog.messages == []
