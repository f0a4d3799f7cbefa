"""`release/server`: the files of the folder, and what it refuses."""

from __future__ import annotations

import ast
import hashlib
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orun.core.targets import Provider, Target
from orun.drift.release import load_release
from orun.errors import OrunError
from orun.measure.session_settings import SessionSettings, write_settings
from orun.stages.release import _server
from orun.stages.release._manifest import verify_bundle
from tests.stages.models import parse
from tests.stages.support import StageRun, artifact, run_stage

from .support import MATMUL, make_bundle, provenance_file

HASH = f"--hash=sha256:{'0' * 64}"
LOCK = f"kserve==0.21.0 \\\n    {HASH} \\\n    {HASH}\nonnxruntime==1.31.1 ; python_version > '3' {HASH}\n"
SUM = """
<ir_version: 9, opset_import: ["" : 20]>
total (float[batch, 4] x) => (float[rows] y) <int64[1] axis = {0}> { y = ReduceSum<keepdims = 0>(x, axis) }
"""
MEAN = """
<ir_version: 9, opset_import: ["" : 20]>
centre (float[batch, 4] x) => (float[batch, 4] y) <int64[1] axis = {0}>
{ m = ReduceMean(x, axis) y = Sub(x, m) }
"""
TEXTS = """
<ir_version: 9, opset_import: ["" : 20]>
both (string[batch] tag, float16[batch, 3] scale) => (string[batch] y, float16[batch, 3] z)
{ y = Identity(tag) z = Relu(scale) }
"""
BFLOAT16 = """
<ir_version: 9, opset_import: ["" : 20]>
narrow (float[batch, 4] x) => (bfloat16[batch, 4] y) { y = Cast<to = 16>(x) }
"""
SEQUENCE = """
<ir_version: 9, opset_import: ["" : 20]>
parts (float[batch, 4] x) => (seq(float[batch, 1]) y) { y = SplitToSequence<axis = 1>(x) }
"""


def make(folder: Path, text: str = MATMUL, target: Target | None = None, **params: Any) -> StageRun:
    """The folder of a server, with a lock of the test's own."""
    (folder / "own.lock").write_text(LOCK, "utf-8")
    bundle = make_bundle(folder, "1.0", text).output
    given_params = {"name": "Scale", "lock": "own.lock", **params}
    return run_stage("release/server", folder, given_params, inputs={"bundle": bundle}, target=target, seed=7)


def test_the_program_imports_what_its_modules_define() -> None:
    """They import one another by name alone, which mypy does not follow; whole servers run in slow tests."""
    trees = {file.stem: ast.parse(file.read_text("utf-8")) for file in _server.FOLDER.glob("*.py")}
    nodes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {(str(node.module), name.name) for node in nodes if node.module in trees for name in node.names}
    assert {module for module, _ in imported} == {"batcher", "protocol", "rest", "sample_log"}
    defined = {
        (name, text) for name, tree in trees.items() for statement in tree.body for text in _list_names(statement)
    }
    assert imported - defined == set()


def _list_names(statement: ast.stmt) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", statement)]
    return [str(getattr(target, "id", getattr(target, "name", ""))) for target in targets]


def test_the_folder_is_a_bundle_with_a_server(tmp_path: Path) -> None:
    run = make(tmp_path, max_batch_size=8, sample_log="/var/log/requests.jsonl", sample_without=["y"])
    assert verify_bundle(run.output) == []
    assert sorted(path.name for path in run.output.iterdir()) == [
        "Containerfile", "SERVING.md", "batcher.py", "manifest.json", "measurements.json", "model.onnx", "protocol.py",
        "provenance.json", "requirements.lock", "rest.py", "runtime.py", "sample_log.py", "server.json",
    ]  # fmt: skip
    assert json.loads((run.output / "server.json").read_bytes()) == {
        "name": "Scale",
        "version": "1.0",
        "model": "model.onnx",
        "sha256": hashlib.sha256((run.output / "model.onnx").read_bytes()).hexdigest(),
        "providers": [["CPUExecutionProvider", {}]],
        "session": {"attributes": {}, "dimensions": {}, "entries": {}, "enums": {}},
        "disabled_optimizers": [],
        "extensions": False,
        "max_batch_size": 8,
        "max_queue_delay": 0.002,
        "workers": 1,
        "http_port": 8080,
        "grpc_port": 8081,
        "sample_log": "/var/log/requests.jsonl",
        "sample_rate": 0.01,
        "sample_seed": 7,
        "sample_without": ["y"],
    }
    assert (run.output / "requirements.lock").read_text("utf-8") == LOCK
    assert run.notes == ()
    assert run.value("size") == sum(path.stat().st_size for path in run.output.iterdir())
    for name in _server.FILES:
        compile((run.output / name).read_text("utf-8"), name, "exec")


def test_the_container_file(tmp_path: Path) -> None:
    lines = (make(tmp_path, grpc_port=0).output / "Containerfile").read_text("utf-8").splitlines()
    assert lines == [
        "# Server of the model Scale: docker build -t scale -f Containerfile .",
        "# A tag can move. Name the base image with its digest to pin its bytes too (`image` of release/server).",
        f"FROM python:{platform.python_version()}-slim",
        "ENV PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1",
        "WORKDIR /srv/model",
        "COPY requirements.lock ./",
        "RUN pip install --no-deps --require-hashes -r requirements.lock && useradd --uid 1000 --user-group server",
        "COPY . ./",
        "USER 1000",
        "EXPOSE 8080",
        (
            'HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request; '
            "urllib.request.urlopen('http://127.0.0.1:8080/v2/health/ready', timeout=5)\"]"
        ),
        'ENTRYPOINT ["python", "runtime.py", "--host", "0.0.0.0"]',
    ]
    image = "registry.example/python@sha256:00"
    assert f"FROM {image}\n" in (make(tmp_path, image=image).output / "Containerfile").read_text("utf-8")


@pytest.mark.parametrize(
    ("sample_log", "folder", "path", "option"),
    [
        ("requests.jsonl", "/var/log/model", "/var/log/model/requests.jsonl", " --sample-log ../requests.jsonl"),
        ("/data/a b/log.jsonl", "'/data/a b'", "/data/a b/log.jsonl", ""),
    ],
)
def test_the_sample_log_of_a_container_has_a_volume(
    tmp_path: Path, sample_log: str, folder: str, path: str, option: str
) -> None:
    output = make(tmp_path, sample_log=sample_log).output
    lines = (output / "Containerfile").read_text("utf-8").splitlines()
    assert lines[7:11] == [
        "COPY . ./",
        f"RUN mkdir -p {folder} && chown server: {folder}",
        f'VOLUME ["{Path(path).parent}"]',
        "USER 1000",
    ]
    assert lines[-1] == f'ENTRYPOINT ["python", "runtime.py", "--host", "0.0.0.0", "--sample-log", "{path}"]'
    guide = (output / "SERVING.md").read_text("utf-8")
    assert f"docker run --rm -p 8080:8080 -p 8081:8081 -v scale-log:{folder} scale\n" in guide
    assert f"../env/bin/python -B runtime.py{option}\n" in guide
    assert f"In a container the log is `{path}`, on the volume that `-v` names.\n" in guide


def test_the_guide_makes_up_the_inputs(tmp_path: Path) -> None:
    text = (make(tmp_path, TEXTS).output / "SERVING.md").read_text("utf-8")
    assert (
        "arrays = {\n"
        '    "tag": np.full([1], "text", dtype=object),\n'
        '    "scale": np.zeros([1, 3], dtype=np.float16),\n'
        "}\n"
    ) in text


def test_the_session_of_a_target_and_of_the_search(tmp_path: Path) -> None:
    cpu = Provider("CPUExecutionProvider")
    model = artifact(tmp_path, parse(MATMUL))
    write_settings(model, (SessionSettings((cpu,), (cpu,), {"intra_op_num_threads": 2, "execution_order": "memory"}),))
    bundle = run_stage("release/bundle", tmp_path, inputs={"model": model}, provenance=provenance_file(tmp_path)).output
    (tmp_path / "own.lock").write_text(LOCK, "utf-8")
    session = {
        "graph_optimization_level": "extended", "session.disable_prepacking": True, "denormals_as_zero": True,
        "free_dimension_overrides": {"batch": 1}, "disabled_optimizers": ["GeluFusion"],
        "cpu_arena": {"extend": "power-of-two"},
    }  # fmt: skip
    run = run_stage(
        "release/server", tmp_path, {"name": "scale", "lock": "own.lock"}, inputs={"bundle": bundle},
        target=Target("small", session=session),
    )  # fmt: skip
    settings = json.loads((run.output / "server.json").read_bytes())
    assert settings["session"] == {
        "attributes": {"intra_op_num_threads": 2},
        "dimensions": {"batch": 1},
        "entries": {"session.disable_prepacking": "1", "session.set_denormal_as_zero": "1"},
        "enums": {
            "execution_order": ["ExecutionOrder", "MEMORY_EFFICIENT"],
            "graph_optimization_level": ["GraphOptimizationLevel", "ORT_ENABLE_EXTENDED"],
        },
    }
    assert settings["disabled_optimizers"] == ["GeluFusion"]
    assert run.notes == ("the server does not apply cpu_arena of target 'small'",)


def test_batches_that_change_the_answers_are_noted(tmp_path: Path) -> None:
    run = make(tmp_path, MEAN, max_batch_size=4)
    (note,) = run.notes
    assert note.startswith("batches change the answers: output 'y' by up to ")
    assert make(tmp_path, MEAN).notes == ()  # without batches


@pytest.mark.parametrize(
    ("model", "params", "message"),
    [
        (
            MATMUL,
            {"name": "a/b"},
            "'a/b' is not a valid name for a folder\n  allowed are up to 255 letters, digits, `_`, `.` and `-`",
        ),
        (MATMUL, {"model": "encoder"}, "model: the bundle has no 'encoder'\n  it has one model"),
        (
            BFLOAT16,
            {},
            "'y' is of type bfloat16, which the Open Inference Protocol does not carry",
        ),
        (
            SEQUENCE,
            {},
            (
                "'y' is not a tensor, and the Open Inference Protocol carries tensors alone\n"
                "  hint: for a classifier of `convert/sklearn`, set `zipmap: false`"
            ),
        ),
        (
            MATMUL.replace("batch", "3"),
            {"max_batch_size": 2},
            (
                "`max_batch_size` needs a model whose inputs and outputs all have the batch as first axis; "
                "that of 'x' is always 3\n  hint: export it with a dynamic first axis, or set `max_batch_size: 0`"
            ),
        ),
        (
            SUM,
            {"max_batch_size": 2},
            (
                "`max_batch_size` needs a row of output 'y' for each row of the inputs\n  for 3 rows its shape is [4]\n"
                "  hint: set `max_batch_size: 0`"
            ),
        ),
        (
            MATMUL,
            {"sample_log": "/requests.jsonl"},
            (
                "sample_log: /requests.jsonl lies in the root folder, where the server's user cannot write\n"
                "  hint: name a file in another folder: requests.jsonl"
            ),
        ),
        (
            MATMUL,
            {"sample_without": ["z"]},
            "sample_without: the model has no 'z'\n  it has x, y",
        ),
    ],
)
def test_what_cannot_be_served(tmp_path: Path, model: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(OrunError) as caught:
        make(tmp_path, model, **params)
    assert str(caught.value) == message


def test_a_provider_that_the_lock_does_not_have(tmp_path: Path) -> None:
    cuda = Target("gpu", (Provider("CUDAExecutionProvider"), Provider("CPUExecutionProvider")))
    problem = "target 'gpu' runs on CUDAExecutionProvider, and orun's lock has ONNX Runtime for the CPU\n  hint: set "
    with pytest.raises(OrunError) as caught:
        make(tmp_path, target=cuda, lock=None)
    assert str(caught.value) == f"{problem}`lock`: packages with the build of ONNX Runtime that has it"
    with pytest.raises(OrunError) as caught:
        make(tmp_path, target=cuda)
    assert str(caught.value) == f"{problem}`image`: a base image with the libraries that it needs"


def test_files_of_a_target_that_the_server_would_not_find(tmp_path: Path) -> None:
    with pytest.raises(OrunError) as caught:
        make(tmp_path, target=Target("own", session={"custom_op_libraries": ["own.so"]}))
    assert str(caught.value) == (
        "target 'own' names own.so, whose place on the server is unknown\n"
        "  hint: use a target without libraries of its own"
    )


@pytest.mark.parametrize(
    ("lock", "message"),
    [
        (f"kserve==0.21.0 {HASH}\n", "lock: own.lock lacks a build of onnxruntime"),
        (f"onnxruntime-gpu[cuda]==1.31.1 {HASH}\n", "lock: own.lock lacks kserve"),
        ("kserve==0.21.0\n", "lock: a line of own.lock has no version or no hash\n  kserve==0.21.0"),
        (
            f"kserve>=0.21 {HASH}",
            f"lock: a line of own.lock has no version or no hash\n  {f'kserve>=0.21 {HASH}':.100}",
        ),
    ],
)
def test_a_lock_that_pins_too_little(tmp_path: Path, lock: str, message: str) -> None:
    bundle = make_bundle(tmp_path).output
    (tmp_path / "own.lock").write_text(lock, "utf-8")
    with pytest.raises(OrunError) as caught:
        run_stage("release/server", tmp_path, {"name": "scale", "lock": "own.lock"}, inputs={"bundle": bundle})
    assert str(caught.value) == (
        f"{message}\n  hint: name kserve and a build of ONNX Runtime in requirements.in, then: "
        "uv pip compile --universal --generate-hashes requirements.in -o requirements.lock"
    )


def test_one_of_several_models(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, "1.0", MATMUL, **{"model.other": artifact(tmp_path, parse(MEAN))}).output
    (tmp_path / "own.lock").write_text(LOCK, "utf-8")
    params = {"name": "scale", "lock": "own.lock"}
    with pytest.raises(OrunError) as caught:
        run_stage("release/server", tmp_path, params, inputs={"bundle": bundle})
    assert str(caught.value) == (
        "the bundle has 2 models, and a server serves one\n  hint: choose it by `model` (., other), in a stage for each"
    )
    run = run_stage("release/server", tmp_path, params | {"model": "other"}, inputs={"bundle": bundle})
    assert json.loads((run.output / "server.json").read_bytes())["model"] == "other/model.onnx"


def test_a_bundle_with_a_file_of_the_server_s_name(tmp_path: Path) -> None:
    card = tmp_path / "card"
    card.mkdir()
    (card / "server.json").write_text("{}", "utf-8")
    bundle = make_bundle(tmp_path, card=card).output
    with pytest.raises(OrunError) as caught:
        run_stage("release/server", tmp_path, {"name": "scale"}, inputs={"bundle": bundle})
    assert str(caught.value).startswith("the bundle has server.json, and the folder of a server needs the name\n")


def test_the_lock_is_the_one_that_the_key_names() -> None:
    """After `make lock`, set `LOCK_SHA256` of orun/stages/release/_server/__init__.py."""
    content = (_server.FOLDER / _server.LOCK).read_bytes()
    assert hashlib.sha256(content).hexdigest() == _server.LOCK_SHA256
    assert not any(line.startswith(b"onnxruntime") for line in content.splitlines())


def test_the_release_s_data_are_the_reference(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=np.arange(80, dtype=np.float32).reshape(20, 4))
    run = make(tmp_path, data="rows.npz")
    reference = json.loads((run.output / "reference.json").read_bytes())
    assert set(reference["inputs"]) == {"x"}
    assert set(reference["outputs"]) == {"y"}
    assert len(reference["seconds"]) == 20
    assert verify_bundle(run.output) == []


@pytest.mark.slow
def test_the_reference_is_of_the_model_that_is_served(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=np.arange(80, dtype=np.float32).reshape(20, 4))
    bundle = make_bundle(tmp_path, "1.0", MATMUL, **{"model.other": artifact(tmp_path, parse(MATMUL))}).output
    params = {"name": "scale", "model": "other", "data": "rows.npz"}
    run = run_stage("release/server", tmp_path, params, inputs={"bundle": bundle})
    release = load_release(run.output)
    assert release.model == json.loads((run.output / "server.json").read_bytes())["sha256"]
    assert json.loads((run.output / "reference.json").read_bytes())["model"] == "other/model.onnx"
