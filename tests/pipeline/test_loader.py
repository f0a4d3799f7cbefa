from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from blake3 import blake3

from orun.core.source_location import Position
from orun.core.targets import Provider, Target
from orun.pipeline import load
from orun.pipeline.model import Gate, Group, KindUse, Reference, Threshold, iter_gates
from orun.pipeline.type_matching import find_member
from orun.stages.optimize import simplify
from orun.stages.params import REQUIRED, Param, ParamType
from tests.pipeline.support import EXPORT, complaint, loaded, node, write


def test_a_pipeline_has_what_its_file_says(tmp_path: Path) -> None:
    pipeline = loaded(
        tmp_path, f"name: bert\nseed: 7\nstages:\n{EXPORT}  s: {{uses: optimize/simplify, needs: export}}\n"
    )
    assert (pipeline.name, pipeline.seed, pipeline.file, pipeline.root) == ("bert", 7, tmp_path / "p.yaml", tmp_path)
    assert pipeline.sources == {str(tmp_path / "p.yaml"): blake3((tmp_path / "p.yaml").read_bytes()).hexdigest()}
    assert pipeline.kinds["optimize/simplify"] == KindUse("built-in", "orun.stages.optimize.simplify", simplify.SPEC)
    stage = pipeline.stage("s")
    assert stage.position == Position(str(tmp_path / "p.yaml"), 5, 3)
    assert (dict(stage.needs), stage.after, stage.upstream) == ({"model": "export"}, (), ("export",))
    assert (stage.timeout, stage.cpus, stage.memory, stage.env, stage.target) == (None, 1, None, (), None)


def test_the_name_is_that_of_the_file_when_left_out(tmp_path: Path) -> None:
    assert load(write(tmp_path, f"stages:\n{EXPORT}", "my model.yaml")).name == "my model"


def test_code_that_python_cannot_parse_is_shown_where_it_fails(tmp_path: Path) -> None:
    tmp_path.joinpath("broken.py").write_text("def load_model(:\n    return None\n", encoding="utf-8")
    export = "{uses: convert/torch, with: {model: broken.py:load_model, inputs: {x: {shape: [1]}}, outputs: [y]}}"
    assert complaint(tmp_path, f"stages:\n  export: {export}\n") == (
        "broken.py:1:16: error: Python cannot parse this: invalid syntax\n"
        "    1 | def load_model(:\n"
        "      |                ^"
    )


def test_loading_knows_nothing_of_the_machine_and_imports_nothing_heavy(tmp_path: Path) -> None:
    accuracy = "{uses: measure/accuracy, needs: export, with: {dataset: code.py:pairs, metrics: [accuracy]}}"
    file = write(tmp_path, f"stages:\n{EXPORT}  a: {accuracy}\n")
    tmp_path.joinpath("code.py").write_text("raise RuntimeError\ndef pairs(): ...\n", encoding="utf-8")
    code = (
        "import sys; from pathlib import Path; from orun.pipeline import load\n"
        "light = {'yaml', 'networkx', 'jsonschema'} & set(sys.modules)\n"
        f"load(Path({str(file)!r}))\n"
        "heavy = {'onnx', 'onnxruntime', 'torch', 'tensorflow', 'numpy', 'orun.environment.device'}\n"
        "heavy &= set(sys.modules)\n"
        "print(sorted(light), sorted(heavy))"
    )
    process = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert process.stdout == "[] []\n"


def test_values_are_plain_and_defaults_are_in(tmp_path: Path) -> None:
    params = loaded(
        tmp_path,
        f"stages:\n{EXPORT}"
        "  latency:\n    uses: measure/latency\n    needs: export\n"
        "    with: {time: 2min, warmup: 250ms, resolution: 2%, batch: 1e1, inputs: code.py:pairs}\n",
    ).stage("latency")
    assert {name: params.params[name] for name in ("time", "warmup", "resolution", "batch", "inputs", "target")} == {
        "time": 120.0,
        "warmup": 0.25,
        "resolution": 0.02,
        "batch": 10,
        "inputs": "code.py:pairs",
        "target": None,
    }
    assert type(params.params["batch"]) is int
    assert params.params["samples"] is None
    assert params.references == (Reference("inputs", "code.py", "pairs"),)


def test_nested_values_and_the_files_among_them(tmp_path: Path) -> None:
    stage = loaded(
        tmp_path,
        f"stages:\n{EXPORT}"
        "  accuracy:\n    uses: measure/accuracy\n    needs: export\n"
        "    with: {dataset: code.py:pairs, metrics: [accuracy, code.py:load]}\n"
        "  torch:\n    uses: convert/torch\n"
        "    with: {model: code.py:load, outputs: [1.10], inputs: {x: {shape: [batch, 8]}}}\n",
    )
    assert stage.stage("accuracy").references == (
        Reference("dataset", "code.py", "pairs"),
        Reference("metrics[1]", "code.py", "load"),
    )
    torch = stage.stage("torch").params
    assert torch["outputs"] == ["1.10"]
    assert torch["inputs"] == {
        "x": {"shape": ["batch", 8], "dtype": "float32", "low": None, "high": None, "fill": "random"}
    }
    assert stage.sources[str(tmp_path / "code.py")] == blake3((tmp_path / "code.py").read_bytes()).hexdigest()


def test_null_for_a_parameter_of_several_types(tmp_path: Path) -> None:
    """It belongs to none of the types, which was taken for a mistake of orun's."""
    file = write(tmp_path, f"stages:\n{EXPORT}  own: {{uses: ./own.py:f, needs: export, with: {{level: null}}}}\n")
    tmp_path.joinpath("own.py").write_text(
        "def f(context, *, level: Literal['all'] | int | None = 1): ...\n", encoding="utf-8"
    )
    assert load(file).stage("own").params == {"level": None}


def test_a_required_key_of_several_types_within_one_of_several_types(tmp_path: Path) -> None:
    text, number = ParamType("str"), ParamType("int")
    size = Param("size", ParamType("union", items=(number, ParamType("map", items=(text,)))), REQUIRED, "")
    box = ParamType("object", fields=(size,))
    either = ParamType("union", items=(box, text))
    assert find_member(either, node(tmp_path, "size: 1")) == box
    assert find_member(either, node(tmp_path, "size: {width: 2}")) == box
    assert find_member(either, node(tmp_path, "size: [1]")) is None
    assert find_member(either, node(tmp_path, "size: null")) is None


def test_a_stage_of_the_users_own(tmp_path: Path) -> None:
    file = write(tmp_path, f"stages:\n{EXPORT}  own: {{uses: ./own.py:f, needs: export, with: {{level: 2}}}}\n")
    tmp_path.joinpath("own.py").write_text(
        "def f(context, *, level: int, path: FilePath = 'model.onnx', way: Code = 'code.py:load'): ...\n",
        encoding="utf-8",
    )
    pipeline = load(file)
    stage = pipeline.stage("own")
    assert stage.params == {"level": 2, "path": "model.onnx", "way": "code.py:load"}
    assert stage.references == (
        Reference("uses", "./own.py", "f"),
        Reference("path", "model.onnx"),
        Reference("way", "code.py", "load"),
    )
    use = pipeline.kinds["./own.py:f"]
    assert (use.origin, use.entry, use.spec.metrics) == ("file", "./own.py:f", None)
    assert set(pipeline.sources) == {str(file), str(tmp_path / "own.py")}


LATENCY = f"""\
stages:
{EXPORT}\
  latency:
    uses: measure/latency
    needs: {{model: export, reference: export}}
    gate:
"""


@pytest.mark.parametrize(
    ("rule", "written", "threshold"),
    [
        ("max", "12ms", Threshold(0.012, False, "12ms", "s")),
        ("max", "300 MB", Threshold(300e6, False, "300 MB", "B")),
        ("min", "97%", Threshold(0.97, False, "97%", "ratio")),
        ("min", "1.5x", Threshold(1.5, False, "1.5x", "x")),
        ("min", "-1", Threshold(-1.0, False, "-1", "")),
        ("min", "81.2/s", Threshold(81.2, False, "81.2/s", "1/s")),
        ("max", "20mJ", Threshold(0.02, False, "20mJ", "J")),
        ("max_increase", "1.5J", Threshold(1.5, False, "1.5J", "J")),
        ("max_drop", "5 /s", Threshold(5.0, False, "5 /s", "1/s")),
        ("max_regression", "5%", Threshold(0.05, True, "5%", "ratio")),
        ("max_increase", "2ms", Threshold(0.002, False, "2ms", "s")),
        ("max_drop", "1e-3", Threshold(0.001, False, "1e-3", "")),
        ("min_speedup", "1.5x", Threshold(1.5, False, "1.5x", "x")),
        ("min_speedup", "2", Threshold(2.0, False, "2", "")),
    ],
)
def test_thresholds(rule: str, written: str, threshold: Threshold, tmp_path: Path) -> None:
    """Of a kind whose metrics have no known unit, so that any will do."""
    write(tmp_path, "")
    tmp_path.joinpath("own.py").write_text(
        "import orun\n\n\n"
        "@orun.stage(inputs={'model': 'onnx', 'reference': 'onnx'}, output='metrics')\n"
        "def f(context): ...\n"
    )
    own = f"stages:\n{EXPORT}  own:\n    uses: ./own.py:f\n    needs: {{model: export, reference: export}}\n"
    (gate,) = iter_gates(loaded(tmp_path, f"{own}    gate: {{mine: {{{rule}: {written}}}}}\n").stage("own").gates)
    assert (gate.metric, gate.rule, gate.threshold, gate.undecided) == ("mine", rule, threshold, "block")


def test_what_narrows_a_gate(tmp_path: Path) -> None:
    """Rules that are against a reference are so against each that is named; the others are as they are."""
    text = (
        f"targets:\n  box: {{providers: [CPUExecutionProvider]}}\nstages:\n{EXPORT}  latency:\n"
        "    uses: measure/latency\n    needs: {model: export, reference: export, reference.old: export}\n"
        "    matrix: {on: [cpu, box]}\n    with: {target: '${matrix.on}'}\n"
        "    gate:\n"
        "      p50: {max: 1s, min_speedup: 2, against: [old, reference]}\n"
        "      any: [p90: {max: 1s, target: box}, {p99: {max: 2s}, mean: {max: 1s}}]\n"
    )
    pipeline = loaded(tmp_path, text)

    def message(stage: str) -> list[str]:
        return [
            f"{condition.metric} {condition.rule}{condition.scope}"
            for condition in iter_gates(pipeline.stage(stage).gates)
        ]

    common = ["p50 max", "p50 min_speedup against old", "p50 min_speedup"]
    assert message("latency[on=cpu]") == [*common, "p99 max", "mean max"]
    assert message("latency[on=box]") == [*common, "p90 max", "p99 max", "mean max"]
    group = pipeline.stage("latency[on=box]").gates[-1]
    assert isinstance(group, Group)
    inner = group.members[1]
    assert isinstance(inner, Group)
    assert (group.rule, len(group.members), inner.rule, len(inner.members)) == ("any", 2, "all", 2)


@pytest.mark.parametrize(
    ("gates", "samples"),
    [
        ("{p50: {max: 12ms}}", None),
        ("{p90: {max_regression: 5%}}", None),
        ("{p90: {max: 12ms}}", 139),
        ("{any: [p90: {max: 12ms}, all: [p99: {max: 20ms}]]}", 1522),
    ],
)
def test_a_gate_on_a_quantile_takes_the_samples_that_it_needs(gates: str, samples: int | None, tmp_path: Path) -> None:
    text = f"stages:\n{EXPORT}  latency:\n    uses: measure/latency\n    needs: export\n    gate: {gates}\n"
    assert loaded(tmp_path, text).stage("latency").params["samples"] == samples
    text += "    with: {samples: 50}\n"
    assert loaded(tmp_path, text).stage("latency").params["samples"] == 50


def test_one_gate_for_each_rule_in_file_order(tmp_path: Path) -> None:
    text = f"{LATENCY}      p90: {{max: 1s, undecided: fail, min: 1ms}}\n      p50: {{max: 2s}}\n"
    file = str(tmp_path / "p.yaml")
    assert loaded(tmp_path, text).stage("latency").gates == (
        Gate("p90", "max", Threshold(1.0, False, "1s", "s"), "fail", Position(file, 7, 13)),
        Gate("p90", "min", Threshold(0.001, False, "1ms", "s"), "fail", Position(file, 7, 39)),
        Gate("p50", "max", Threshold(2.0, False, "2s", "s"), "block", Position(file, 8, 13)),
    )


def test_the_target_cpu_is_there_without_being_named(tmp_path: Path) -> None:
    text = f"stages:\n{EXPORT}  l: {{uses: measure/latency, needs: export, with: {{target: cpu}}}}\n"
    assert loaded(tmp_path, text).stage("l").target == Target("cpu")


def test_a_target_has_its_providers_and_session_options(tmp_path: Path) -> None:
    text = f"""\
targets:
  gpu:
    providers:
      - TensorrtExecutionProvider: {{trt_fp16_enable: true, trt_max_workspace_size: 1073741824}}
      - CoreMLExecutionProvider: {{RequireStaticInputShapes: true}}
      - VitisAIExecutionProvider: {{anything: goes}}
      - CPUExecutionProvider
    session:
      intra_op_num_threads: 2.0
      enable_mem_pattern: false
      graph_optimization_level: extended
      session.intra_op.allow_spinning: 0
      ep.context_enable: true
      free_dimension_overrides: {{batch: 1}}
    fallback: forbid-cpu
    missing: skip
stages:
{EXPORT}\
  l: {{uses: measure/latency, needs: export, with: {{target: gpu}}}}
"""
    assert loaded(tmp_path, text).stage("l").target == Target(
        "gpu",
        (
            Provider("TensorrtExecutionProvider", {"trt_fp16_enable": "true", "trt_max_workspace_size": "1073741824"}),
            Provider("CoreMLExecutionProvider", {"RequireStaticInputShapes": "1"}),
            Provider("VitisAIExecutionProvider", {"anything": "goes"}),
            Provider("CPUExecutionProvider"),
        ),
        {
            "intra_op_num_threads": 2,
            "enable_mem_pattern": False,
            "graph_optimization_level": "extended",
            "session.intra_op.allow_spinning": "0",
            "ep.context_enable": True,
            "free_dimension_overrides": {"batch": 1},
        },
        "forbid-cpu",
        "skip",
    )


def test_a_bad_stage_does_not_hide_what_is_wrong_with_those_after_it(tmp_path: Path) -> None:
    message = complaint(
        tmp_path,
        "stages:\n"
        "  a: {uses: nothing/such}\n"
        "  b: {uses: optimize/simplify, needs: a, with: {rtol: high}}\n"
        "  c: text\n"
        "  d: {uses: optimize/simplify, needs: c, with: {skp: []}}\n"
        "  e: {uses: quantize/dynamic, needs: f, timeout: soon}\n",
    )
    assert [line.partition(" error: ")[2] for line in message.splitlines() if " error: " in line] == [
        "there is no kind of stage 'nothing/such'",
        "'rtol' cannot be 'high'",
        "'c' cannot be 'text'",
        "'skp' is not a parameter of optimize/simplify",
        "there is no stage 'f'",
        "'timeout' cannot be 'soon'",
    ]


def test_needs_may_be_empty(tmp_path: Path) -> None:
    pipeline = loaded(tmp_path, "stages:\n  a: {uses: convert/onnx, needs: [], with: {path: model.onnx}}\n")
    assert pipeline.stage("a").upstream == ()


def test_a_stage_that_comes_after_one_that_feeds_it_needs_it_once(tmp_path: Path) -> None:
    text = (
        f"stages:\n{EXPORT}  r: {{uses: release/bundle, needs: [export, '${{matrix.a}}'], matrix: {{a: [export]}}}}\n"
    )
    stage = loaded(tmp_path, text).stage("r[a=export]")
    assert (stage.after, stage.upstream) == (("export",), ("export",))


@pytest.mark.parametrize("needs", ["[]", "{}", "{reference: export}"])
def test_an_input_that_must_be_connected(needs: str, tmp_path: Path) -> None:
    message = complaint(tmp_path, f"stages:\n{EXPORT}  l: {{uses: measure/latency, needs: {needs}}}\n")
    assert message.splitlines()[0] == "p.yaml:3:30: error: the input 'model' of measure/latency is not connected"


def test_two_names_for_one_mistake_are_one_problem(tmp_path: Path) -> None:
    write(tmp_path, "stages: [", "base.yaml")
    write(tmp_path, "extends: base.yaml\n", "left.yaml")
    assert complaint(tmp_path, "extends: [left.yaml, base.yaml]\n").count("error:") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: -1", "'seed' cannot be -1"),
        ("seed: 4294967296", "'seed' cannot be 4294967296"),
        ("stages: {a: {uses: convert/onnx, with: {path: model.onnx}, timeout: -1s}}", "'timeout' cannot be '-1s'"),
        ("vars: [1]", "'vars' cannot be a list"),
        ('name: "a\\0b"', "the text holds a NUL character"),
        ("targets: {t: {providers: [OpenVino: {}]}}", "'OpenVino' is not an execution provider of ONNX Runtime"),
        (
            "stages: {a: {uses: convert/onnx, with: {path: " + "x" * 300 + "}}}",
            "there is no file or folder '" + "x" * 300 + "'",
        ),
        ("stages: {a: {uses: " + "x" * 300 + ".py:f}}", "there is no code file '" + "x" * 300 + ".py'"),
        ("targets: {cpu: 5}", "'cpu' cannot be 5"),
        ("stages: {a: {uses: '${vars.x}'}}", "there is no variable 'x'"),
        ("stages: {a: {uses: convert/onnx, with: '${vars.x}'}}", "there is no variable 'x'"),
        ("stages: {a: {uses: optimize/simplify, needs: '${vars.x}'}}", "there is no variable 'x'"),
        (
            "stages: {a: {uses: optimize/simplify, needs: a, gate: {size: {max: '${vars.x}'}}}}",
            "there is no variable 'x'",
        ),
    ],
)
def test_what_is_wrong_is_told_and_nothing_falls_over(text: str, message: str, tmp_path: Path) -> None:
    assert f" error: {message}\n" in complaint(tmp_path, text + "\n")


def simplify_inputs(folder: Path, inputs: str) -> object:
    text = f"stages:\n{EXPORT}  s: {{uses: optimize/simplify, needs: export, with: {{inputs: {inputs}}}}}\n"
    return loaded(folder, text).stage("s").params["inputs"]


def test_inputs_are_a_dataset_or_what_inputs_take(tmp_path: Path) -> None:
    """A mapping with a path is a dataset in files; any other says what inputs take, also one whose name is `path`."""
    assert simplify_inputs(tmp_path, "code.py:pairs") == "code.py:pairs"
    read = simplify_inputs(tmp_path, "{path: model.onnx, labels: y}")
    assert isinstance(read, dict)
    assert (read["path"], read["labels"]) == ("model.onnx", "y")
    assert simplify_inputs(tmp_path, "{mask: {fill: right-padded}, path: {low: 0, high: 9}}") == {
        "mask": {"low": None, "high": None, "fill": "right-padded"},
        "path": {"low": 0.0, "high": 9.0, "fill": "random"},
    }


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("{mask: {fil: mask}}", "'fil' is not a key"),
        ("{mask: {fill: left}}", "'fill' cannot be 'left'"),
        ("{pth: model.onnx}", "'pth' is not a key"),
        ("{path: model.onnx, lables: y}", "'lables' is not a key"),
    ],
)
def test_mistakes_in_inputs_are_those_of_the_form_that_was_meant(tmp_path: Path, inputs: str, message: str) -> None:
    text = f"stages:\n{EXPORT}  s: {{uses: optimize/simplify, needs: export, with: {{inputs: {inputs}}}}}\n"
    assert message in complaint(tmp_path, text)


def slices_with_gate(gate: str, dataset: str = "{path: t.csv, labels: outcome, classes: [bad, good]}") -> str:
    return (
        f"stages:\n{EXPORT}"
        f"  a:\n    uses: measure/accuracy\n    needs: export\n"
        f"    with: {{dataset: {dataset}, metrics: [f1], slices: [sex, label]}}\n"
        f"    gate:\n      {gate}: {{min: 50%}}\n"
    )


@pytest.mark.parametrize(
    ("written", "metric"),
    [
        ("f1[label=bad]", "f1[label=0]"),
        ("f1[label=good]", "f1[label=1]"),
        ("f1[label=1]", "f1[label=1]"),
        ("f1[sex=bad]", "f1[sex=bad]"),
        ("f1", "f1"),
    ],
)
def test_a_gate_names_a_slice_by_its_class_or_number(tmp_path: Path, written: str, metric: str) -> None:
    tmp_path.joinpath("t.csv").write_text("outcome,sex,label\n", encoding="utf-8")
    assert [gate.metric for gate in iter_gates(loaded(tmp_path, slices_with_gate(written)).stage("a").gates)] == [
        metric
    ]


@pytest.mark.parametrize(
    "dataset", ["code.py:pairs", "t.csv", "{path: t.csv, labels: outcome, fields: [label], classes: [bad, good]}"]
)
def test_labels_without_classes_are_named_as_they_are(tmp_path: Path, dataset: str) -> None:
    tmp_path.joinpath("t.csv").write_text("outcome,sex,label\n", encoding="utf-8")
    pipeline = loaded(tmp_path, slices_with_gate("f1[label=bad]", dataset))
    assert [gate.metric for gate in iter_gates(pipeline.stage("a").gates)] == ["f1[label=bad]"]


@pytest.mark.parametrize("name", ["goad", "2"])
def test_a_gate_on_a_class_that_the_dataset_does_not_name_is_refused(tmp_path: Path, name: str) -> None:
    tmp_path.joinpath("t.csv").write_text("outcome,sex\n", encoding="utf-8")
    assert complaint(tmp_path, slices_with_gate(f"f1[label={name}]")) == (
        f"p.yaml:8:7: error: the `classes` of the dataset have no {name!r}\n"
        f"    8 |       f1[label={name}]: {{min: 50%}}\n"
        f"      |       {'^' * len(f'f1[label={name}]')}\n"
        "  expected: bad or good"
    )
