"""The examples for newcomers: each is a good pipeline, and each runs to judged gates, a card and a bundle."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import orun
from tests.acceptance.support import run_json

EXAMPLES = Path(__file__).parents[2] / "examples"
STAGES = {
    "tabular": ["convert", "accuracy", "latency", "card", "release"],
    "vision": ["export", "simplify", "int8", "accuracy", "latency", "card", "release"],
    "text": ["export", "simplify", "fuse", "int8", "accuracy", "latency", "card", "release"],
    "language-model": ["export", "fuse", "int4", "accuracy", "token", "card", "release"],
}
GATES = {
    "tabular": ["accuracy accuracy", "accuracy auc", "convert agreement", "latency p50"],
    "vision": ["accuracy accuracy", "accuracy accuracy", "accuracy agreement", "int8 size", "latency p50"],
    "text": ["accuracy cosine.mean", "accuracy mrr", "accuracy recall_at_1", "int8 size", "latency p50"],
    "language-model": ["accuracy cosine.mean", "accuracy kl.max", "int4 size", "token p50"],
}
LONGEST = 60  # lines of a README


def test_every_folder_is_an_example() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == set(STAGES)
    overview = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"({name}/README.md)" in overview for name in STAGES)


@pytest.mark.parametrize("name", STAGES)
def test_an_example_is_a_good_pipeline(name: str, tmp_path: Path) -> None:
    plan = orun.plan(EXAMPLES / name / f"{name}.yaml", store=tmp_path)
    assert [step.stage.id for step in plan.steps] == STAGES[name]
    readme = (EXAMPLES / name / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(readme) <= LONGEST
    assert f"orun {name}.yaml" in [line.partition("  ")[0] for line in readme]


RUN = {"text": pytest.mark.table}  # the stages and the model of pipelines/bert.yaml


@pytest.mark.parametrize("name", [pytest.param(name, marks=RUN.get(name, pytest.mark.slow)) for name in STAGES])
def test_an_example_runs_to_a_release(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__", "artifacts"))
    code, result = run_json(folder, f"{name}.yaml")
    assert code == 0, result
    assert {stage["stage"]: stage["outcome"] for stage in result["stages"]} == dict.fromkeys(STAGES[name], "built")
    verdicts = result["verdicts"]
    assert sorted(f"{gate['stage']} {gate['metric']}" for gate in verdicts) == GATES[name]
    assert {gate["outcome"] for gate in verdicts} == {"passed"}
    release = folder / "artifacts" / "out" / name / "release"
    assert orun.verify(release).ok
    assert {"model.onnx", "README.md"} <= {path.name for path in release.iterdir()}
    code, again = run_json(folder, f"{name}.yaml")
    assert (code, {stage["outcome"] for stage in again["stages"]}) == (0, {"cached"})
