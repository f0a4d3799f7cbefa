"""`release/server` started as its users start it, and driven by `tritonclient` and by `measure/load`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orun.core.targets import Environment
from orun.environment import venv_builder, venvs
from orun.errors import EnvironmentFailed, OrunError
from orun.measure.model_server import find_free_port, read_requirements
from orun.stages.release._manifest import verify_bundle
from tests.stages.models import parse
from tests.stages.support import artifact, run_stage

from .support import MATMUL, make_bundle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first test makes an environment of 0.5 GB

PROGRAM = Path(__file__).with_name("served.py")
SCHEMA = Path(__file__).with_name("kserve_schema.py")
TYPES = """
<ir_version: 9, opset_import: ["" : 20]>
types (bool[batch, 2] flag, float16[batch, 2] half, int64[batch, 2] long, uint8[batch, 2] byte, string[batch, 2] text)
=> (bool[batch, 2] same_flag, float16[batch, 2] same_half, int64[batch, 2] same_long, uint8[batch, 2] same_byte,
    string[batch, 2] same_text)
{
    same_flag = Identity(flag) same_half = Identity(half) same_long = Identity(long) same_byte = Identity(byte)
    same_text = Identity(text)
}
"""
AT_ONCE = 16  # requests that it sends at the same time
NO_VERSION = "there is no version '2' of 'scale'; it has version '1.0'"
EXAMPLE = "requests to the model are POST /v2/models/scale/infer"
RIGHT = [[34.0, 40.0], [98.0, 120.0]]  # of the client's rows
CLIENT = Environment("of the client", ("tritonclient[http,grpc]==2.73.0",))


def environment(wanted: Environment) -> Path:
    """The Python of an environment; the test is skipped if its packages cannot be had."""
    try:
        venv_builder.make(wanted)
    except EnvironmentFailed as error:
        if "could not be reached" in error.why:
            pytest.skip(f"the packages cannot be had: {error.why}")
        raise
    return venvs.locate_python(venvs.locate_folder(wanted))


@dataclass(frozen=True)
class Running:
    """A server that runs: its folder, ports and process."""

    folder: Path
    http_port: int
    grpc_port: int
    process: subprocess.Popen[bytes]
    samples: Path

    def get(self, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        """Return status and content of an answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - the same
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("server")
    params = {"name": "scale", "max_batch_size": 8, "max_queue_delay": 0.05, "sample_rate": 1.0}
    try:
        return run_stage("release/server", home, params, inputs={"bundle": make_bundle(home).output}).output
    except OrunError as error:
        if "finds no wheel" in error.problem:
            pytest.skip(f"the packages cannot be had: {error.why}")
        raise


@pytest.fixture(scope="module")
def running(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with start(folder, tmp_path_factory.mktemp("running")) as server:
        yield server


@contextmanager
def start(folder: Path, home: Path) -> Iterator[Running]:
    """Start the server of a folder in an environment with the packages of its lock."""
    python = environment(Environment("of the server", read_requirements(folder / "requirements.lock")))
    ports, samples = (find_free_port(), find_free_port()), home / "samples.jsonl"
    command = [
        python, "-B", folder / "runtime.py",
        f"--http-port={ports[0]}", f"--grpc-port={ports[1]}", f"--sample-log={samples}",
    ]  # fmt: skip
    variables = {"PATH": os.environ["PATH"]}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT, env=variables)
    server = Running(folder, *ports, process, samples)
    try:
        end = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < end:
            try:
                if server.get("/v2/health/ready")[0] == 200:
                    break
            except OSError:
                time.sleep(0.1)
        assert process.poll() is None, (home / "log").read_text("utf-8")
        yield server
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def report(running: Running) -> dict[str, Any]:
    """What the client of another maker says."""
    python = environment(CLIENT)
    command = [str(python), str(PROGRAM), str(running.http_port), str(running.grpc_port), str(AT_ONCE)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert process.returncode == 0, process.stderr
    document: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return document


def test_the_lock_is_of_the_pipeline_s_runtime_alone(folder: Path) -> None:
    import onnxruntime

    assert verify_bundle(folder) == []
    runtimes = [line for line in read_requirements(folder / "requirements.lock") if line.startswith("onnxruntime")]
    assert [line.partition(" ")[0] for line in runtimes] == [f"onnxruntime=={onnxruntime.__version__}"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_tritonclient_is_answered(report: dict[str, Any], protocol: str) -> None:
    answer = report[protocol]
    assert (answer["live"], answer["ready"], answer["model_ready"]) == (True, True, True)
    assert answer["answer"] == answer["named"] == answer["after"] == RIGHT
    assert (answer["response"]["id"], answer["response"]["model_version"]) == ("7", "1.0")


def test_the_code_of_the_guide_runs(report: dict[str, Any], running: Running) -> None:  # noqa: ARG001 - it runs first
    (code,) = re.findall(r"```python\n(.*?)```", (running.folder / "SERVING.md").read_text("utf-8"), re.DOTALL)
    code = code.replace("localhost:8080", f"127.0.0.1:{running.http_port}")
    process = subprocess.run(
        [str(environment(CLIENT)), "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (process.stdout, process.stderr) == ("[[0. 0.]]\n", "")


def test_manifests_hold_by_the_schema_of_kserve(folder: Path, tmp_path: Path) -> None:
    """KServe's package is in the server's lock; Kubernetes' comes with it."""
    everywhere = {"image": "registry/scale:1.0", "namespace": "models", "service_account": "reader", "gpus": 1}
    paths = [
        run_stage("release/kserve", tmp_path, {**everywhere, **params}, inputs={"server": folder}).output
        for params in ({}, {"storage_uri": "s3://releases/scale-1.0", "min_replicas": 0})
    ]
    python = environment(Environment("of the server", read_requirements(folder / "requirements.lock")))
    assert [path.name for path in sorted(paths[1].iterdir())] == ["inferenceservice.yaml", "servingruntime.yaml"]
    assert schema_problems(python, *paths) == []
    misspelt = tmp_path / "misspelt"
    misspelt.mkdir()
    for name, wrong in {
        "minReplicas": "minReplica",
        "modelFormat": "format",
        "supportedModelFormats": "formats",
    }.items():
        for file in paths[1].glob("*.yaml"):
            there = misspelt / file.name
            text = (there if there.exists() else file).read_text("utf-8")
            there.write_text(text.replace(f"{name}:", f"{wrong}:").replace("periodSeconds: 10", "periodSeconds: x"))
    container = "servingruntime.yaml.spec.containers[0]"
    assert sorted(schema_problems(python, misspelt)) == sorted(
        [
            "inferenceservice.yaml.spec.predictor: V1beta1PredictorSpec has no field minReplica",
            "inferenceservice.yaml.spec.predictor.model: V1beta1ModelSpec has no field format",
            "inferenceservice.yaml.spec.predictor.model: Invalid value for `model_format`, must not be `None`",
            "servingruntime.yaml.spec: V1alpha1ServingRuntimeSpec has no field formats",
            f"{container}.livenessProbe.periodSeconds: 'x' is no int",
            f"{container}.readinessProbe.periodSeconds: 'x' is no int",
            f"{container}.startupProbe.periodSeconds: 'x' is no int",
        ]
    )


def schema_problems(python: Path, *folders: Path) -> list[str]:
    """What KServe's schema refuses in the manifests of folders."""
    command = [str(python), str(SCHEMA), *map(str, folders)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


def test_metadata(report: dict[str, Any]) -> None:
    assert report["http"]["metadata"] == {
        "name": "scale",
        "versions": ["1.0"],
        "platform": "onnx_onnxv1",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
    }
    assert report["http"]["server"] == {"name": "kserve", "version": "0.21.0", "extensions": ["binary_tensor_data"]}
    assert report["grpc"]["metadata"]["platform"] == "onnx_onnxv1"
    assert report["grpc"]["metadata"]["versions"] == ["1.0"]
    assert report["grpc"]["metadata"]["inputs"] == [{"name": "x", "datatype": "FP32", "shape": ["-1", "4"]}]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_mistake_of_a_client_is_an_error_of_the_protocol(report: dict[str, Any], protocol: str) -> None:
    bad, unknown = {"http": ("400", "404"), "grpc": ("StatusCode.INVALID_ARGUMENT", "StatusCode.NOT_FOUND")}[protocol]
    assert report[protocol]["errors"] == {
        "model": f"{unknown}: there is no model 'other'; this server has 'scale'",
        "version": f"{unknown}: {NO_VERSION}",
        "name": f"{bad}: the model takes the inputs x; sent: z",
        "type": f"{bad}: input 'x' is INT64; the model takes FP32",
        "shape": f"{bad}: input 'x' has shape [2, 3]; the model takes [-1, 4]",
        "rank": f"{bad}: input 'x' has shape [4]; the model takes [-1, 4]",
        "rows": f"{bad}: the inputs have no rows",
        "output": f"{bad}: the model has no output z; it has y",
        "twice": f"{bad}: output 'y' is there 2 times; it may be there once",
        "unload": {
            "http": f"404: POST /v2/repository/models/scale/unload: not found; {EXAMPLE}",
            "grpc": f"{bad}: this server loads and unloads no models: it has the one that it was released with",
        }[protocol],
    }
    assert report[protocol]["versions"] == [True, f"{unknown}: {NO_VERSION}"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_infinity_and_nan_are_values(report: dict[str, Any], protocol: str) -> None:
    infinite = [["inf", "inf"], ["nan", "nan"], ["-inf", "-inf"]]
    assert report[protocol]["infinite"] == infinite
    assert report[protocol].get("listed", infinite) == infinite


def test_requests_at_once_are_batched(report: dict[str, Any], running: Running) -> None:
    shift = [16.0, 20.0]  # column sums of the weights
    assert report["http"]["together"] == [
        [[value + number * step for value, step in zip(row, shift, strict=True)] for row in RIGHT]
        for number in range(AT_ONCE)
    ]
    status, content = running.get("/metrics")
    text = content.decode()
    runs = float(re.findall(r'^inference_batch_rows_count\{model_name="scale"\} (\S+)', text, re.MULTILINE)[0])
    rows = float(re.findall(r'^inference_batch_rows_sum\{model_name="scale"\} (\S+)', text, re.MULTILINE)[0])
    assert status == 200
    assert rows >= 2 * (AT_ONCE + 6)
    assert runs <= rows / 2 - AT_ONCE / 2  # at least two of those at once in a run, on average
    assert 'inference_requests_total{model_name="scale",outcome="invalid"}' in text
    assert 'request_predict_seconds_count{model_name="scale"}' in text


def invalid_requests(running: Running) -> float:
    """The server's counter of bad requests."""
    text = running.get("/metrics")[1].decode()
    counts = re.findall(r'^inference_requests_total\{model_name="scale",outcome="invalid"\} (\S+)', text, re.MULTILINE)
    return float(counts[0]) if counts else 0.0


JSON = {"Content-Type": "application/json"}
INFER = "/v2/models/scale/infer"
NUMBERS = 'FP32 takes numbers, "NaN", "Infinity", "-Infinity"'
DATATYPES = "BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BYTES"
HUGE = "the body is not JSON: number is infinity when parsed as double: line 1 column 73 (char 72)"
LITERAL = (
    "the body is not JSON: unexpected character, expected a JSON value: line 1 column 73 (char 72); "
    'write NaN and infinity as "NaN", "Infinity", "-Infinity"'
)
X = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0, 1, 2, 3]}


def encode(*inputs: Mapping[str, Any], **others: Any) -> bytes:
    """Body of a request."""
    return json.dumps({"inputs": inputs, **others}).encode()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not JSON: Input is a zero-length, empty document: line 1 column 1 (char 0)"),
        (b"{", "the body is not JSON: unexpected end of data: line 1 column 2 (char 1)"),
        (b"a=b", "the body is not JSON: unexpected character, expected a JSON value: line 1 column 1 (char 0)"),
        (b"\xff", "the body is not JSON: str is not valid UTF-8: surrogates not allowed: line 1 column 1 (char 0)"),
        (b"[" * 10**5, "the body is not JSON: depth limit exceeded: line 1 column 1026 (char 1025)"),
        (b"[]", "body: Input should be an object"),
        (b"{}", "body.inputs: Field required"),
        (b'{"inputs": [1]}', "body.inputs.0: Input should be an object"),
        (encode(X, id=7), "body.id: Input should be a valid string"),
        (encode(), "the model takes the inputs x; sent: none"),
        (encode(X, X | {"name": "z"}), "the model takes the inputs x; sent: x, z"),
        (encode(X, X), "input 'x' is there 2 times; it may be there once"),
        (encode(X, outputs=[{"name": "z"}]), "the model has no output z; it has y"),
        (encode(X, outputs=[{"name": "y"}] * 2), "output 'y' is there 2 times; it may be there once"),
        (encode(X | {"datatype": "INT64"}), "input 'x' is INT64; the model takes FP32"),
        (encode(X | {"datatype": "fp32"}), f"input 'x' has datatype 'fp32'; there are {DATATYPES}"),
        (encode(X | {"shape": [-1, 4]}), "input 'x' has shape [-1, 4]; sizes are at least 0"),
        (encode(X | {"shape": [4, 1]}), "input 'x' has shape [4, 1]; the model takes [-1, 4]"),
        (encode(X | {"shape": [4]}), "input 'x' has shape [4]; the model takes [-1, 4]"),
        (encode(X | {"shape": ["1", 4]}), "body.inputs.0.shape.0: Input should be a valid integer"),
        (encode(X | {"shape": [10**18, 4]}), f"input 'x': data has 4 values, and shape [{10**18}, 4] has {4 * 10**18}"),
        (encode(X | {"data": [1, 2, 3]}), "input 'x': data has 3 values, and shape [1, 4] has 4"),
        (encode({**X, "data": []}), "input 'x': data has 0 values, and shape [1, 4] has 4"),
        (encode(X | {"data": [[1, 2], [3, 4]]}), "input 'x': data is nested as [2, 2], and the shape is [1, 4]"),
        (encode(X | {"data": [[1, 2], [3]]}), f"input 'x': data has rows of unequal length; {NUMBERS}"),
        (encode(X | {"data": ["a", 1, 2, 3]}), f"input 'x': data has \"a\"; {NUMBERS}"),
        (encode(X | {"data": [True, 1, 2, 3]}), f"input 'x': data has true; {NUMBERS}"),
        (encode(X | {"data": [None, 1, 2, 3]}), f"input 'x': data has null; {NUMBERS}"),
        (encode(X | {"data": [{}, 1, 2, 3]}), f"input 'x': data has an object; {NUMBERS}"),
        (encode(X | {"data": [1e39, 1, 2, 3]}), "input 'x': data has a value out of the range of FP32"),
        (encode(X | {"data": [10**400, 1, 2, 3]}), HUGE),
        (encode(X | {"data": [float("nan"), 1, 2, 3]}), LITERAL),
        (
            encode(X | {"parameters": {"binary_data_size": 16}}),
            "input 'x' names 16 bytes, and 0 are left in the body",
        ),
    ],
)
def test_a_bad_body_is_an_error_and_is_counted(running: Running, body: bytes, message: str) -> None:
    before = invalid_requests(running)
    status, content = running.get(INFER, body, **JSON)
    assert (status, json.loads(content)) == (400, {"error": message})
    assert invalid_requests(running) == before + 1
    assert json.loads(running.get(INFER, encode(X), **JSON)[1])["outputs"][0]["data"] == RIGHT[0]


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "message"),
    [
        ("/v2/models/other/ready", None, {}, 404, "there is no model 'other'; this server has 'scale'"),
        ("/v2/models/other/infer", b"{", JSON, 404, "there is no model 'other'; this server has 'scale'"),
        ("/v2/models/scale/versions/2", None, {}, 404, NO_VERSION),
        ("/v2/models/scale/versions/2/ready", None, {}, 404, NO_VERSION),
        ("/v2/models/scale/versions/2/infer", encode(X), JSON, 404, NO_VERSION),
        ("/v2/nothing", None, {}, 404, f"GET /v2/nothing: not found; {EXAMPLE}"),
        ("/v1/models/scale:predict", b"{}", JSON, 404, f"POST /v1/models/scale:predict: not found; {EXAMPLE}"),
        (INFER, None, {}, 405, f"GET {INFER}: method not allowed; {EXAMPLE}"),
        (INFER, encode(X), {"Content-Encoding": "gzip"}, 415, "the body is gzip; send it without compression"),
        (
            INFER,
            b"",
            {"Content-Length": str((1 << 30) + 1)},
            413,
            "the body is larger than 1073741824 bytes; send fewer rows at a time",
        ),
        (
            INFER,
            b"{}",
            {"Inference-Header-Content-Length": "x"},
            400,
            "the header inference-header-content-length is 'x', and the body has 2 bytes",
        ),
    ],
)
def test_every_error_has_the_form_of_the_protocol(
    running: Running, path: str, body: bytes | None, headers: dict[str, str], status: int, message: str
) -> None:
    got, content = running.get(path, body, **headers)
    assert (got, json.loads(content)) == (status, {"error": message})


@pytest.mark.parametrize("path", [INFER, "/v2/models/scale/versions/1.0/infer"])
@pytest.mark.parametrize("kind", ["application/json", "application/octet-stream", "text/plain"])
def test_an_answer_has_what_the_protocol_names(running: Running, path: str, kind: str) -> None:
    """The content type of a request does not count, as `curl -d` sends another."""
    outputs = [{"name": "y", "shape": [1, 2], "datatype": "FP32", "data": RIGHT[0]}]
    answer = {"model_name": "scale", "model_version": "1.0", "outputs": outputs}
    named = {"id": "42", "parameters": {"a": 1, "b": "c", "d": True}, "outputs": [{"name": "y"}]}
    status, content = running.get(path, encode(X), **{"Content-Type": kind})
    assert (status, json.loads(content)) == (200, answer)
    status, content = running.get(path, encode(X | {"parameters": {}}, **named), **{"Content-Type": kind})
    assert (status, json.loads(content)) == (200, answer | {"id": "42"})


def test_infinity_is_a_text_in_json(running: Running) -> None:
    rows = [["NaN", 0, 0, 0], ["Infinity", 0, 0, 0], ["-Infinity", 0, 0, 0], [3e38, 3e38, 3e38, 3e38]]
    _, content = running.get(INFER, encode(X | {"shape": [4, 4], "data": rows}), **JSON)
    assert json.loads(content)["outputs"][0]["data"] == [
        "NaN", "NaN", "Infinity", "Infinity", "-Infinity", "-Infinity", "Infinity", "Infinity",
    ]  # fmt: skip


def test_lists_of_every_type(tmp_path: Path, folder: Path) -> None:  # noqa: ARG001 - it skips without an index
    """Of a release without a version."""
    bundle = make_bundle(tmp_path, "", TYPES).output
    inputs: dict[str, tuple[str, list[Any]]] = {
        "flag": ("BOOL", [[True, False]]),
        "half": ("FP16", [[1.5, "NaN"]]),
        "long": ("INT64", [[2**62, -1]]),
        "byte": ("UINT8", [[0, 255]]),
        "text": ("BYTES", [["h\u00e9", ""]]),
    }

    def ask(**changed: list[Any]) -> tuple[int, Any]:
        values = {name: {"datatype": kind, "data": data} for name, (kind, data) in inputs.items()}
        values |= {name: values[name] | {"data": data} for name, data in changed.items()}
        sent = [{"name": name, "shape": [1, 2], **value} for name, value in values.items()]
        status, content = server.get("/v2/models/types/infer", encode(*sent), **JSON)
        return status, json.loads(content)

    output = run_stage("release/server", tmp_path, {"name": "types"}, inputs={"bundle": bundle}).output
    with start(output, tmp_path) as server:
        status, content = ask()
        assert (status, content["outputs"]) == (
            200,
            [
                {"name": f"same_{name}", "shape": [1, 2], "datatype": kind, "data": data[0]}
                for name, (kind, data) in inputs.items()
            ],
        )
        assert content.keys() == {"model_name", "outputs"}
        for name, value, message in (
            ("flag", 1, "data has 1; BOOL takes true and false"),
            ("half", 1e6, "data has a value out of the range of FP16"),
            ("long", 1.0, "data has 1.0; INT64 takes whole numbers"),
            ("long", 2**63, "data has a value out of the range of INT64"),
            ("byte", -1, "data has a value out of the range of UINT8"),
            ("byte", True, "data has true; UINT8 takes whole numbers"),
            ("text", 1, "data has 1; BYTES takes texts"),
        ):
            assert ask(**{name: [value, value]}) == (400, {"error": f"input {name!r}: {message}"})
        assert "versions" not in json.loads(server.get("/v2/models/types")[1])
        status, content = server.get("/v2/models/types/versions/1")
        error = "there is no version '1' of 'types'; it has no versions"
        assert (status, json.loads(content)) == (404, {"error": error})


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/v2/", {"name": "kserve", "version": "0.21.0", "extensions": ["binary_tensor_data"]}),
        ("/v2/health/live", {"live": True}),
        ("/v2/health/ready", {"ready": True}),
        ("/v2/models/scale/ready", {"name": "scale", "ready": True}),
        ("/v2/models/scale/versions/1.0/ready", {"name": "scale", "ready": True}),
    ],
)
def test_paths_that_tell_of_the_server(running: Running, path: str, content: Mapping[str, Any]) -> None:
    status, answer = running.get(path)
    assert (status, json.loads(answer)) == (200, content)


def test_every_request_is_in_the_log(report: dict[str, Any], running: Running) -> None:  # noqa: ARG001 - it asks
    lines = [json.loads(line) for line in running.samples.read_text("utf-8").splitlines()]
    assert len(lines) >= AT_ONCE + 6
    assert {tuple(line["inputs"]) + tuple(line["outputs"]) for line in lines} == {("x", "y")}


def test_load_over_the_network(tmp_path: Path, running: Running) -> None:
    """By address, and by a server that the stage starts, against a reference in the same server."""
    model = artifact(tmp_path, parse(MATMUL))
    quick = {"warmup": 0.05, "time": 0.2, "rounds": 6, "clients": 4}
    url = {"url": f"http://127.0.0.1:{running.http_port}", "served_name": "scale"}
    run = run_stage("measure/load", tmp_path, {**quick, **url, "rate": 50.0}, inputs={"model": model})
    assert 0 < run.value("p50") <= run.value("p99")
    assert run.value("throughput") > 10
    assert "cpu_utilization" not in run.metrics
    assert run.notes == ("cpu_utilization and cpu_energy: not readable here: the server may run on another machine",)
    ports = {"model": model, "reference": model, "server": running.folder}
    run = run_stage("measure/load", tmp_path, quick, inputs=ports)
    assert run.value("served") == 1
    assert run.metrics["p50"].reference is not None
    assert run.value("cpu_utilization") > 0


def test_load_on_a_server_of_another_model(tmp_path: Path, running: Running) -> None:
    model = artifact(tmp_path, parse(MATMUL.replace("1, 2, 3", "1, 2, 4")))
    url = {"url": f"http://127.0.0.1:{running.http_port}", "served_name": "scale"}
    with pytest.raises(OrunError) as caught:
        run_stage("measure/load", tmp_path, url, inputs={"model": model})
    assert str(caught.value).startswith("the served model disagrees with the model in output 'y'\n")
    with pytest.raises(OrunError) as caught:
        run_stage("measure/load", tmp_path, url | {"served_name": "other"}, inputs={"model": model})
    assert str(caught.value) == (
        f"the model 'other' is not ready at {url['url']}\n  hint: ask it: curl {url['url']}/v2/models/other/ready"
    )


def test_a_log_that_cannot_be_written_ends_the_start(running: Running, tmp_path: Path) -> None:
    python = environment(Environment("of the server", read_requirements(running.folder / "requirements.lock")))
    log = tmp_path / "missing" / "samples.jsonl"
    command = [str(python), "-B", str(running.folder / "runtime.py"), f"--sample-log={log}"]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr == (
        f"cannot write to the sample log {log}: No such file or directory\n"
        "  hint: name a file that this user may write: --sample-log FILE\n"
    )


def test_a_folder_from_which_a_server_runs_is_still_the_release(running: Running) -> None:
    """Byte code of `runtime.py` and its modules would be files that the manifest lacks."""
    assert verify_bundle(running.folder) == []


def test_it_leaves_in_order(running: Running) -> None:
    """The last test of the server: after SIGTERM it answers for a while, and ends with 0."""
    body = b'{"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0, 0, 0, 0]}]}'
    running.process.send_signal(signal.SIGTERM)
    for _ in range(100):
        if (answer := running.get("/v2/health/ready"))[0] != 200:
            break
        time.sleep(0.01)
    assert answer == (503, b'{"error":"the server is not ready: it ends"}')
    assert running.get("/v2/health/live")[0] == 200
    status, content = running.get("/v2/models/scale/infer", body, **JSON)
    assert (status, json.loads(content)["outputs"][0]["data"]) == (200, [0.0, 0.0])
    assert running.process.wait(30) == 0
