"""`orun init`: from a model to judged gates in two commands."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from orun import api
from orun.environment import distributions
from orun.scaffold.ci import format_workflow
from tests.project import install_hint

from .conftest import CommandLine


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of two matrix products in an empty folder, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    shapes = {"first": (64, 256), "second": (256, 64)}
    weights = [
        numpy_helper.from_array(random.normal(size=shape).astype(np.float32) / 10, name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "second"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "mlp.onnx")
    return tmp_path / "mlp.onnx"


@pytest.mark.slow
def test_two_commands_lead_from_a_model_to_judged_gates(model: Path, orun: CommandLine) -> None:
    written = orun("init", "mlp.onnx", "--ci", "github")
    assert written.code == 0, written.err
    lines = written.out.splitlines()
    assert re.fullmatch(r"measured: 131 kB -> [\d.]+ kB, p50 [\d.]+ µs, [\d.]+x as fast, cosine 0\.\d+", lines[0])
    assert lines[-5].startswith("wrote mlp.yaml: 7 stages, ")
    assert lines[-4:] == [
        "examples are made up: fill in mlp_data.py",
        "wrote .github/workflows/mlp.yml",
        (
            "it installs requirements.txt, which is not there yet: `orun[cpu] @ git+https://github.com/OWNER/orun`, "
            "or a wheel of it; and what `orun doctor mlp.yaml` lists"
        ),
        "next: orun mlp.yaml",
    ]
    assert orun("diff").err.splitlines()[1] == "  the store has no run that has ended, besides those of orun init"
    assert written.err.splitlines()[0] == "mlp.onnx: building once, to measure what its gates can ask for"
    pipeline = api.load(model.with_suffix(".yaml"))
    assert [stage.uses for stage in pipeline.stages] == [
        "convert/onnx", "optimize/simplify", "quantize/dynamic", "measure/accuracy", "measure/latency", "release/card",
        "release/bundle",
    ]  # fmt: skip
    result = api.run(model.with_suffix(".yaml"))
    judged = {verdict.title.partition(" max_regression")[0].rsplit(" ", 2)[0] for verdict in result.verdicts}
    assert {"int8 size", "accuracy cosine.mean", "accuracy cosine.min"} <= judged
    assert {verdict.outcome for verdict in result.verdicts} <= {"passed", "no baseline"}
    measured = [stage.outcome for stage in result.stages if stage.stage not in ("card", "release")]
    assert measured == ["cached"] * 5  # what `init` measured is not measured again
    with_data = api.run(model.with_suffix(".yaml"), set={"vars.data": "mlp_data.py:examples"}, to=["accuracy"])
    assert with_data["accuracy"].outcome == "built"  # the stub yields what the model takes
    assert "orun mlp.yaml --keep-going" in (model.parent / ".github/workflows/mlp.yml").read_text()


def test_a_dry_run_writes_nothing(model: Path, orun: CommandLine) -> None:
    printed = orun("init", "mlp.onnx", "--dry-run", "--goal", "size<100kB, cosine>0.9, p50 < 1ms")
    assert printed.code == 0, printed.err
    assert "    uses: convert/onnx\n    with: {path: mlp.onnx}\n" in printed.out
    assert "    uses: quantize/tune\n" in printed.out
    assert "      metric: cosine.mean\n      at_least: 0.9\n      objective: latency\n" in printed.out
    assert "      size: {max: 100kB}\n" in printed.out
    assert "      cosine.mean: {min: 0.9}\n" in printed.out
    assert "      p50: {max: 1ms}\n" in printed.out
    assert "  data: mlp_data.py:examples\n" in printed.out
    assert [path.name for path in model.parent.iterdir()] == ["mlp.onnx"]


@pytest.mark.slow
def test_a_target_with_other_providers(model: Path, orun: CommandLine) -> None:
    del model
    printed = orun("init", "mlp.onnx", "--dry-run", "--target", "trt").out
    assert (
        "  tensorrt:\n"
        "    providers: [{TensorrtExecutionProvider: {trt_fp16_enable: true}}, CUDAExecutionProvider, "
        "CPUExecutionProvider]\n"
        "    missing: skip   # on machines without it, stages that need it are skipped\n"
    ) in printed
    assert "    uses: optimize/float16\n" in printed


@pytest.mark.slow
def test_stages_that_this_machine_skips_are_told(model: Path, orun: CommandLine) -> None:
    """The summary only lacked their figures."""
    del model
    lines = orun("init", "mlp.onnx", "--target", "dml").out.splitlines()
    skipped = "note: latency, card, release skipped: target dml: DmlExecutionProvider does not load on this machine ("
    assert lines[1].startswith(skipped)
    assert lines[2:] == [
        "wrote mlp.yaml: 7 stages, 4 gates",
        "examples are made up: fill in mlp_data.py",
        "next: orun mlp.yaml",
    ]
    orun("mlp.yaml")
    assert (
        orun("verify", "artifacts/out/mlp/release")
        .err.splitlines()[2]
        .startswith("  skipped: target dml: DmlExecutionProvider does not load on this machine")
    )


def test_a_file_that_is_there_is_not_replaced(model: Path, orun: CommandLine) -> None:
    model.with_suffix(".yaml").write_text("mine")
    refused = orun("init", "mlp.onnx")
    assert (refused.code, refused.err) == (
        2,
        "error: mlp.yaml is there already\n  hint: orun mlp.yaml; or write another: the same command with -o FILE\n",
    )
    assert model.with_suffix(".yaml").read_text() == "mine"


def test_a_place_that_cannot_be_written_is_told_before_the_model_is_read(model: Path, orun: CommandLine) -> None:
    """It ended as a bug of orun, after the model was read."""
    (model.parent / ".github").touch()
    workflow = model.parent / ".github" / "workflows" / "mlp.yml"
    for options, message in {
        ("-o", "mlp.onnx/mlp.yaml"): "mlp.onnx/mlp.yaml cannot be written\n  mlp.onnx is a file, not a folder\n",
        ("--ci", "github"): f"{workflow} cannot be written\n  .github is a file, not a folder\n",
    }.items():
        refused = orun("init", "mlp.onnx", *options)
        assert (refused.code, refused.out, refused.err) == (2, "", f"error: {message}")
    assert sorted(path.name for path in model.parent.iterdir()) == [".github", "mlp.onnx"]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline file that was written by hand, in a repository that is the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "requirements.txt").touch()
    file = tmp_path / "models" / "words.yaml"
    file.parent.mkdir()
    code = 'from orun import stage\n\n@stage(inputs={}, output="files")\ndef make(context): ...\n'
    (file.parent / "own.py").write_text(code)
    file.write_text("name: words-3\nstages: {make: {uses: ./own.py:make}}\n")
    return file


def list_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("system", "workflow"), [("github", ".github/workflows/words-3.yml"), ("gitlab", ".gitlab-ci.yml")]
)
def test_a_workflow_for_a_pipeline_that_exists(
    written: Path, orun: CommandLine, tmp_path: Path, system: str, workflow: str
) -> None:
    """It came with a new pipeline only; for one that was written by hand it had to be copied from the docs."""
    before = list_files(tmp_path)
    expected = format_workflow("github" if system == "github" else "gitlab", written, "words-3")
    shown = orun("init", "models/words.yaml", "--ci", system)
    assert (shown.code, shown.out, shown.err) == (0, f"wrote {workflow}\n", "")
    after = list_files(tmp_path)
    text = after.pop(workflow).decode()
    assert after == before
    assert text == expected
    assert "orun models/words.yaml --keep-going --reports reports" in text


def test_a_workflow_for_a_pipeline_is_printed_by_a_dry_run(written: Path, orun: CommandLine, tmp_path: Path) -> None:
    before = list_files(tmp_path)
    shown = orun("init", "--ci", "github", "models/words.yaml", "--dry-run", "-y")
    assert (shown.code, shown.out) == (0, format_workflow("github", written, "words-3"))
    assert list_files(tmp_path) == before


def test_a_workflow_of_a_file_without_a_name_is_called_like_the_file(
    written: Path, orun: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "my words.v2.yml").write_text("stages: {make: {uses: ./models/own.py:make}}\n")
    del written
    assert orun("init", "my words.v2.yml", "--ci", "github").out == "wrote .github/workflows/my-words-v2.yml\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["models/words.yaml"],
            (
                "models/words.yaml is a pipeline file, and init writes one for a model\n"
                "  hint: its workflow: orun init models/words.yaml --ci github; to run it: orun models/words.yaml"
            ),
        ),
        (
            ["models/words.yaml", "--ci", "gitlab", "--goal", "size<1MB", "--target", "cpu", "-o", "other.yaml"],
            (
                "--output, --goal, --target: of no use for a workflow, and models/words.yaml stays as it is\n"
                "  hint: orun init models/words.yaml --ci gitlab"
            ),
        ),
        (
            ["wrods.yaml", "--ci", "github"],
            (
                "cannot read the pipeline file wrods.yaml: No such file or directory\n"
                "  hint: to write one for a model: orun init MODEL"
            ),
        ),
    ],
)
def test_what_makes_no_sense_with_a_pipeline_that_exists(
    written: Path, orun: CommandLine, tmp_path: Path, arguments: list[str], message: str
) -> None:
    del written
    before = list_files(tmp_path)
    refused = orun("init", *arguments)
    assert (refused.code, refused.out, refused.err) == (2, "", f"error: {message}\n")
    assert list_files(tmp_path) == before


def test_a_workflow_for_a_wrong_file_is_refused(written: Path, orun: CommandLine, tmp_path: Path) -> None:
    written.write_text("stages: {make: {uses: ./own.py:mak}}\n")
    refused = orun("init", "models/words.yaml", "--ci", "github")
    assert (refused.code, refused.err.splitlines()[0]) == (
        2,
        "models/words.yaml:1:23: error: own.py has no function 'mak'",
    )
    assert not (tmp_path / ".github").exists()


def test_a_workflow_that_is_there_is_not_replaced(written: Path, orun: CommandLine, tmp_path: Path) -> None:
    assert orun("init", "models/words.yaml", "--ci", "github").code == 0
    refused = orun("init", "models/words.yaml", "--ci", "github")
    workflow = tmp_path / ".github" / "workflows" / "words-3.yml"
    assert (refused.code, refused.err) == (2, f"error: {workflow} is there already\n  hint: move it away\n")
    del written


NAMED = "hint: name a model: a file, a folder, or file.py:function"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.onnx"], ["there is no none.onnx", NAMED]),
        (
            ["https://huggingface.co/google/vit-base"],
            [
                "there is no https://huggingface.co/google/vit-base",
                f"{NAMED}; from the Hugging Face hub: hf download google/vit-base --local-dir vit-base",
            ],
        ),
        (
            ["forest.joblib"],
            [
                "forest.joblib was not read: it is a pickle, which can run any code",
                "hint: if you know where it comes from: the same command with --trust",
            ],
        ),
        (
            ["net.py:load"],
            [
                "net.py:load does not say what it takes",
                "its forward has the parameters input, and PyTorch keeps no shapes",
                "hint: the same command with --input 'input=float32[batch,...]'",
            ],
        ),
        (
            ["net.py:load", "--input", "input=floot32[batch,4]"],
            [
                "the input 'input' has an unknown type 'floot32'",
                "did you mean float32?",
            ],
        ),
        pytest.param(
            ["net.py:load", "--input", "input=float32[batch,3]"],
            [
                "net.py:load cannot be called with input float32[batch, 3]",
                "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x2)",
                "hint: declare the types and axes that it takes: --input 'NAME=float32[batch,...]'",
            ],
            marks=pytest.mark.slow,
        ),
        (
            ["net.py:other"],
            ["net.py has no function 'other'", "it has load", "hint: orun init net.py:load"],
        ),
        (
            ["net.weights.h5"],
            [
                "net.weights.h5 is not a whole model",
                "it holds weights without the layers that use them",
                "hint: save it all: model.save('model.keras')",
            ],
        ),
        (
            ["wide.py:Wide"],
            [
                "wide.py:Wide needs arguments, and orun has none to give",
                "hint: write a function that passes them: def load(): return Wide(...); then: orun init wide.py:load",
            ],
        ),
        (
            ["wide.py:load"],
            ["wide.py has no function 'load'", "it has make, Wide", "hint: orun init wide.py:make"],
        ),
        (["broken.py:load"], ["broken.py:1:10: Python cannot parse this: invalid syntax", "def load(:"]),
        (
            ["net.py"],
            ["net.py does not say which function returns the model", "it has load", "hint: orun init net.py:load"],
        ),
        (
            ["text.onnx"],
            [
                "text.onnx is not an ONNX model",
                "it is a text file, which begins with 'this is no model'",
                "hint: name a file that an exporter wrote",
            ],
        ),
        (
            ["bert"],
            [
                "bert has no weights",
                "expected model.safetensors or pytorch_model.bin beside its config.json",
                "hint: git lfs pull, or copy them there: ls bert",
            ],
        ),
        (
            ["text.onnx", "--target", "cudda"],
            ["no target 'cudda'", "did you mean cuda?", "hint: orun doctor lists the providers of this machine"],
        ),
        (
            ["text.onnx", "--goal", "accuracy>0.9"],
            [
                "the goal on accuracy needs labels",
                "examples that are made up have none",
                "hint: name examples with labels: --data data.py:examples",
            ],
        ),
        ([], ["MODEL is missing", "hint: orun init text.onnx; a custom stage: orun init --stage ops.py"]),
    ],
)
def test_models_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orun: CommandLine, arguments: list[str], message: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("forest.joblib").write_bytes(b"")
    Path("text.onnx").write_text("this is no model")
    Path("net.py").write_text("def load():\n    import torch\n\n    return torch.nn.Linear(2, 2)\n")
    Path("wide.py").write_text("class Wide:\n    def __init__(self, width):\n        pass\n\n\ndef make(): ...\n")
    Path("broken.py").write_text("def load(:\n")
    Path("net.weights.h5").touch()
    Path("bert").mkdir()
    Path("bert/config.json").write_text('{"model_type": "bert"}')
    refused = orun("init", *arguments)
    assert (refused.code, refused.err) == (2, "error: " + "\n  ".join(message) + "\n")
    assert not list(tmp_path.glob("*.yaml"))


def test_a_package_that_reads_models_is_named_with_its_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orun: CommandLine
) -> None:
    """The module was named, and a hint on the model."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("def load():\n    raise ModuleNotFoundError(name='sklearn.tree')\n")
    assert orun("init", "net.py:load").err == (
        f"error: reading net.py:load needs scikit-learn, which is not installed\n  hint: {install_hint('sklearn')}\n"
    )


def test_a_search_without_its_package_is_refused_at_once(
    model: Path, monkeypatch: pytest.MonkeyPatch, orun: CommandLine
) -> None:
    there = {name: text for name, text in distributions.list_exact().items() if name != "optuna"}
    monkeypatch.setattr(distributions, "list_exact", lambda: there)
    assert orun("init", "mlp.onnx", "--goal", "size<1MB").err == (
        "error: the search for a model that reaches a goal needs optuna, which is not installed\n"
        f"  hint: {install_hint('tune')}\n"
    )
    assert [path.name for path in model.parent.iterdir()] == ["mlp.onnx"]


@pytest.mark.slow
def test_a_stage_that_fails_leaves_the_file_to_be_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orun: CommandLine
) -> None:
    monkeypatch.chdir(tmp_path)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], unheard_of=1)], "graph", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "odd.onnx")
    refused = orun("init", "odd.onnx", "-o", "sub/odd.yaml")
    assert refused.code == 3
    assert "error: stage import: " in refused.err
    assert refused.err.endswith(
        "  hint: Run it alone: orun sub/odd.yaml --only import\n  hint: Edit sub/odd.yaml, which has no gates yet, "
        "then: orun sub/odd.yaml. Or mend the model, then: rm sub/odd.yaml, and the same command again\n"
    )
    assert sorted(path.name for path in (tmp_path / "sub").iterdir()) == ["artifacts", "odd.yaml", "odd_data.py"]


def test_a_model_instead_of_a_pipeline_file(model: Path, orun: CommandLine) -> None:
    del model
    refused = orun("mlp.onnx")
    assert (refused.code, refused.err) == (
        2,
        "error: mlp.onnx is a model, not a pipeline file\n  hint: to write a pipeline for it: orun init mlp.onnx\n",
    )


def test_a_terminal_is_asked(model: Path) -> None:
    """`orun mlp.onnx` in a terminal offers `init`."""
    leader, follower = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | {"NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "orun", "mlp.onnx", "--dry-run"],
        stdin=follower, stdout=subprocess.PIPE, stderr=follower, env=environment, cwd=model.parent,
    )  # fmt: skip
    os.write(leader, b"y\n")
    out, _ = process.communicate(timeout=120)
    os.close(follower)
    os.close(leader)
    assert process.returncode == 0
    assert b"uses: quantize/dynamic" in out


def test_a_template_of_a_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orun: CommandLine) -> None:
    monkeypatch.chdir(tmp_path)
    written = orun("init", "--stage", "ops.py:count")
    assert (written.code, written.out) == (
        0,
        "wrote ops.py\nnext: orun test ./ops.py:count; then `uses: ./ops.py:count` in a pipeline file\n",
    )
    assert "metrics: nodes, weights" in orun("stages", "./ops.py:count").out
    again = orun("init", "--stage", "ops.py:count")
    assert again.err.splitlines()[0] == "error: ops.py is there already"


def test_a_template_of_a_stage_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orun: CommandLine) -> None:
    """The command is quoted for a shell, the line of the file is not."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name, reference in (
        (f"{tmp_path}/ops.py", f"{tmp_path}/ops.py:count"),
        (f"{tmp_path}/here/ops.py", "./ops.py:count"),
        ("../more.py", "../more.py:count"),
    ):
        outcome = orun("init", "--stage", f"{name}:count")
        assert outcome.out.splitlines()[1] == (
            f"next: orun test {reference}; then `uses: {reference}` in a pipeline file"
        )
        assert orun("stages", reference).code == 0
    outcome = orun("init", "--stage", "my ops.py:count")
    assert outcome.out.splitlines()[1] == (
        "next: orun test './my ops.py:count'; then `uses: ./my ops.py:count` in a pipeline file"
    )


@pytest.mark.usefixtures("model")
def test_the_dialogue(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import click

    from orun.cli.init_dialogue import Answers, ask

    typed = iter(["none.py:f", "", "size>1MB", "accuracy>0.9", "size<1MB", "nowhere", "gitlab"])
    monkeypatch.setattr(click.termui, "visible_prompt_func", lambda _: next(typed))
    facts, answers = ask("mlp.onnx", Path(), [], Answers(), trust=False)
    assert facts.title == "ONNX, 131 kB, 32,768 parameters, operator set 17"
    assert answers == Answers("size<1MB", "", "gitlab")
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("Error")] == [
        "Error: there is no none.py",
        "Error: size is better when it is smaller",
        "Error: the goal on accuracy needs labels",
        "Error: 'nowhere' is not one of 'none', 'github', 'gitlab'.",
    ]


@pytest.mark.slow
def test_the_dialogue_asks_for_the_inputs_of_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its complaints spoke of options."""
    import click

    from orun.cli.init_dialogue import Answers, ask

    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("def load():\n    import torch\n\n    return torch.nn.Linear(2, 2)\n")
    typed = iter(["floot32[batch,2]", "float32[batch,2", "float32[batch,2]", "", "", "none"])
    monkeypatch.setattr(click.termui, "visible_prompt_func", lambda _: next(typed))
    facts, _ = ask("net.py:load", Path(), [], Answers(), trust=False)
    assert [str(item) for item in facts.inputs] == ["input float32[batch, 2]"]
    assert capsys.readouterr().err == (
        "net.py:load does not say what it takes: name the type and the axes of each, such as float32[batch,3,224,224]\n"
        "Error: 'floot32[batch,2]' is not a type with its axes, such as float32[batch,3,224,224]\n"
        "  did you mean float32?\n"
        "Error: 'float32[batch,2' is not a type with its axes, such as float32[batch,3,224,224]\n"
        "PyTorch\n"
    )
