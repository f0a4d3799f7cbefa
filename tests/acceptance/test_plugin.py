"""A stage kind from another package, found by its entry point: checked, run, and in the key with its version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

MODULE = '''
"""Repeat a text, to show what a plug-in looks like."""

from dataclasses import dataclass
from typing import Annotated

from orun.core.metrics import COUNT, Metric
from orun.stages.contract import Context, Spec
from orun.stages.params import Doc, Range


@dataclass(frozen=True)
class Params:
    """What to repeat."""

    text: Annotated[str, Doc("The text.")]
    times: Annotated[int, Doc("How often."), Range(1, 9)] = 2


SPEC = Spec(output="files", metrics={"length": COUNT})


def run(context: Context, params: Params) -> dict[str, Metric]:
    result = params.text * params.times
    (context.output / "text").write_text(result)
    return {"length": Metric(len(result))}
'''
PIPELINE = """
name: plugged
stages:
  echo:
    uses: example/echo
    with: {text: ab, times: 3}
    gate: {length: {max: 6}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "echo.yaml").write_text(PIPELINE)
    (tmp_path / "site" / "orun_example").mkdir(parents=True)
    (tmp_path / "site" / "orun_example" / "__init__.py").write_text("")
    (tmp_path / "site" / "orun_example" / "echo.py").write_text(MODULE)
    install(tmp_path, "1.0")
    return tmp_path


def install(project: Path, version: str) -> None:
    for old in (project / "site").glob("*.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    metadata = project / "site" / f"orun_example-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: orun-example\nVersion: {version}\n")
    (metadata / "entry_points.txt").write_text("[orun.stages]\nexample/echo = orun_example.echo\n")


def orun(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(project / "site"), os.environ.get("PYTHONPATH", "")])
    }
    command = [sys.executable, "-m", "orun", *arguments]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def run(project: Path) -> Mapping[str, Any]:
    process = orun(project, "echo.yaml", "--json")
    assert process.returncode == 0, process.stdout + process.stderr
    (stage,) = json.loads(process.stdout)["stages"]
    return dict(stage)


def planned(project: Path) -> tuple[str, list[str]]:
    (step,) = json.loads(orun(project, "plan", "echo.yaml", "--json").stdout)["steps"]
    return step["action"], step["reasons"]


@pytest.mark.slow  # plug-ins are quick, in tests/reruns/test_packages.py
def test_it_runs_is_cached_and_runs_again_when_its_package_changes(project: Path) -> None:
    assert run(project)["outcome"] == "built"
    assert (project / "artifacts" / "out" / "plugged" / "echo" / "text").read_text() == "ababab"
    assert run(project)["outcome"] == "cached"
    install(project, "1.1")
    assert planned(project) == ("run", ["the code of example/echo changed"])
    install(project, "1.0")
    module = project / "site" / "orun_example" / "echo.py"
    module.write_text(MODULE.replace("* params.times", "* params.times  # again"))
    assert planned(project) == ("run", ["the code of example/echo changed"])


def test_its_parameters_are_checked_as_any_other(project: Path) -> None:
    (project / "echo.yaml").write_text(PIPELINE.replace("times: 3", "tims: 3"))
    process = orun(project, "validate", "echo.yaml")
    assert process.returncode == 2
    assert process.stderr == (
        "echo.yaml:6:22: error: 'tims' is not a parameter of example/echo\n"
        "    6 |     with: {text: ab, tims: 3}\n"
        "      |                      ^^^^\n"
        "  did you mean: times\n"
        "  expected: text or times\n"
        "  hint: orun stages example/echo\n"
    )
