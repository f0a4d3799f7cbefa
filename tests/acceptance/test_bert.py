"""The main job: a real BERT from PyTorch to a gated release, and what happens when something in it is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PIPELINES = Path(__file__).parents[2] / "pipelines"
STAGES = ["export", "simplify", "fuse", "int8", "accuracy", "latency", "release"]


@dataclass(frozen=True)
class Project:
    """A copy of the shipped pipelines with a store of its own."""

    folder: Path

    def orun(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "orun", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def run(self, *arguments: str) -> tuple[int, Mapping[str, Any]]:
        """Exit code and result of a run."""
        process = self.orun("bert.yaml", "--json", *arguments)
        return process.returncode, json.loads(process.stdout)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert old in text
        (self.folder / name).write_text(text.replace(old, new))


def outcomes(result: Mapping[str, Any]) -> dict[str, str]:
    return {stage["stage"]: stage["outcome"] for stage in result["stages"]}


def built(result: Mapping[str, Any]) -> list[str]:
    return [name for name, outcome in outcomes(result).items() if outcome == "built"]


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Mapping[str, Any]]:
    """A project whose pipeline ran up to its int8 model, and the result of that run."""
    project = Project(tmp_path_factory.mktemp("bert") / "pipelines")
    shutil.copytree(PIPELINES, project.folder, ignore=shutil.ignore_patterns("__pycache__"))
    code, result = project.run("--to", "int8")
    assert (code, outcomes(result)) == (0, dict.fromkeys(STAGES[:4], "built"))
    return project, result


@pytest.fixture(scope="module")
def cold(quantized: tuple[Project, Mapping[str, Any]]) -> tuple[Project, Mapping[str, Any]]:
    """The same project after a run of the whole pipeline, and the result of that run."""
    project, _ = quantized
    code, result = project.run()
    assert (code, outcomes(result)) == (0, dict.fromkeys(STAGES[:4], "cached") | dict.fromkeys(STAGES[4:], "built"))
    return project, result


@pytest.fixture
def project(cold: tuple[Project, Mapping[str, Any]], tmp_path: Path) -> Project:
    """A copy of that project beside its store, to change at will."""
    copy = Project(tmp_path / "pipelines")
    shutil.copytree(cold[0].folder, copy.folder, symlinks=True)
    return copy


def test_a_real_bert_becomes_a_gated_int8_model(quantized: tuple[Project, Mapping[str, Any]]) -> None:
    project, result = quantized
    stages = {stage["stage"]: stage for stage in result["stages"]}
    assert stages["fuse"]["metrics"]["attentions"]["value"] == 6
    assert [(gate["stage"], gate["metric"], gate["outcome"]) for gate in result["verdicts"]] == [
        ("int8", "size", "passed")
    ]
    code, again = project.run("--to", "int8")
    assert (code, outcomes(again), again["verdicts"]) == (0, dict.fromkeys(STAGES[:4], "cached"), result["verdicts"])


@pytest.mark.slow
def test_it_ends_with_every_gate_judged(cold: tuple[Project, Mapping[str, Any]]) -> None:
    _, result = cold
    assert {(gate["stage"], gate["metric"]) for gate in result["verdicts"]} >= {
        ("accuracy", "cosine.min"),
        ("accuracy", "recall_at_1"),
        ("latency", "speedup"),
    }
    assert not [gate for gate in result["verdicts"] if gate["fails"]]


@pytest.mark.slow
def test_static_integers_share_what_comes_before_them_and_keep_the_accuracy(project: Project) -> None:
    """The whole pipeline; how much faster they are than float is for a quiet machine to say."""
    short = ("with.time=0s", "with.warmup=0s", "with.max_launches=3", "with.samples=6", "gate.speedup.undecided=allow")
    options = [word for value in (*short, "gate.speedup.min=0.01") for word in ("--set", f"stages.latency.{value}")]
    process = project.orun("bert-static.yaml", "--json", *options)
    result = json.loads(process.stdout)
    assert process.returncode == 0, result
    stages = dict.fromkeys(("int8", "accuracy", "latency", "release"), "built")
    assert outcomes(result) == {"export": "cached", "simplify": "cached", **stages}
    judged = [(gate["stage"], gate["outcome"]) for gate in result["verdicts"] if gate["stage"] != "latency"]
    assert judged == [("int8", "passed"), *[("accuracy", "passed")] * 5]
    timed = {gate["metric"]: gate["outcome"] for gate in result["verdicts"] if gate["stage"] == "latency"}
    assert timed.keys() == {"p50", "speedup"}
    assert timed["p50"] == "no baseline"


@pytest.mark.slow
def test_again_everything_is_cached_and_judged(cold: tuple[Project, Mapping[str, Any]]) -> None:
    project, first = cold
    code, second = project.run()
    assert (code, outcomes(second)) == (0, dict.fromkeys(STAGES, "cached"))
    assert second["verdicts"] == first["verdicts"]


@pytest.mark.slow
def test_one_parameter_reruns_what_depends_on_it(project: Project) -> None:
    code, result = project.run("--set", "stages.int8.with.per_channel=false", "--to", "int8")
    assert (code, built(result)) == (0, ["int8"])
    (int8,) = [stage for stage in result["stages"] if stage["stage"] == "int8"]
    assert int8["reasons"] == ["parameter per_channel: true -> false"]


@pytest.mark.slow
def test_touching_the_model_script_rebuilds_and_equal_bytes_stop_it(project: Project) -> None:
    project.edit(
        "minilm.py",
        '"""',
        '"""\n',
    )
    _, result = project.run()
    assert built(result) == ["export", "release"], "the bundle's provenance names the key of each stage"


@pytest.mark.slow
def test_the_bundle_verifies_and_a_flipped_bit_does_not(
    cold: tuple[Project, Mapping[str, Any]], tmp_path: Path
) -> None:
    project, _ = cold
    bundle = project.folder / "artifacts" / "out" / "bert" / "release"
    assert project.orun("verify", str(bundle)).returncode == 0
    copy = tmp_path / "bundle"
    shutil.copytree(bundle, copy)
    model = copy / "model.onnx"
    model.chmod(0o644)
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 1
    model.write_bytes(data)
    process = project.orun("verify", str(copy))
    assert process.returncode != 0
    assert "model.onnx" in process.stdout + process.stderr


BROKEN = '''
"""Faults, planted."""

import onnx
from onnx import numpy_helper

from orun import Context, stage


@stage()
def scale(context: Context, *, operator: str, factor: float) -> None:
    """Multiply the weights of every second node of that type: what a wrong scale or a wrong rewrite does."""
    model = onnx.load(context.model())
    weights = {one.name: one for one in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type == operator]
    assert nodes
    for node in nodes[::2]:
        for name in node.input[1:3]:
            if name in weights and weights[name].data_type == onnx.TensorProto.FLOAT:
                broken = numpy_helper.to_array(weights[name]) * factor
                weights[name].CopyFrom(numpy_helper.from_array(broken.astype("float32"), name))
    onnx.save(model, context.result)
'''


@pytest.mark.parametrize(("after", "operator"), [("fuse", "Attention"), ("int8", "Mul")])
@pytest.mark.slow
def test_a_broken_stage_fails_the_accuracy_gates(project: Project, after: str, operator: str) -> None:
    """The fault stands behind the stage that would have made it, in front of what measures it, here on fewer texts."""
    (project.folder / "broken.py").write_text(BROKEN)
    project.edit("docs.py", "PAIRS = 320\n", "PAIRS = 80\n")
    users = {"fuse": [("needs: fuse", "needs: broken")], "int8": [("model: int8", "model: broken")]}[after]
    for old, new in users:
        project.edit("bert.yaml", old, new)
    text = (project.folder / "bert.yaml").read_text()
    stage = f"  broken: {{uses: ./broken.py:scale, needs: {after}, with: {{operator: {operator}, factor: 2.0}}}}\n"
    (project.folder / "bert.yaml").write_text(text.replace("stages:\n", f"stages:\n{stage}"))
    code, result = project.run("--to", "accuracy", "--no-blame")
    assert code == 1, result
    assert any(gate["stage"] == "accuracy" and gate["outcome"] == "failed" for gate in result["verdicts"])
