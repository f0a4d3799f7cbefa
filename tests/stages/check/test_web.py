"""check/web: what onnxruntime-web takes and answers, and the message for each problem."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.errors import StageFailed, UsageError
from orun.measure.web.package import find_package
from orun.stages._web.operators import count_nodes, read_table
from tests.stages.models import parse
from tests.stages.support import StageRun, artifact, digest, run_stage
from tests.web import OLDEST, VERSION, install_web, require_program

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 4] x, int64[N] ids, string[2] words, float16[2] half, bool[1] flag)
  => (float[N, 4] y, int64[N] sums, string[2] same, float16[2] twice, bool[1] other)
{
  h = Sigmoid(x)
  shift = Constant<value = float {1.0}>()
  y = Add(h, shift)
  sums = Add(ids, ids)
  same = Identity(words)
  twice = Add(half, half)
  other = Not(flag)
}
"""
UNFIT = """
<ir_version: 8, opset_import: ["" : 17]>
g (bfloat16[2] x, seq(float[2]) many) => (bfloat16[2] y, float[2] z) {
  y = Identity(x)
  at = Constant<value = int64 {0}>()
  z = SequenceAt(many, at)
}
"""
CAST = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[8] x) => (uint8[8] y) <float[1] hundred = {100}> {
  large = Mul(x, hundred)
  y = Cast<to = 2>(large)
}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with onnxruntime-web."""
    require_program("node")
    return install_web(tmp_path_factory)


def check(folder: Path, root: Path, model: onnx.ModelProto, **params: Any) -> StageRun:
    params = {"onnxruntime_web": VERSION, "runtime": "node", **params}
    return run_stage("check/web", folder, params, inputs={"model": artifact(folder, model)}, root=root)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory, root: Path) -> StageRun:
    """The check of a model with every type that goes in and out."""
    return check(tmp_path_factory.mktemp("checked"), root, parse(MODEL))


@pytest.mark.slow
def test_it_opens_and_tells_arrays_and_missing_operators(checked: StageRun) -> None:
    assert {name: metric.value for name, metric in checked.metrics.items()} == {
        "size": parse(MODEL).ByteSize(),
        "nodes": 8,  # two of them cast the float16, which the CPU adds as float32
        "max_abs_error": pytest.approx(0.0, abs=1e-5),
        "coverage.webgpu": 7 / 8,
        "coverage.webnn": 1.0,
        "coverage.webgl": 1.0,
    }
    half = "Float16Array, or Uint16Array of its bits where a browser has none"
    arrays = ["Float32Array", "BigInt64Array", "string[]", half, "Uint8Array"]
    report = json.loads((checked.output / "web.json").read_text())
    assert report.pop("host").startswith("Node.js ")
    assert report == {
        "onnxruntime_web": VERSION,
        "threads": 1,
        "max_abs_error": checked.value("max_abs_error"),
        "inputs": dict(zip(("x", "ids", "words", "half", "flag"), arrays, strict=True)),
        "outputs": dict(zip(("y", "sums", "same", "twice", "other"), arrays, strict=True)),
        "missing": {"webgpu": {"Identity": 1}, "webnn": {}, "webgl": {}},
    }


@pytest.mark.slow
def test_the_same_bytes_again(tmp_path: Path, root: Path, checked: StageRun) -> None:
    assert digest(check(tmp_path, root, parse(MODEL)).output) == digest(checked.output)


@pytest.mark.slow
def test_weights_in_a_second_file_on_two_threads(tmp_path: Path, root: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 64] x) => (int64[1, 64] y) '
        "{ a = MatMul(x, w) y = ArgMax(a) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    params = {"onnxruntime_web": VERSION, "runtime": "node", "threads": 2}
    run = run_stage("check/web", tmp_path, params, inputs={"model": folder}, root=root)
    assert run.value("size") == sum(file.stat().st_size for file in folder.iterdir())
    assert run.value("coverage.webgl") == 0.5
    report = json.loads((run.output / "web.json").read_text())
    assert (report["missing"]["webgl"], report["threads"]) == ({"ArgMax": 1}, 2)


@pytest.mark.slow
def test_types_without_arrays_are_refused_together(tmp_path: Path, root: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        check(tmp_path, root, onnx.parser.parse_model(UNFIT))
    assert caught.value.problem == "the model has 3 problems in onnxruntime-web"
    assert caught.value.why.splitlines() == [
        "input 'x' is of BFLOAT16, which onnxruntime-web cannot pass to JavaScript",
        "input 'many' is a sequence, which onnxruntime-web cannot pass to JavaScript",
        "output 'y' is of BFLOAT16, which onnxruntime-web cannot pass to JavaScript",
    ]


@pytest.mark.slow
def test_an_operator_that_it_does_not_know_is_named(tmp_path: Path, root: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17, "odd" : 1]> g (float[2] x) => (float[2] y) { y = odd.Swirl(x) }'
    with pytest.raises(StageFailed) as caught:
        check(tmp_path, root, onnx.parser.parse_model(text))
    assert caught.value.problem == "the model has 1 problem in onnxruntime-web"
    assert "odd:Swirl(-1) is not a registered function/op" in caught.value.why


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors cast negative numbers as WebAssembly does")
def test_answers_that_differ_fail_the_stage(tmp_path: Path, root: Path) -> None:
    """A cast of a negative number to an unsigned integer is undefined: WebAssembly makes it 0, and x86 wraps around."""
    with pytest.raises(StageFailed) as caught:
        check(tmp_path, root, parse(CAST))
    assert caught.value.problem == "the model in onnxruntime-web disagrees with the model on the CPU in output 'y'"
    assert "of 8 values differ" in caught.value.why
    assert check(tmp_path, root, parse(CAST), inputs={"x": {"low": 0, "high": 1}}).value("max_abs_error") == 0


@pytest.mark.slow
def test_answers_are_compared_at_the_sizes_that_the_stage_names(tmp_path: Path, root: Path) -> None:
    run = check(tmp_path, root, parse(MODEL), dims={"N": [3]})
    assert "compared the model in onnxruntime-web with the model on the CPU on 3 inputs" in run.log


def test_a_version_that_is_not_installed_comes_with_the_command(tmp_path: Path, root: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_package(tmp_path, VERSION)
    assert str(caught.value) == (
        f"onnxruntime-web {VERSION} is not installed\n"
        f"  node_modules of {tmp_path} and the folders above it has no onnxruntime-web\n"
        f"  hint: npm install --save-exact onnxruntime-web@{VERSION}"
    )
    with pytest.raises(UsageError) as caught:
        find_package(root, "1.29.1")
    assert caught.value.why == f"{root / 'node_modules/onnxruntime-web'} is onnxruntime-web {VERSION}"
    assert find_package(tmp_path, VERSION, str(root / "node_modules")).version == VERSION
    assert find_package(root / "pipelines", VERSION).folder == root / "node_modules/onnxruntime-web"


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.30", "`onnxruntime_web: 1.30` is not the full version of an npm package"),
        ("latest", "`onnxruntime_web: latest` is not the full version of an npm package"),
        ("1.18.0", "onnxruntime-web 1.18.0 is too old"),
    ],
)
def test_a_version_that_cannot_be(tmp_path: Path, version: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_package(tmp_path, version)
    assert caught.value.problem == message


def test_half_a_package_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "node_modules/onnxruntime-web"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"version": VERSION}))
    with pytest.raises(UsageError) as caught:
        find_package(tmp_path, VERSION)
    assert caught.value.problem == f"{folder} is not a whole onnxruntime-web"
    assert "dist/ort-wasm-simd-threaded.wasm" in caught.value.why


def test_a_machine_without_a_runtime_says_what_to_install(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        check(tmp_path, root, parse(MODEL))
    assert str(caught.value) == "there is no Node.js\n  PATH has no node\n  hint: apt-get install nodejs"
    with pytest.raises(UsageError) as caught:
        check(tmp_path, root, parse(MODEL), runtime="chromium")
    assert caught.value.problem == "there is no Chromium or Chrome"
    assert caught.value.hint == "apt-get install chromium"


@pytest.mark.parametrize("provider", ["webgpu", "webnn", "webgl"])
def test_the_tables_of_the_package_are_read_whole(root: Path, provider: str) -> None:
    package = find_package(root, VERSION)
    table = read_table(package, provider)
    lines = (package.folder / "docs" / f"{provider}-operators.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| Operator")]
    with_versions = [row for row in rows if any(character.isdigit() for character in row.split("|")[2])]
    assert len({name for _, name in table}) == len(with_versions) > 60
    assert table["", "Abs"] == [(6, 12), (13, float("inf"))] if provider != "webnn" else [(7, 12), (13, float("inf"))]


def test_a_node_counts_if_its_operator_set_is_in_the_table() -> None:
    model = parse(MODEL)
    table: dict[tuple[str, str], list[tuple[int, float]]] = {("", "Add"): [(7, 12), (14, 16)], ("", "Not"): [(1, 99)]}
    counts, missing = count_nodes(model, table)
    assert counts == {"Not": 1}
    assert missing == {"Sigmoid": 1, "Add": 3, "Identity": 1, "Constant": 1}


@pytest.mark.slow
@pytest.mark.parametrize(("version", "runtime"), [(OLDEST, "node"), (OLDEST, "chromium"), (VERSION, "chromium")])
def test_other_versions_and_browsers(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, version: str, runtime: Any
) -> None:
    require_program(runtime)
    root = install_web(tmp_path_factory, version)
    run = check(tmp_path, root, parse(MODEL), onnxruntime_web=version, runtime=runtime)
    assert run.value("coverage.webnn") == 1.0
