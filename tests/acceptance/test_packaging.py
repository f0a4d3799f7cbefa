"""What is shipped, and that it works where nothing else is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.support import ROOT, command

NO_UV = f"{Path(sys.executable).parent}:/usr/bin:/bin"
RELU = """
import onnx
text = '<ir_version: 8, opset_import: ["" : 17]> relu (float[n, 4] x) => (float[n, 4] y) {y = Relu(x)}'
onnx.save(onnx.parser.parse_model(text), "relu.onnx")
"""
PIPELINE = """
name: relu
stages:
  model: {uses: convert/onnx, with: {path: relu.onnx}}
  simple: {uses: optimize/simplify, needs: model}
"""


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """Scripts of an environment that holds orun and what it requires, nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    pip(folder / "bin", "install", "--quiet", "--no-compile", str(wheel))
    return folder / "bin"


def pip(scripts: Path, *words: str) -> str:
    """Run our own pip for that environment, which has none; what is imported there is compiled then."""
    python = scripts / "python"
    return command(sys.executable, "-m", "pip", "--python", python, *words, cwd=scripts)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "relu.yaml").write_text(PIPELINE)
    command(sys.executable, "-c", RELU, cwd=tmp_path)
    return tmp_path


def tracked() -> Iterator[str]:
    for line in command("git", "ls-files", "orun", cwd=ROOT).splitlines():
        if (ROOT / line).exists():
            yield line


def test_the_wheel_holds_the_package_and_its_licence_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    metadata = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert names == {*tracked(), *(f"orun-0.2.0.dist-info/{name}" for name in metadata)}


def test_planning_works_where_nothing_else_is_installed(empty: Path, project: Path) -> None:
    orun = empty / "orun"
    assert "orun pipelines/bert.yaml" in command(orun, "--help", cwd=project)
    assert "quantize/dynamic" in command(orun, "stages", cwd=project)
    assert command(orun, "validate", "relu.yaml", cwd=project).startswith("relu.yaml")
    assert "never run before" in command(orun, "plan", "relu.yaml", cwd=project)


def refused(orun: Path, project: Path) -> str:
    """What a run says that lacks packages, where no uv is on PATH."""
    environment = {**os.environ, "PATH": NO_UV}
    done = subprocess.run(
        [orun, "relu.yaml"], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    return done.stderr


def test_a_run_says_which_extra_it_lacks_before_anything_starts(empty: Path, project: Path, wheel: Path) -> None:
    hint = f'pip --python {empty / "python"} install "orun[cpu] @ {wheel.as_uri()}"'
    assert refused(empty / "orun", project) == (
        "relu.yaml:4:3: error: stage 'model' (convert/onnx) needs onnx, which is not installed\n"
        f"  hint: {hint}\n\n"
        "relu.yaml:5:3: error: stage 'simple' (optimize/simplify) needs onnxsim, onnx, onnxruntime or onnxruntime-gpu, "
        "which are not installed\n"
        f"  hint: {hint}\n"
    )
    assert list((project / "artifacts" / "runs").iterdir()) == []


@pytest.mark.slow
def test_the_hinted_command_installs_what_an_onnx_model_needs_and_no_torch(empty: Path, project: Path) -> None:
    hint = refused(empty / "orun", project).rpartition("hint: ")[2]
    subprocess.run(["/bin/sh", "-c", hint], env={**os.environ, "PATH": NO_UV}, check=True)
    command(empty / "orun", "relu.yaml", cwd=project)
    assert (project / "artifacts" / "out" / "relu" / "simple" / "model.onnx").is_file()
    assert "torch" not in pip(empty, "list").replace("orun", "")
