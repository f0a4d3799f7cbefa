"""Contents of the wheel and the sdist, which work where nothing else is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

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
def linked(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """Scripts of an environment that holds orun and links to what it requires, nothing else."""
    scripts = make_environment(tmp_path_factory.mktemp("environment"), "--no-deps", str(wheel))
    (site,) = scripts.parent.glob("lib/*/site-packages")
    (orun,) = distributions(name="orun", path=[str(site)])
    for package in required(orun):
        for name in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not (site / name).exists():
                (site / name).symlink_to(str(package.locate_file(name)))
    return scripts


def required(package: Distribution) -> Iterator[Distribution]:
    """What a package requires without extras, and what that requires, as it is in the environment of the tests."""
    for requirement in map(Requirement, package.requires or ()):
        if not requirement.marker or requirement.marker.evaluate({"extra": ""}):
            yield (needed := distribution(requirement.name))
            yield from required(needed)


def make_environment(folder: Path, *arguments: str) -> Path:
    """Scripts of a new environment, in a folder, in which pip has installed this."""
    scripts = folder / "bin"
    venv.create(folder, symlinks=True)
    pip(scripts, "install", "--quiet", "--no-compile", *arguments)
    return scripts


def pip(scripts: Path, *arguments: str) -> str:
    """Run our own pip for an environment, which has none; what is imported there is compiled then."""
    python = scripts / "python"
    return command(sys.executable, "-m", "pip", "--python", python, *arguments, cwd=scripts)


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


@pytest.mark.slow  # what orun imports is quick, in tests/test_imports.py
def test_planning_works_where_nothing_else_is_installed(linked: Path, project: Path) -> None:
    assert "quantize/dynamic" in command(linked / "orun", "stages", cwd=project)
    assert command(linked / "orun", "plan", "relu.yaml", cwd=project).splitlines()[1:3] == [
        "model   run    never run before",
        "simple  run    never run before; after model",
    ]


def refused(orun: Path, project: Path) -> str:
    """What a run says that lacks packages, where no uv is on PATH."""
    environment = {**os.environ, "PATH": NO_UV}
    process = subprocess.run(
        [orun, "relu.yaml"], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 2
    return process.stderr


@pytest.mark.slow  # hints are quick, in tests/environment/test_install_commands.py
def test_a_run_says_which_extra_it_lacks_before_anything_starts(linked: Path, project: Path, wheel: Path) -> None:
    hint = f'pip --python {linked / "python"} install "orun[cpu] @ {wheel.as_uri()}"'
    assert refused(linked / "orun", project) == (
        "relu.yaml:4:3: error: stage 'model' (convert/onnx) needs onnx, which is not installed\n"
        f"  hint: {hint}\n\n"
        "relu.yaml:5:3: error: stage 'simple' (optimize/simplify) needs onnxsim, onnx, onnxruntime or onnxruntime-gpu, "
        "which are not installed\n"
        f"  hint: {hint}\n"
    )
    assert list((project / "artifacts" / "runs").iterdir()) == []


@pytest.mark.slow
def test_the_hinted_command_installs_what_an_onnx_model_needs_and_no_torch(
    tmp_path: Path, wheel: Path, project: Path
) -> None:
    scripts = make_environment(tmp_path / "environment", str(wheel))
    hint = refused(scripts / "orun", project).rpartition("hint: ")[2]
    subprocess.run(["/bin/sh", "-c", hint], env={**os.environ, "PATH": NO_UV}, check=True)
    command(scripts / "orun", "relu.yaml", cwd=project)
    assert (project / "artifacts" / "out" / "relu" / "simple" / "model.onnx").is_file()
    assert "torch" not in pip(scripts, "list").replace("orun", "")
