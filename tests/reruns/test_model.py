"""A model, its calibration and its judges: one thing changes at a time, and exactly these stages run again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import orun
from orun.core.run_record import RunResult
from orun.environment import distributions
from tests.facts import describe_reasons
from tests.project import Project, built, outcomes

ROOT = Path(__file__).parents[2]
STAGES = ["take", "int8", "size", "accuracy"]
PIPELINE = """
name: model
stages:
  take: {uses: convert/onnx, with: {path: model/net.onnx}}
  int8: {uses: quantize/static, needs: take, with: {dataset: calibration.py:typical, samples: 16}}
  size: {uses: measure/size, needs: int8}
  accuracy:
    uses: measure/accuracy
    needs: {model: int8, reference: take}
    with: {dataset: judges.py:examples, metrics: [accuracy], samples: 30}
"""
SLIM = """
name: slim
stages:
  take: {uses: convert/onnx, with: {path: net.onnx}}
  slim: {uses: optimize/simplify, needs: take, with: {tool: onnxslim}}
  other: {uses: optimize/simplify, needs: take}
"""
CALIBRATION = """
import numpy as np

import orun


def typical():
    return orun.Dataset({"x": np.linspace(-1, 1, 32 * 8, dtype=np.float32).reshape(32, 8)})
"""
JUDGES = """
from pathlib import Path

import numpy as np

import orun


def examples():
    images = np.random.default_rng(1).standard_normal((32, 8)).astype(np.float32)
    return orun.Dataset({"x": images}, np.load(Path(__file__).with_name("labels.npy")))
"""


def write_model(folder: Path, seed: int = 0) -> None:
    """A linear classifier of 8 values, whose weights lie in a file of their own."""
    weights = np.random.default_rng(seed).standard_normal((8, 4), dtype=np.float32)
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 8), ("y", 4))
    ]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)])
    onnx.save(model, folder / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)


def write(folder: Path) -> Project:
    """The project's files in a new folder, which has a folder for its store beside it."""
    project = Project(folder, folder.parent / "store")
    (folder / "model").mkdir(parents=True)
    write_model(folder / "model")
    np.save(folder / "labels.npy", np.arange(32) % 4)
    for name, text in (("pipeline.yaml", PIPELINE), ("calibration.py", CALIBRATION), ("judges.py", JUDGES)):
        project.write(name, text)
    project.write("model/README.md", "what it is")
    project.write("model/notes.txt", "beside it")
    return project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """All of it is up to date before each test, and each leaves its files as they were."""
    project = write(tmp_path_factory.mktemp("reruns") / "project")
    assert built(project.run()) == STAGES
    return project


@contextmanager
def changed(project: Project, change: Callable[[Project], None]) -> Iterator[RunResult]:
    """What a run after a change came to, which is taken back at the end."""
    kept = project.folder.parent / "kept"
    shutil.copytree(project.folder, kept)
    change(project)
    yield project.run()
    shutil.rmtree(project.folder)
    kept.rename(project.folder)


def edit(name: str, old: str, new: str) -> Callable[[Project], None]:
    return lambda project: project.edit(name, old, new)


def flip_a_bit(project: Project) -> None:
    path = project.folder / "model" / "net.data"
    data = bytearray(path.read_bytes())
    data[0] ^= 1  # the last of the mantissa of one weight
    path.write_bytes(data)


def change_a_label(project: Project) -> None:
    labels = np.load(project.folder / "labels.npy")
    labels[0] += 1
    np.save(project.folder / "labels.npy", labels)


def rename(old: str, new: str) -> Callable[[Project], None]:
    def change(project: Project) -> None:
        (project.folder / old).rename(project.folder / new)
        text = (project.folder / "pipeline.yaml").read_text()
        (project.folder / "pipeline.yaml").write_text(text.replace(old, new))

    return change


def change_what_is_beside_the_model(project: Project) -> None:
    project.edit("model/README.md", "what", "how")
    rename("model/notes.txt", "model/more.txt")(project)


CHANGES: dict[str, tuple[Callable[[Project], None], list[str]]] = {
    "files beside the model": (change_what_is_beside_the_model, []),
    "the name of the model's file": (rename("model/net.onnx", "model/other.onnx"), ["take"]),
    "one bit of a weight": (flip_a_bit, ["take", "int8", "accuracy"]),
    "a label": (change_a_label, ["accuracy"]),
    "a metric more": (edit("pipeline.yaml", "[accuracy]", "[accuracy, cosine]"), ["accuracy"]),
    "the code of the calibration": (edit("calibration.py", "(-1, 1,", "(-2, 2,"), ["int8", "size", "accuracy"]),
    "how many examples calibrate": (edit("pipeline.yaml", "samples: 16", "samples: 8"), ["int8", "size", "accuracy"]),
    "a comment in the calibration": (edit("calibration.py", "import orun", "import orun  # why"), ["int8"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_runs_again(project: Project, change: str) -> None:
    act, expected = CHANGES[change]
    with changed(project, act) as result:
        assert built(result) == expected
        assert result.exit_code == 0


def test_nothing_runs_again_when_a_change_is_taken_back(project: Project) -> None:
    with changed(project, edit("judges.py", "default_rng(1)", "default_rng(2)")) as result:
        assert built(result) == ["accuracy"]
    result = project.run()
    assert outcomes(result) == dict.fromkeys(STAGES, "cached")
    assert {describe_reasons(stage.reasons) for stage in result.stages} == {("up to date",)}


RUN = """
import json, orun, sys
result = orun.run("pipeline.yaml", store=sys.argv[1])
from orun.text.wording.reasons import describe_reasons

print(json.dumps({stage.stage: [stage.outcome, *describe_reasons(stage.reasons)] for stage in result.stages}))
"""


def run_with(package: Path, project: Project) -> dict[str, list[str]]:
    """What became of each stage, and why, in a process that has orun from this folder."""
    process = subprocess.run(
        [sys.executable, "-c", RUN, str(project.store)],
        cwd=project.folder,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    outcomes: dict[str, list[str]] = json.loads(process.stdout)
    return outcomes


@pytest.mark.slow
def test_the_code_of_a_kind_reruns_its_stages(project: Project, tmp_path: Path) -> None:
    """With another copy of orun nothing runs; with another text of a kind or of what it imports, its stages do."""
    shutil.copytree(ROOT / "orun", tmp_path / "orun", ignore=shutil.ignore_patterns("__pycache__"))
    assert {outcome for outcome, *_ in run_with(tmp_path, project).values()} == {"cached"}
    for name in ("stages/measure/size.py", "measure/accuracy/task.py", "report/stages.py", "runner/runner.py"):
        add_a_line(tmp_path / "orun" / name)
    assert run_with(tmp_path, project) == {
        "take": ["cached", "up to date"],
        "int8": ["cached", "up to date"],
        "size": ["built", "the code of measure/size changed"],
        "accuracy": ["built", "the code of measure/accuracy changed"],
    }


def test_the_version_of_a_package_that_a_parameter_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tool of its kind, as most stages of it do without: as those that decode the examples of a dataset."""
    project = Project.make(tmp_path / "project", SLIM)
    write_model(project.folder)
    assert built(project.run()) == ["take", "slim", "other"]
    exact = distributions.list_exact()
    monkeypatch.setattr(distributions, "list_exact", lambda: {**exact, "onnxslim": "99.0"})
    steps = orun.plan(project.folder / "pipeline.yaml", store=project.store).steps
    assert {step.stage.id: describe_reasons(step.reasons) for step in steps} == {
        "take": ("up to date",),
        "slim": (f"package onnxslim: {exact['onnxslim']} -> 99.0 (imported by the stage)",),
        "other": ("up to date",),
    }


def add_a_line(path: Path) -> None:
    path.write_text(f"{path.read_text()}# another version\n")


def test_models_outside_of_the_project_that_differ_in_their_weights_alone(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("first", "second")]
    for seed, folder in enumerate(paths):
        folder.mkdir()
        write_model(folder, seed)
    assert (paths[0] / "net.onnx").read_bytes() == (paths[1] / "net.onnx").read_bytes()
    stages = "\n".join(f"  {path.name}: {{uses: convert/onnx, with: {{path: {path}/net.onnx}}}}" for path in paths)
    project = Project.make(tmp_path / "project", f"name: two\nstages:\n{stages}\n")
    result = project.run()
    assert built(result) == ["first", "second"]
    for path in paths:
        model = onnx.load(project.store / "out" / "two" / path.name / "model.onnx")
        weights = numpy_helper.to_array(onnx.load(path / "net.onnx").graph.initializer[0])
        assert np.array_equal(numpy_helper.to_array(model.graph.initializer[0]), weights)


@pytest.mark.slow
def test_weights_beside_a_model_that_lies_among_files_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".cache" / "matplotlib"  # what is in it is nobody's
    folder.mkdir(parents=True)
    write_model(folder)
    stage = f"take: {{uses: convert/onnx, with: {{path: {folder}/net.onnx}}}}"
    project = Project.make(tmp_path / "project", f"name: one\nstages:\n  {stage}\n")
    assert built(project.run()) == ["take"]
    (folder / "net.data").unlink()  # or it would be appended to
    write_model(folder, seed=1)
    (step,) = orun.plan(project.folder / "pipeline.yaml", store=project.store).steps
    assert describe_reasons(step.reasons) == (f"{folder}/net.data changed (read by the stage)",)
