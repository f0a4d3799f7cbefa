"""Fixtures of several acceptance tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.acceptance.support import ROOT, command
from tests.shared import make_once


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return make_once(tmp_path_factory, "wheel", build_wheel)


def build_wheel(folder: Path) -> Path:
    command(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel
