"""Commands that must succeed, and environments that must be there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orun import api
from orun.environment import venv_builder, venvs
from orun.errors import EnvironmentFailed
from orun.pipeline import load
from orun.pipeline.model import Pipeline

ROOT = Path(__file__).parents[2]
PIPELINES = ROOT / "pipelines"


def command(*arguments: str | Path, cwd: Path) -> str:
    """What a command prints; it must succeed."""
    process = subprocess.run([str(word) for word in arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def copy_pipelines(folder: Path) -> Path:
    """Copy the shipped pipelines with their models and data; return where they are."""
    return shutil.copytree(PIPELINES, folder / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))


def run_json(folder: Path, name: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run a pipeline file of a folder in a process of its own; return the exit code and the result."""
    line = [sys.executable, "-m", "orun", name, "--json", *arguments]
    process = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False, timeout=580)
    result: dict[str, Any] = json.loads(process.stdout)
    return process.returncode, result


def short_timing(*stages: str) -> dict[str, str]:
    """Values with which stages of `measure/latency` take three launches, for `set`."""
    values = {"time": "0s", "warmup": "0s", "max_launches": "3", "samples": "6"}
    return {f"stages.{stage}.with.{name}": value for stage in stages for name, value in values.items()}


def shorten(*stages: str) -> list[str]:
    """The same as options of the command line."""
    return [word for path, value in short_timing(*stages).items() for word in ("--set", f"{path}={value}")]


def shorten_init(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `orun init`, and runs of what it writes, time three launches, which decide no gate on a time.

    tests/cli/test_init.py takes as long as users do.
    """
    load = api.load

    def load_short(file: str | Path, set: Mapping[str, Any] | None = None) -> Pipeline:  # noqa: A002 - as in `load`
        return load(file, {**short_timing("latency"), **(set or {})})

    monkeypatch.setattr(api, "load", load_short)


def make_environments(file: Path) -> None:
    """Make the isolated environments of a pipeline, which later tests find; skip where there is no package index."""
    for environment in {name for stage in load(file).stages for name in stage.environments}:
        try:
            venv_builder.make(environment)
        except EnvironmentFailed as error:
            if "could not be reached" in error.why or "from versions: none" in error.why:
                pytest.skip(f"no package index has {', '.join(environment.requirements)} here: {error.why}")
            raise


def copy_plugin(file: Path, library: str, into: Path) -> Path:
    """Copy the folders of a plug-in's package out of the only environment of a pipeline; return the library there.

    A plug-in finds the libraries that it loads itself beside it.
    """
    (environment,) = {name for stage in load(file).stages for name in stage.environments}
    (path,) = Path(venvs.choose_interpreter(environment).python).parents[1].rglob(library)
    for folder in path.parents[1].glob(f"{path.parent.name}*"):
        shutil.copytree(folder, into / folder.name)
    return into / path.parent.name / library
