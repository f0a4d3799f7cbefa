"""Another version of ONNX Runtime, really installed: exactly the stages that use it run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orun.environment import distributions
from tests.faults.projects import write_model

OTHER = "1.24.4"  # the oldest that is supported; not the one that tests run with
PIPELINE = """
name: model
stages:
  take: {uses: convert/onnx, with: {path: model.onnx}}
  opset: {uses: convert/opset, needs: take, with: {version: 21}}
  int8: {uses: quantize/dynamic, needs: opset}
  size: {uses: measure/size, needs: opset}
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with that version, to be put before the packages that tests run with."""
    folder = tmp_path_factory.mktemp("runtime")
    arguments = ["-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), f"onnxruntime=={OTHER}"]
    subprocess.run([sys.executable, *arguments], check=True, timeout=240, capture_output=True)
    return folder


def run(project: Path, *path: Path) -> dict[str, tuple[str, ...]]:
    """Run the pipeline in a process that looks for packages in these folders first: outcome and reasons by stage."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, Path(__file__).parents[2])))}
    process = subprocess.run(
        [sys.executable, "-m", "orun", "pipeline.yaml", "--json", "--store", str(project.parent / "store")],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return {stage["stage"]: (stage["outcome"], *stage["reasons"]) for stage in json.loads(process.stdout)["stages"]}


@pytest.mark.slow
def test_another_onnxruntime_reruns_the_stages_that_use_it(tmp_path: Path, other: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    write_model(project)
    (project / "pipeline.yaml").write_text(PIPELINE)
    name, version = distributions.find("onnxruntime|onnxruntime-gpu") or ("", "")
    assert version not in ("", OTHER)
    assert {outcome for outcome, *_ in run(project).values()} == {"built"}
    again = run(project, other)
    assert {stage: outcome for stage, (outcome, *_) in again.items()} == {
        "take": "cached",  # its kind declares onnx alone
        "opset": "built",
        "int8": "built",
        "size": "cached",  # opset has yielded the same bytes
    }
    for stage in ("opset", "int8"):
        assert again[stage][1].endswith(f": {name} {version} -> onnxruntime {OTHER}")
    assert {outcome for outcome, *_ in run(project, other).values()} == {"cached"}
    assert {outcome for outcome, *_ in run(project).values()} == {"cached"}
