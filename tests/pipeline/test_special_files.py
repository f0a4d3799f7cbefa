"""Pipes, sockets and devices where files are meant: refused before anything of them is read, which may never end."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from orun.errors import PipelineError, UsageError
from orun.gates.baseline_file import read_file
from orun.pipeline import load
from orun.remote.options import Remote
from orun.remote.settings import resolve
from tests.pipeline.support import complaint

KINDS = ("pipe", "socket", "device")
NOT_REGULAR = "Not a regular file"
PLACES = {
    "extends": ("extends: ODD\n", "p.yaml:1:10: error: cannot read 'ODD': Not a regular file"),
    "a stage of one's own": ("stages: {s: {uses: './ODD:f'}}\n", "error: cannot read './ODD': Not a regular file"),
    "code": (
        "stages: {s: {uses: convert/torch, with: {model: 'ODD:f', inputs: {}, outputs: [y]}}}\n",
        "error: cannot read 'ODD': Not a regular file",
    ),
    "a path": (
        "stages: {s: {uses: convert/onnx, with: {path: ODD}}}\n",
        "p.yaml:1:47: error: 'ODD' is a pipe, a socket or a device",
    ),
    "requirements": ("environments: {e: {requirements: ODD}}\n", "error: cannot read 'ODD': Not a regular file"),
}


@pytest.fixture(params=KINDS)
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What nobody writes to, may connect to, or ends."""
    path = tmp_path / "odd.py"
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.relpath(path))  # a socket's name is short
    return path


def test_a_pipeline_file(odd: Path) -> None:
    with pytest.raises(UsageError, match=f"cannot read the pipeline file .*odd.py: {NOT_REGULAR}"):
        load(odd)


@pytest.mark.parametrize("place", PLACES)
def test_what_a_pipeline_file_names(odd: Path, tmp_path: Path, place: str) -> None:
    text, message = PLACES[place]
    complained = complaint(tmp_path, text.replace("ODD", odd.name))
    assert message.replace("ODD", odd.name) in complained
    assert "did you mean" not in complained


def test_a_baseline(odd: Path) -> None:
    with pytest.raises(PipelineError, match=NOT_REGULAR):
        read_file(odd)


def test_the_file_of_a_project(odd: Path, tmp_path: Path) -> None:
    odd.rename(tmp_path / "pyproject.toml")
    with pytest.raises(UsageError, match=rf"cannot read .*pyproject.toml\n.*{NOT_REGULAR}"):
        resolve(Remote(), tmp_path)
