"""OpenVINO on the CPU, as a plug-in and as a build of its own, each in an isolated environment: compiled end to end."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

import orun
from orun.errors import PipelineError
from orun.record import RunResult
from orun.store import locks
from tests.acceptance.support import make_environments
from tests.stages.models import convolution

PIPELINES = Path(__file__).parents[2] / "pipelines"
ENVIRONMENTS = """
environments:
  plugin: {packages: [onnxruntime==1.31.1, onnxruntime-ep-openvino==1.8.1, onnx==1.23.2, numpy==2.4.6]}
  build: {packages: [onnxruntime-openvino==1.24.1, onnxruntime-extensions==0.15.2, onnx==1.23.2, numpy==2.4.6]}
targets:
  plugin:
    environment: plugin
    providers: [OpenVINOExecutionProvider: {device_type: CPU}]
  strict:
    environment: plugin
    providers: [OpenVINOExecutionProvider]
    fallback: forbid-cpu
  build:
    environment: build
    providers: [OpenVINOExecutionProvider: {device_type: CPU, num_of_threads: 1}]
  extended:
    environment: build
    providers: [CPUExecutionProvider]
    session: {custom_op_libraries: [onnxruntime-extensions]}
  bare: {environment: build, providers: [CPUExecutionProvider]}
stages:
"""
COMPILED = """
  import: {uses: convert/onnx, with: {path: model.onnx}}
  plugin: {uses: compile/engine, needs: import, with: {target: plugin}}
  embedded: {uses: compile/engine, needs: import, with: {target: plugin, embed: true, launches: 1}}
  build: {uses: compile/engine, needs: import, with: {target: build, launches: 1}}
  covered: {uses: check/coverage, needs: plugin, with: {target: plugin}}
  faithful:
    uses: measure/accuracy
    needs: {model: plugin, reference: import}
    with: {target: plugin, reference_target: cpu, metrics: [cosine], samples: 4}
    gate: {cosine: {min: 0.999}}
  startup:
    uses: measure/startup
    needs: {model: plugin, reference: import}
    with: {target: plugin, launches: 6}
"""
QUICK = {
    "stages.engine.with.launches": "1",
    "stages.startup.with.launches": "6",
    "stages.accuracy.with.samples": "16",
    "stages.latency.with.time": "0s",
    "stages.latency.with.warmup": "0s",
    "stages.latency.with.max_launches": "3",
    "stages.latency.with.samples": "6",
}
DETERMINANT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 4] x) => (float[4, 4] y) <int64[1] first = {0}> {
  a = Relu(x)
  b = Det(a)
  c = Unsqueeze(b, first)
  y = Add(a, c)
}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model; skipped where the packages cannot be had."""
    monkeypatch.setattr(locks, "MACHINE", tmp_path)  # or whatever measures on this machine is waited for
    onnx.save(convolution(), tmp_path / "model.onnx")
    onnx.save(onnx.parser.parse_model(DETERMINANT), tmp_path / "determinant.onnx")
    (tmp_path / "compiled.yaml").write_text(ENVIRONMENTS + COMPILED, "utf-8")
    make_environments(tmp_path / "compiled.yaml")
    return tmp_path


def run(project: Path, file: str) -> RunResult:
    return orun.run(project / file, store=project / "store", keep_going=True)


def values(result: RunResult, stage: str) -> dict[str, float]:
    assert result[stage].failure is None, result[stage].failure
    return {name: metric.value for name, metric in result[stage].metrics.items()}


def test_a_compiled_model_is_loaded_back_and_measured_in_place_of_the_model(project: Path) -> None:
    result = run(project, "compiled.yaml")
    forms = {}
    for stage in ("plugin", "embedded", "build"):
        found = values(result, stage)
        assert (found["compiled"], found["left"], found["max_abs_error"]) == (1, 0, 0)
        assert found["load"] > 0
        folder = Path(result[stage].out)
        engine = json.loads((folder / "engine.json").read_text())
        nodes = [node.op_type for node in onnx.load(folder / "model.onnx").graph.node]
        names = sorted(path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".blob")
        forms[stage] = (engine["form"], engine["version"], nodes == ["EPContext"], names)
    assert forms == {
        "plugin": (
            "context", "1.31.1", True, ["engine.json", "model.onnx", "model_OpenVINOExecutionProvider.bin"],
        ),
        "embedded": ("context", "1.31.1", True, ["engine.json", "model.onnx"]),
        "build": ("cache", "1.24.1", False, ["engine.json", "model.onnx"]),
    }  # fmt: skip
    assert len(list((Path(result["build"].out) / "cache").glob("*.blob"))) == 1
    assert values(result, "covered")["coverage"] == 1
    assert 0.999 < values(result, "faithful")["cosine"] <= 1  # the plug-in calculates in bfloat16 where the CPU can
    startup = result["startup"].metrics["load"]
    assert startup.reference is not None
    assert startup.reference.count == 6
    assert {stage.outcome for stage in run(project, "compiled.yaml").stages} == {"cached"}


def test_what_falls_back_is_counted_named_and_forbidden(project: Path) -> None:
    stages = """
  import: {uses: convert/onnx, with: {path: determinant.onnx}}
  covered:
    uses: check/coverage
    needs: import
    with: {target: plugin}
    gate: {coverage: {min: 90%}, fallback: {max: 1}, share.OpenVINO: {min: 70%}}
  strict: {uses: measure/startup, needs: import, with: {target: strict}}
"""
    (project / "fallen.yaml").write_text(ENVIRONMENTS + stages, "utf-8")
    result = run(project, "fallen.yaml")
    assert values(result, "covered") == {
        "coverage": 0.75, "fallback": 1, "nodes": 4, "subgraphs": 2, "share.OpenVINO": 0.75,
    }  # fmt: skip
    assert [(verdict.metric, verdict.outcome) for verdict in result.verdicts] == [
        ("coverage", "failed"), ("fallback", "passed"), ("share.OpenVINO", "passed"),
    ]  # fmt: skip
    found = json.loads((Path(result["covered"].out) / "coverage.json").read_text())
    assert found["fallback"] == {"Det": 1}
    strict = result["strict"].failure
    assert strict is not None
    assert "target 'strict' forbids the CPU, and 1 node landed on it" in strict.why


OWN = """
<ir_version: 8, opset_import: ["" : 17, "ai.onnx.contrib" : 1]>
g (float[n, 4] x) => (float[n, 4] y) { below, above = ai.onnx.contrib.NegPos (x) y = Sub (above, below) }
"""
PLAIN = '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) { y = Abs (x) }'


def test_custom_operators_run_where_the_target_brings_their_library(project: Path) -> None:
    stages = """
  own: {uses: convert/onnx, with: {path: own.onnx}}
  plain: {uses: convert/onnx, with: {path: plain.onnx}}
  same:
    uses: measure/accuracy
    needs: {model: own, reference: plain}
    with: {target: extended, metrics: [max_abs, sqnr], samples: 4}
  without: {uses: measure/startup, needs: own, with: {target: bare}}
"""
    for name, text in (("own", OWN), ("plain", PLAIN)):
        onnx.save(onnx.parser.parse_model(text), project / f"{name}.onnx")
    (project / "own.yaml").write_text(ENVIRONMENTS + stages, "utf-8")
    result = run(project, "own.yaml")
    assert values(result, "same")["max_abs"] == 0
    without = result["without"].failure
    assert without is not None
    assert "ai.onnx.contrib:NegPos(-1) is not a registered function/op" in without.why


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("precision: FP32", "the plug-in of OpenVINOExecutionProvider ignores precision"),
        ("device_type: NPU", "OpenVINOExecutionProvider has no device NPU on this machine"),
    ],
)
def test_a_setting_that_the_plug_in_would_ignore_stops_the_run(project: Path, options: str, why: str) -> None:
    stages = """
  import: {uses: convert/onnx, with: {path: model.onnx}}
  covered: {uses: check/coverage, needs: import, with: {target: strict}}
"""
    text = ENVIRONMENTS.replace("[OpenVINOExecutionProvider]", f"[OpenVINOExecutionProvider: {{{options}}}]") + stages
    (project / "ignored.yaml").write_text(text, "utf-8")
    with pytest.raises(PipelineError) as caught:
        run(project, "ignored.yaml")
    (problem,) = caught.value.problems
    assert problem.message == (
        "target 'strict' of stage 'covered' cannot run here: "
        f"OpenVINOExecutionProvider does not load on this machine ({why})"
    )


@pytest.mark.slow
def test_the_ready_pipeline_keeps_the_accuracy_in_bfloat16(project: Path) -> None:
    result = orun.run(PIPELINES / "openvino.yaml", set=QUICK, store=project / "store")
    names = ("export", "simplify", "coverage", "engine", "startup", "accuracy", "latency")
    assert sorted((stage.stage, stage.outcome) for stage in result.stages) == sorted((name, "built") for name in names)
    assert values(result, "coverage")["fallback"] == 0
    assert values(result, "accuracy")["cosine.min"] > 0.999
    judged = {f"{verdict.stage} {verdict.metric}": verdict.outcome for verdict in result.verdicts}
    assert judged.keys() == {"coverage coverage", "accuracy cosine.min", "latency speedup"}
    assert {judged["coverage coverage"], judged["accuracy cosine.min"]} == {"passed"}
    for name, metric, launches in (("startup", "load", 6), ("latency", "p50", 3)):
        reference = result[name].metrics[metric].reference
        assert reference is not None
        assert reference.count == launches
