"""measure/web: latency in onnxruntime-web, and sessions in Node.js and in Chromium."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.errors import OrunError, StageFailed, UsageError
from orun.measure.web.chromium import Chromium
from orun.measure.web.package import find_package
from orun.measure.web.session import WebRuntime, WebSession
from orun.measure.web.tensors import decode_tensor, encode_tensor
from tests.stages.models import parse
from tests.stages.support import StageRun, artifact, run_stage
from tests.thin import mostly_slow
from tests.web import VERSION, install_web, require_program

SMALL = '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y) { y = Sigmoid(x) }'
TYPES = (
    "float16",
    "float32",
    "float64",
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
HOSTS = mostly_slow(["node", "chromium"], "node")
BROWSERS = {"node": r"Node\.js [\d.]+", "chromium": "Mozilla/.*Chrome/.*"}  # by what runs the model


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with onnxruntime-web."""
    return install_web(tmp_path_factory)


def measure(folder: Path, root: Path, inputs: dict[str, Path], **params: Any) -> StageRun:
    params = {"onnxruntime_web": VERSION, "time": 0.01, **params}
    return run_stage("measure/web", folder, params, inputs=inputs, root=root)


def products(count: int) -> onnx.ModelProto:
    """A model of so many matrix products."""
    nodes = "\n".join(f"v{place + 1} = MatMul(v{place}, w)" for place in range(count))
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[8, 256] v0) => (float[8, 256] v{count}) {{ {nodes} }}'
    model = onnx.parser.parse_model(text)
    weight = np.random.default_rng(0).standard_normal((256, 256), np.float32) / 16
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("runtime", HOSTS)
def test_times_are_those_of_the_web(tmp_path: Path, root: Path, runtime: Any) -> None:
    require_program(runtime)
    run = measure(tmp_path, root, {"model": artifact(tmp_path, parse(SMALL))}, runtime=runtime)
    assert 0 < run.value("min") <= run.value("p50") <= run.value("max")
    assert run.value("load") > run.value("p50")
    document = json.loads((run.output / "latency.json").read_text())
    assert document["method"] == "process"
    assert len(document["launches"]) == 3
    framework = document["launches"][0]["sessions"]["model"]["framework"]
    assert re.fullmatch(rf"onnxruntime-web {VERSION}, {BROWSERS[runtime]}, threads: 1", framework)
    assert framework in run.log
    assert sorted(path.name for path in run.output.iterdir()) == ["latency.json", "samples.npz"]


@pytest.mark.slow
@pytest.mark.parametrize(("runtime", "threads"), [("node", 1), ("chromium", 1), ("node", 2), ("chromium", 2)])
def test_twice_the_work_takes_longer(tmp_path: Path, root: Path, runtime: Any, threads: int) -> None:
    require_program(runtime)
    models = {"model": artifact(tmp_path, products(8)), "reference": artifact(tmp_path, products(32))}
    run = measure(tmp_path, root, models, runtime=runtime, threads=threads, time=2.0)
    document = json.loads((run.output / "latency.json").read_text())
    assert document["method"] == ("process" if threads == 1 else "wall")
    sessions = document["launches"][0]["sessions"].values()
    assert all(session["framework"].endswith(f", threads: {threads}") for session in sessions)
    assert run.value("speedup") > 1
    if threads == 1:  # CPU time; the wall time of several threads tells of the machine's load as well
        assert 2 < run.value("speedup") < 6


@pytest.mark.slow
@pytest.mark.parametrize("role", ["model", "reference"])
def test_an_output_without_an_array_is_refused(tmp_path: Path, root: Path, role: str) -> None:
    require_program("node")
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x) }'
    models = {"model": artifact(tmp_path, parse(SMALL)), role: artifact(tmp_path, onnx.parser.parse_model(text))}
    with pytest.raises(StageFailed) as caught:
        measure(tmp_path, root, models, runtime="node")
    assert caught.value.why == "output 'y' is a sequence, which onnxruntime-web cannot pass to JavaScript"


@pytest.mark.parametrize("runtime", HOSTS)
def test_every_type_and_weights_in_a_second_file(tmp_path: Path, root: Path, runtime: Any) -> None:
    program = require_program(runtime)
    names = {"float16": "float16", "float32": "float", "float64": "double"}
    inputs = ", ".join(f"{names.get(name, name)}[N, 2] i_{name}" for name in TYPES)
    outputs = ", ".join(f"{names.get(name, name)}[N, 2] o_{name}" for name in TYPES)
    nodes = "\n".join(f"o_{name} = Identity(i_{name})" for name in TYPES)
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g ({inputs}, string[2] i_text, float[2, 64] x) => ({outputs}, string[2] o_text, float[2, 64] y) {{
        {nodes} o_text = Identity(i_text) y = MatMul(x, w) }}"""
    model = onnx.parser.parse_model(text)
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    feed: dict[str, Any] = {f"i_{name}": np.array([[0, 1]] * 3).astype(name) for name in TYPES}
    feed |= {"i_text": np.array(["a", "bé"], dtype=object), "x": np.ones((2, 64), np.float32)}
    feed["i_int64"][0, 0] = -(2**62) - 1
    with WebSession(WebRuntime(find_package(root, VERSION), runtime, program), path, ("weights.bin",)) as session:
        answers = session.run(feed)
        empty = session.run(feed | {f"i_{name}": np.zeros((0, 2), name) for name in TYPES})
    for name in (*TYPES, "text"):
        assert answers[f"o_{name}"].dtype == feed[f"i_{name}"].dtype
        assert np.array_equal(answers[f"o_{name}"], feed[f"i_{name}"])
    assert empty["o_int64"].shape == (0, 2)
    np.testing.assert_allclose(answers["y"], np.ones((2, 64)) @ weight, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", HOSTS)
def test_a_file_that_is_no_model(tmp_path: Path, root: Path, runtime: Any) -> None:
    program = require_program(runtime)
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    with (
        pytest.raises(UsageError, match="onnxruntime-web cannot open the model") as caught,
        WebSession(WebRuntime(find_package(root, VERSION), runtime, program), tmp_path / "model.onnx", ()),
    ):
        pass
    assert "protobuf parsing failed" in caught.value.why.lower()


@pytest.mark.slow
def test_a_browser_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(OrunError) as caught, Chromium("/bin/false", tmp_path):
        pass
    assert caught.value.problem == "Chromium ended"


@pytest.mark.parametrize("value", [np.float32(2.5), np.zeros((0, 3), np.int64), np.array(["x", ""], dtype=object)])
def test_tensors_come_back_as_they_went(value: Any) -> None:
    array = np.asarray(value)
    back = decode_tensor(json.loads(json.dumps(encode_tensor(array))))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(back, array)
