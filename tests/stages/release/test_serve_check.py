"""`release/serve-check`: a bundle in an environment that holds ONNX Runtime alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from orun.errors import OrunError, StageFailed, UnknownName, UsageError
from orun.providers.registry import PROVIDERS
from orun.stages._graph import limits, sessions
from tests.stages.conftest import export_decoder
from tests.stages.models import parse
from tests.stages.support import artifact, run_stage

from .support import MATMUL, make_bundle, provenance_file

MODULES = Path(__file__).parents[1] / "modules"

ENCODER = """
<ir_version: 9, opset_import: ["" : 20]>
encoder (float[rows, 3] given) => (float[rows, 3] y) { y = Relu(given) }
"""
CUSTOM = """
<ir_version: 9, opset_import: ["" : 20, "org.example" : 1]>
own (float[batch, 4] x) => (float[batch, 4] y) { y = org.example.Own(x) }
"""


@pytest.fixture(autouse=True, scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One folder of environments for the module: making one takes seconds, most of them to compile what is unused."""
    folder = tmp_path_factory.mktemp("environments")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORUN_ENVIRONMENTS", str(folder))
        patch.setenv("PIP_NO_COMPILE", "1")
        yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
def test_it_answers_as_the_pipeline_does(tmp_path: Path) -> None:
    run = run_stage("release/serve-check", tmp_path, inputs={"bundle": make_bundle(tmp_path).output})
    document = json.loads((run.output / "serve.json").read_text())
    assert document["onnxruntime"] == onnxruntime.__version__
    assert document["providers"] == ["CPUExecutionProvider"]
    assert document["files"] == 3
    assert "onnxruntime" in document["packages"]
    assert not {"orun", "onnx", "torch", "blake3"} & document["packages"].keys()
    assert run.value("answers") > 1
    assert run.value("max_abs_error") < 1e-5


@pytest.mark.slow
def test_sizes_and_tolerance_are_those_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = {"bundle": make_bundle(tmp_path).output}
    run = run_stage("release/serve-check", tmp_path, {"dims": {"batch": [3]}}, inputs=ports)
    assert run.value("answers") == 3  # at one size: at random, lowest and highest
    here = sessions.open_model

    def shifted(*arguments: Any, **options: Any) -> Any:
        model = here(*arguments, **options)
        return lambda feed: [value + np.float32(0.5) for value in model(feed)]

    for module in (sessions, limits):
        monkeypatch.setattr(module, "open_model", shifted)
    with pytest.raises(StageFailed) as caught:
        run_stage("release/serve-check", tmp_path, inputs=ports)
    assert caught.value.problem == "the model as it is served disagrees with the model in the pipeline in output 'y'"
    assert run_stage("release/serve-check", tmp_path, {"atol": 1.0}, inputs=ports).value("max_abs_error") == 0.5


@pytest.mark.slow  # as in _graph/test_agreement.py, which is quick
def test_rows_that_see_nothing_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipeline's runtime answers with the float16 model here: another value where attention sees no key."""
    model = export_decoder(tmp_path, "gpt2", "mask")
    bundle = run_stage("release/bundle", tmp_path, inputs={"model": model}, provenance=provenance_file(tmp_path)).output
    loose = {"atol": 0.05, "rtol": 0.05}
    half = run_stage("optimize/float16", tmp_path, loose, inputs={"model": model}).model
    here = sessions.open_model

    def in_float16(path: Path, *arguments: Any) -> Any:
        return here(half if path.parent == bundle else path, *arguments)

    for module in (sessions, limits):
        monkeypatch.setattr(module, "open_model", in_float16)
    run = run_stage("release/serve-check", tmp_path, loose, inputs={"bundle": bundle})
    assert run.notes == (
        "99 of 5,049 values of output 'scores' were not compared: they depend on attention rows that see nothing",
    )
    assert 1e-4 < run.value("max_abs_error") < 0.05


@pytest.fixture
def several(tmp_path: Path) -> dict[str, Path]:
    """The encoder has an input of another name and size than the decoder, which is the first."""
    encoder = artifact(tmp_path, parse(ENCODER))
    return {"bundle": make_bundle(tmp_path, "1.0", MATMUL, **{"model.encoder": encoder}).output}


@pytest.mark.slow
def test_each_of_several_models(tmp_path: Path, several: dict[str, Path]) -> None:
    run = run_stage("release/serve-check", tmp_path, inputs=several)
    document = json.loads((run.output / "serve.json").read_text())
    assert (document["files"], document["answers"].keys()) == (4, {"model.onnx", "encoder/model.onnx"})
    assert run.value("answers") == sum(document["answers"].values())
    for name, file in ((".", "model.onnx"), ("encoder", "encoder/model.onnx")):
        alone = run_stage("release/serve-check", tmp_path, {"model": name}, inputs=several)
        assert json.loads((alone.output / "serve.json").read_text())["answers"] == {file: document["answers"][file]}


@pytest.mark.slow
def test_one_of_several_models_that_its_users_cannot_open(tmp_path: Path) -> None:
    encoder = artifact(tmp_path, parse(CUSTOM))
    bundle = make_bundle(tmp_path, "1.0", MATMUL, **{"model.encoder": encoder}).output
    with pytest.raises(UsageError) as caught:
        run_stage("release/serve-check", tmp_path, inputs={"bundle": bundle})
    assert "  encoder/model.onnx: Fatal error: org.example:Own(-1) is not a registered function/op\n" in str(
        caught.value
    )


@pytest.mark.slow
def test_what_is_of_one_of_several_models(tmp_path: Path, several: dict[str, Path]) -> None:
    with pytest.raises(StageFailed) as caught:
        run_stage("release/serve-check", tmp_path, {"model": "encoder.onnx"}, inputs=several)
    assert str(caught.value) == "model: the bundle has no 'encoder.onnx'\n  besides its first model it has encoder"
    with pytest.raises(StageFailed) as caught:
        run_stage("release/serve-check", tmp_path, {"dims": {"rows": [2]}}, inputs=several)
    assert str(caught.value) == (
        "dims: apply to one model, but the bundle has 2\n  hint: choose it by `model` (., encoder), in a stage for each"
    )
    run = run_stage("release/serve-check", tmp_path, {"dims": {"rows": [2]}, "model": "encoder"}, inputs=several)
    assert run.value("answers") == 3  # at one size: at random, lowest and highest


@pytest.mark.slow
def test_a_damaged_file_is_not_served(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path).output
    provenance = bundle / "provenance.json"
    provenance.write_bytes(provenance.read_bytes() + b" ")
    with pytest.raises(StageFailed) as caught:
        run_stage("release/serve-check", tmp_path, inputs={"bundle": bundle})
    assert str(caught.value) == (
        "the bundle does not work with only its users' packages installed\n"
        "  ValueError: provenance.json differs from its entry in the manifest\n"
        "  hint: add the packages that it needs to `requirements`, or make a release that does not need them"
    )


@pytest.mark.parametrize(
    ("providers", "error", "message"),
    [
        ([], StageFailed, "`providers` is empty\n  hint: leave it out for the CPU"),
        (
            ["CPUProvider"],
            UnknownName,
            f"ONNX Runtime has no provider 'CPUProvider'\n  it has {', '.join(PROVIDERS)}",
        ),
    ],
)
def test_providers_that_nobody_has(
    tmp_path: Path, environments: Path, providers: list[str], error: type[OrunError], message: str
) -> None:
    before = sorted(environments.iterdir())
    ports = {"bundle": make_bundle(tmp_path).output}
    with pytest.raises(error) as caught:
        run_stage("release/serve-check", tmp_path, {"providers": providers}, inputs=ports)
    assert str(caught.value) == message
    assert sorted(environments.iterdir()) == before


def _classifier(folder: Path, **params: object) -> Path:
    """A released classifier of people by a number and a word, whose classes are words."""
    given_params = {"model": "estimators.py:columns_in_words", "data": "estimators.py:people", **params}
    model = run_stage("convert/sklearn", folder, given_params, root=MODULES).output
    return run_stage("release/bundle", folder, inputs={"model": model}, provenance=provenance_file(folder)).output


@pytest.mark.slow
def test_texts_are_asked_and_answered(tmp_path: Path) -> None:
    ports = {"bundle": _classifier(tmp_path)}
    given_params = {"inputs": "estimators.py:judged"}
    run = run_stage("release/serve-check", tmp_path, given_params, inputs=ports, root=MODULES)
    assert run.value("answers") == 15
    assert run.value("max_abs_error") < 1e-5


def test_an_answer_that_is_no_tensor(tmp_path: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        run_stage("release/serve-check", tmp_path, inputs={"bundle": _classifier(tmp_path, zipmap=True)})
    assert str(caught.value) == (
        "the output output_probability cannot be compared: it is not a tensor\n"
        "  hint: for a classifier of `convert/sklearn`, set `zipmap: false`: its probabilities are then an array"
    )


def test_inputs_that_the_model_does_not_take_are_no_fault_of_the_bundle(tmp_path: Path) -> None:
    np.savez(tmp_path / "wide.npz", x=np.ones((2, 4)))
    given_params = {"inputs": {"path": "wide.npz", "types": {"x": "float64"}}}
    with pytest.raises(UsageError) as caught:
        run_stage("release/serve-check", tmp_path, given_params, inputs={"bundle": make_bundle(tmp_path).output})
    assert str(caught.value) == (
        "an example of wide.npz does not fit the input 'x' of the model\n"
        "  it has float64 [1, 4], and the model takes float32 ['batch', 4]\n"
        "  hint: in the dataset, x: values.astype(np.float32); of files, `types: {x: float32}`"
    )
