"""Commands that must succeed, and environments that must be there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orun.environment import venv_builder
from orun.errors import EnvironmentFailed
from orun.pipeline import load

ROOT = Path(__file__).parents[2]


def command(*words: str | Path, cwd: Path) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_environments(file: Path) -> None:
    """Make the isolated environments of a pipeline, which later tests find; skip where there is no package index."""
    for environment in {one for stage in load(file).stages for one in stage.environments}:
        try:
            venv_builder.make(environment)
        except EnvironmentFailed as error:
            if "could not be reached" in error.why or "from versions: none" in error.why:
                pytest.skip(f"no package index has {', '.join(environment.requirements)} here: {error.why}")
            raise
