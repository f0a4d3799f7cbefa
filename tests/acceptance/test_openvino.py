"""OpenVINO on the CPU, as a plug-in and as a build of its own, each in an isolated environment: compiled end to end."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path

import onnx
import pytest

import orun
from orun.core.run_record import RunResult
from orun.environment import venvs
from orun.errors import PipelineError
from orun.pipeline import load
from tests.acceptance.support import command, copy_plugin, make_environments, short_timing
from tests.stages.models import convolution

pytestmark = pytest.mark.slow  # two environments of hundreds of megabytes

PIPELINES = Path(__file__).parents[2] / "pipelines"
CPUINFO = Path("/proc/cpuinfo")
INTEL = CPUINFO.exists() and "GenuineIntel" in CPUINFO.read_text("utf-8")
ELSEWHERE = "the plug-in accepts only Intel CPUs"
ENVIRONMENTS = """
environments:
  plugin: {packages: [onnxruntime==1.31.1, onnxruntime-ep-openvino==1.8.1, onnx==1.23.2, numpy==2.4.6]}
  build: {packages: [onnxruntime-openvino==1.24.1, onnxruntime-extensions==0.15.2, onnx==1.23.2, numpy==2.4.6]}
targets:
  plugin:
    environment: plugin
    providers: [OpenVINOExecutionProvider: {device_type: CPU}]
  build:
    environment: build
    providers: [OpenVINOExecutionProvider: {device_type: CPU, num_of_threads: 1}]
  strict-plugin:
    environment: plugin
    providers: [OpenVINOExecutionProvider]
    fallback: forbid-cpu
  strict-build:
    environment: build
    providers: [OpenVINOExecutionProvider]
    fallback: forbid-cpu
  extended:
    environment: build
    providers: [CPUExecutionProvider]
    session: {custom_op_libraries: [onnxruntime-extensions]}
  bare: {environment: build, providers: [CPUExecutionProvider]}
stages:
"""
MEASURED = """
  covered: {uses: check/coverage, needs: MODEL, with: {target: WAY}}
  faithful:
    uses: measure/accuracy
    needs: {model: MODEL, reference: import}
    with: {target: WAY, reference_target: cpu, metrics: [cosine], samples: 4}
    gate: {cosine: {min: 0.999}}
  startup:
    uses: measure/startup
    needs: {model: MODEL, reference: import}
    with: {target: WAY, launches: 6}
"""
IMPORT = """
  import: {uses: convert/onnx, with: {path: model.onnx}}
"""
ENGINES = """
  engine: {uses: compile/engine, needs: import, with: {target: plugin}}
  embedded: {uses: compile/engine, needs: import, with: {target: plugin, embed: true, launches: 1}}
"""
USED = """
  import: {uses: convert/onnx, with: {path: model.onnx}}
  plugin: {uses: check/coverage, needs: import, with: {target: plugin}}
  build: {uses: check/coverage, needs: import, with: {target: build}}
"""
QUICK = {
    "stages.startup.with.launches": "6",
    "stages.accuracy.with.samples": "16",
    **short_timing("latency"),
}
BETWEEN = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 4] x) => (float[4, 4] y) <int64[1] first = {0}> {
  a = Relu(x)
  b = Det(a)
  c = Unsqueeze(b, first)
  y = Add(a, c)
}
"""
LAST = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 4] x) => (float y) { a = Relu(x) y = Det(a) }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a model; skipped where the packages cannot be had."""
    onnx.save(convolution(), tmp_path / "model.onnx")
    (tmp_path / "all.yaml").write_text(ENVIRONMENTS + USED, "utf-8")
    make_environments(tmp_path / "all.yaml")
    return tmp_path


def measured(model: str, way: str) -> str:
    """Stages that measure a stage's model on a target."""
    return MEASURED.replace("MODEL", model).replace("WAY", way)


def run(project: Path, stages: str) -> RunResult:
    (project / "pipeline.yaml").write_text(ENVIRONMENTS + stages, "utf-8")
    return orun.run(project / "pipeline.yaml", store=project / "store", keep_going=True)


def values(result: RunResult, stage: str) -> dict[str, float]:
    assert result[stage].failure is None, result[stage].failure
    return {name: metric.value for name, metric in result[stage].metrics.items()}


def require_measured(result: RunResult) -> None:
    assert values(result, "covered")["coverage"] == 1
    assert 0.999 < values(result, "faithful")["cosine"] <= 1  # OpenVINO calculates in bfloat16 where the CPU can
    startup = result["startup"].metrics["load"]
    assert startup.reference is not None
    assert startup.reference.count == 6


@pytest.mark.skipif(not INTEL, reason=ELSEWHERE)
def test_a_compiled_model_is_loaded_back_and_measured_in_place_of_the_model(project: Path) -> None:
    stages = IMPORT + ENGINES + measured("engine", "plugin")
    result = run(project, stages)
    files = {}
    for stage in ("engine", "embedded"):
        figures = values(result, stage)
        assert (figures["compiled"], figures["left"], figures["max_abs_error"]) == (1, 0, 0)
        assert figures["load"] > 0
        folder = Path(result[stage].out)
        engine = json.loads((folder / "engine.json").read_text())
        assert (engine["form"], engine["version"]) == ("context", "1.31.1")
        assert [node.op_type for node in onnx.load(folder / "model.onnx").graph.node] == ["EPContext"]
        files[stage] = sorted(path.name for path in folder.rglob("*") if path.is_file())
    assert files == {
        "engine": ["engine.json", "model.onnx", "model_OpenVINOExecutionProvider.bin"],
        "embedded": ["engine.json", "model.onnx"],
    }
    require_measured(result)
    assert {stage.outcome for stage in run(project, stages).stages} == {"cached"}


BY_PATH = ENVIRONMENTS.replace(
    "  plugin:\n    environment: plugin\n    providers: [OpenVINOExecutionProvider: {device_type: CPU}]\n",
    "  plugin:\n    environment: plugin\n    fallback: forbid-cpu\n"
    "    providers: [{library: LIBRARY, name: OpenVINOExecutionProvider, options: {device_type: CPU}}]\n",
)


@pytest.mark.skipif(not INTEL, reason=ELSEWHERE)
def test_the_plug_in_by_its_path_is_used_and_in_the_key(tmp_path: Path) -> None:
    onnx.save(convolution(), tmp_path / "model.onnx")
    packages = tmp_path / "packages.yaml"
    packages.write_text(ENVIRONMENTS + IMPORT + measured("import", "plugin"), "utf-8")
    make_environments(packages)
    library = copy_plugin(packages, "libonnxruntime_providers_openvino_plugin.so", tmp_path / "lib")
    text = BY_PATH.replace("LIBRARY", str(library.relative_to(tmp_path)))
    (tmp_path / "path.yaml").write_text(text + IMPORT + ENGINES + measured("engine", "plugin"), "utf-8")
    result = orun.run(tmp_path / "path.yaml", store=tmp_path / "store")
    assert result.exit_code == 0, [stage.failure for stage in result.stages]
    require_measured(result)
    assert values(result, "engine")["compiled"] == 1
    contents = [item.subject for item in result["covered"].inputs if item.kind == "content"]
    assert contents == ["target.plugins[0]"]


OPEN = """
import os, sys, onnxruntime
onnxruntime.InferenceSession("model.onnx", providers=[("OpenVINOExecutionProvider", {"cache_dir": sys.argv[1]})])
print([(entry.stat().st_ino, entry.stat().st_mtime_ns) for entry in os.scandir(sys.argv[1])])
"""


def test_a_cache_that_its_provider_does_not_take_back_is_no_engine(project: Path) -> None:
    """The build compiles the model again in every process, and writes the blob again, as large as it was."""
    stages = IMPORT + "  engine: {uses: compile/engine, needs: import, with: {target: build, launches: 1}}\n"
    result = run(project, stages + measured("import", "build"))
    require_measured(result)
    (project / "cache").mkdir()
    (environment,) = {name for stage in load(project / "pipeline.yaml").stages for name in stage.environments}
    python = venvs.choose_interpreter(environment).python
    seen = {command(python, "-c", OPEN, "cache", cwd=project) for _ in range(2)}
    if len(seen) == 1:  # what it took back is what is there
        assert values(result, "engine")["compiled"] == 1
        return
    failure = result["engine"].failure
    assert failure is not None
    assert failure.problem == "OpenVINOExecutionProvider compiled the model anew when it was loaded back"
    assert re.fullmatch(r"it wrote cache/[0-9]+\.blob", failure.why)
    assert failure.hint.splitlines()[0] == (
        "run the model as it is; the plug-in onnxruntime-ep-openvino keeps what it compiled, for CPUs of Intel"
    )


@pytest.mark.parametrize(
    ("way", "model", "coverage"),
    [
        pytest.param("plugin", BETWEEN, (0.75, 4, 2), marks=pytest.mark.skipif(not INTEL, reason=ELSEWHERE)),
        ("build", LAST, (0.5, 2, 1)),
    ],
)
def test_what_falls_back_is_counted_named_and_forbidden(
    project: Path, way: str, model: str, coverage: tuple[float, int, int]
) -> None:
    stages = """
  import: {uses: convert/onnx, with: {path: determinant.onnx}}
  covered:
    uses: check/coverage
    needs: import
    with: {target: WAY}
    gate: {coverage: {min: 90%}, fallback: {max: 1}, share.OpenVINO: {min: 50%}}
  strict: {uses: measure/startup, needs: import, with: {target: strict-WAY}}
"""
    onnx.save(onnx.parser.parse_model(model), project / "determinant.onnx")
    result = run(project, stages.replace("WAY", way))
    share, nodes, subgraphs = coverage
    assert values(result, "covered") == {
        "coverage": share, "fallback": 1, "nodes": nodes, "subgraphs": subgraphs, "share.OpenVINO": share,
    }  # fmt: skip
    assert [(verdict.metric, verdict.outcome) for verdict in result.verdicts] == [
        ("coverage", "failed"), ("fallback", "passed"), ("share.OpenVINO", "passed"),
    ]  # fmt: skip
    document = json.loads((Path(result["covered"].out) / "coverage.json").read_text())
    assert document["fallback"] == {"Det": 1}
    strict = result["strict"].failure
    assert strict is not None
    assert f"target 'strict-{way}' forbids the CPU, and 1 node landed on it" in strict.why


OWN = """
<ir_version: 8, opset_import: ["" : 17, "ai.onnx.contrib" : 1]>
g (float[n, 4] x) => (float[n, 4] y) { below, above = ai.onnx.contrib.NegPos (x) y = Sub (above, below) }
"""
PLAIN = '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) { y = Abs (x) }'


def test_custom_operators_run_with_the_library_of_the_target_or_that_of_the_extensions(project: Path) -> None:
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
    result = run(project, stages)
    assert values(result, "same")["max_abs"] == 0
    assert result["without"].failure is None  # sessions load the library of onnxruntime-extensions by themselves


NO_CPU = (
    "OpenVINOExecutionProvider has no device CPU on this machine: its plug-in accepts only Intel CPUs,"
    " onnxruntime-openvino accepts all"
)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("{precision: FP32}", "the plug-in of OpenVINOExecutionProvider ignores precision"),
        ("{device_type: NPU}", "OpenVINOExecutionProvider has no device NPU on this machine"),
        pytest.param("{device_type: CPU}", NO_CPU, marks=pytest.mark.skipif(INTEL, reason="the plug-in takes it")),
        pytest.param("{}", NO_CPU, marks=pytest.mark.skipif(INTEL, reason="the plug-in takes it")),
    ],
)
def test_what_the_plug_in_cannot_do_stops_the_run(project: Path, options: str, why: str) -> None:
    stages = """
  import: {uses: convert/onnx, with: {path: model.onnx}}
  covered: {uses: check/coverage, needs: import, with: {target: strict-plugin}}
"""
    text = ENVIRONMENTS.replace("[OpenVINOExecutionProvider]", f"[OpenVINOExecutionProvider: {options}]") + stages
    (project / "ignored.yaml").write_text(text, "utf-8")
    with pytest.raises(PipelineError) as caught:
        orun.run(project / "ignored.yaml", store=project / "store")
    (problem,) = caught.value.problems
    assert problem.message == (
        "target 'strict-plugin' of stage 'covered' cannot run here: "
        f"OpenVINOExecutionProvider does not load on this machine ({why})"
    )


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the build of ONNX Runtime is for x86-64")
def test_the_ready_pipeline_is_measured_and_judged_on_every_processor(project: Path) -> None:
    result = orun.run(PIPELINES / "openvino.yaml", set=QUICK, store=project / "store")
    names = ("export", "simplify", "coverage", "startup", "accuracy", "latency")
    assert sorted((stage.stage, stage.outcome) for stage in result.stages) == sorted((name, "built") for name in names)
    assert values(result, "coverage")["fallback"] == 0
    assert values(result, "accuracy")["cosine.min"] > 0.999
    judged = {f"{verdict.stage} {verdict.metric}": verdict.outcome for verdict in result.verdicts}
    assert judged.keys() == {"coverage coverage", "accuracy cosine.min", "latency speedup"}
    assert {judged["coverage coverage"], judged["accuracy cosine.min"]} == {"passed"}
    assert values(result, "startup")["load"] > 0
    reference = result["latency"].metrics["p50"].reference
    assert reference is not None
    assert reference.count == 3
