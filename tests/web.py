"""npm's onnxruntime-web for tests, installed once a session, and the programs that run it."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from orun.errors import UsageError
from orun.measure.web.session import Runtime, find_program
from tests.shared import make_once

VERSION, OLDEST = "1.30.0", "1.19.2"


def install_web(factory: pytest.TempPathFactory, version: str = VERSION) -> Path:
    """Return a folder with `node_modules`; the test that asks is skipped where npm cannot install it."""
    if not shutil.which("npm"):
        pytest.skip("npm is not on PATH: apt-get install npm")
    folder = make_once(factory, f"onnxruntime-web-{version}", partial(_install, version))
    if not (folder / "node_modules").exists():
        pytest.skip(f"npm cannot install onnxruntime-web@{version} here: {(folder / 'npm.log').read_text('utf-8')}")
    return folder


def _install(version: str, folder: Path) -> Path:
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", "--fetch-retries=0")
    command = ["npm", "install", "--prefix", str(folder), *options, f"onnxruntime-web@{version}"]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if process.returncode:
        (folder / "npm.log").write_text(process.stderr[-500:], "utf-8")
        shutil.rmtree(folder / "node_modules", ignore_errors=True)
    return folder


def require_program(runtime: Runtime) -> str:
    """Return the path of Node.js or Chromium; the test that asks is skipped where there is none."""
    try:
        return find_program(runtime)
    except UsageError as error:
        pytest.skip(f"{error.why}: {error.hint}")
