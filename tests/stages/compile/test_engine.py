"""compile/engine where no provider compiles; tests/acceptance/test_openvino.py compiles with one."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from orun.core.targets import Provider, Target
from orun.errors import OrunError, UsageError
from orun.measure import engines
from orun.measure.engines import Engine
from orun.measure.session import open_session
from tests.stages.support import artifact, run_stage

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 2] x) => (float[2, 2] y) { y = Sigmoid(x) }
"""


def refusal(folder: Path, *providers: Provider, **params: object) -> str:
    """What is said when the model is to be compiled for these providers."""
    model = artifact(folder, onnx.parser.parse_model(MODEL))
    given_params = {"target": "t", **params}
    with pytest.raises(OrunError) as caught:
        run_stage("compile/engine", folder, given_params, inputs={"model": model}, target=Target("t", providers))
    return str(caught.value)


def test_the_cpu_compiles_nothing(tmp_path: Path) -> None:
    assert refusal(tmp_path, Provider("CPUExecutionProvider")) == (
        "CPUExecutionProvider compiles nothing beforehand that ONNX Runtime could keep\n"
        "  hint: name a target whose first provider is one of CoreMLExecutionProvider, MIGraphXExecutionProvider,"
        " NvTensorRTRTXExecutionProvider, OpenVINOExecutionProvider, QNNExecutionProvider, TensorrtExecutionProvider,"
        " VitisAIExecutionProvider"
    )


@pytest.mark.parametrize(
    ("provider", "form", "hint"),
    [("QNNExecutionProvider", "cache", "context"), ("CoreMLExecutionProvider", "context", "cache")],
)
def test_a_form_that_a_provider_does_not_have(tmp_path: Path, provider: str, form: str, hint: str) -> None:
    text = refusal(tmp_path, Provider(provider), form=form)
    assert text == f"{provider} has no form {form!r} here\n  hint: `form: {hint}`"


def test_contexts_that_a_build_cannot_read_back_are_not_written(tmp_path: Path) -> None:
    assert refusal(tmp_path, Provider("OpenVINOExecutionProvider"), form="context") == (
        "OpenVINOExecutionProvider has no form 'context' here\n"
        "  onnxruntime-openvino writes EPContext models of the CPU that it cannot open; "
        "the plug-in onnxruntime-ep-openvino keeps what it compiled, for CPUs of Intel\n"
        "  hint: `form: cache`"
    )


def test_what_a_cache_has_no_place_for(tmp_path: Path) -> None:
    text = refusal(tmp_path, Provider("CoreMLExecutionProvider"), embed=True)
    assert text == (
        "`embed` needs `form: context`, and the form is 'cache'\n"
        "  hint: leave `embed` out: a cache lies beside the model"
    )


def test_a_folder_that_the_target_names_is_the_stages_to_give(tmp_path: Path) -> None:
    options = {"trt_engine_cache_path": "shared", "trt_fp16_enable": "true"}
    assert refusal(tmp_path, Provider("TensorrtExecutionProvider", options)) == (
        "target 't' sets trt_engine_cache_path, which compile/engine gives TensorrtExecutionProvider itself\n"
        "  hint: leave it out of the target: the artifact holds what it names"
    )


def test_a_provider_that_is_not_in_this_build(tmp_path: Path) -> None:
    assert refusal(tmp_path, Provider("MIGraphXExecutionProvider")) == (
        "MIGraphXExecutionProvider is not in this build of ONNX Runtime\n  hint: orun doctor"
    )


@pytest.mark.parametrize("form", ["context", "cache"])
def test_tensorrt_without_a_gpu_fails_and_leaves_nothing(tmp_path: Path, form: str) -> None:
    import onnxruntime

    if "TensorrtExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("this build of ONNX Runtime has no TensorRT")
    model = artifact(tmp_path, onnx.parser.parse_model(MODEL))
    if "TensorrtExecutionProvider" in _loaded(model / "model.onnx"):
        pytest.skip("TensorRT loads on this machine")
    text = refusal(tmp_path, Provider("TensorrtExecutionProvider"), form=form)
    assert text.startswith(("TensorrtExecutionProvider cannot compile the model", "TensorrtExecutionProvider did not"))


def _loaded(model: Path) -> list[str]:
    import onnxruntime

    names: list[str] = onnxruntime.InferenceSession(model, providers=["TensorrtExecutionProvider"]).get_providers()
    return names


def test_an_engine_runs_on_the_target_that_it_was_compiled_for_alone(tmp_path: Path) -> None:
    folder = artifact(tmp_path, onnx.parser.parse_model(MODEL))
    engine = Engine("TensorrtExecutionProvider", "cache", "1.31.1", {"trt_engine_cache_path": "cache"}, {"on": "1"})
    engines.write(folder, engine)
    assert engines.read(folder / "model.onnx") == engine
    with pytest.raises(UsageError) as caught:
        open_session(folder / "model.onnx", Target("cpu"))
    assert str(caught.value) == (
        "model.onnx was compiled for TensorrtExecutionProvider, which target 'cpu' does not name\n"
        "  hint: measure it on the target that it was compiled for"
    )
    providers = (Provider("TensorrtExecutionProvider", {"trt_fp16_enable": "true"}), Provider("CPUExecutionProvider"))
    applied = engines.add_engine_options(folder / "model.onnx", Target("trt", providers))
    assert applied.providers == (
        Provider(
            "TensorrtExecutionProvider",
            {"trt_fp16_enable": "true", "trt_engine_cache_path": str(folder / "cache"), "on": "1"},
        ),
        Provider("CPUExecutionProvider"),
    )
