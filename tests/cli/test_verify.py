"""orun verify, on a real bundle's manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orun.stages.release._manifest import REQUIRED, write_manifest

from .conftest import CommandLine


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle in the working folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "release"
    folder.mkdir()
    for name in REQUIRED:
        (folder / name).write_bytes(name.encode())
    write_manifest(folder, "bert", "1.0")
    return folder


def test_a_whole_bundle(orun: CommandLine, bundle: Path) -> None:
    del bundle
    shown = orun("verify", "release")
    assert (shown.code, shown.out) == (0, "release is whole: every file is what its manifest says\n")
    assert json.loads(orun("verify", "release", "--json").out) == {"bundle": "release", "whole": True, "problems": []}


def test_a_bundle_that_was_changed(orun: CommandLine, bundle: Path) -> None:
    (bundle / "model.onnx").write_bytes(b"model.0nnx")
    (bundle / "readme.txt").touch()
    shown = orun("verify", "release")
    assert (shown.code, shown.err) == (1, "")
    first, *problems = shown.out.splitlines()
    assert first == "release is not what was released:"
    assert problems[-1] == "  readme.txt is there and not in the manifest"
    document = json.loads(orun("verify", "release", "--json").out)
    assert [f"  {problem}" for problem in document["problems"]] == problems


@pytest.mark.usefixtures("bundle")
def test_a_bundle_that_is_not_there(orun: CommandLine) -> None:
    shown = orun("verify", "relaese")
    assert (shown.code, shown.out, shown.err) == (
        2,
        "",
        (
            "error: there is no bundle relaese\n"
            "  expected the folder of a stage of release/bundle, or a copy of it\n"
            "  hint: ls artifacts/out\n"
        ),
    )


def test_what_is_no_bundle(orun: CommandLine, bundle: Path) -> None:
    del bundle
    shown = orun("verify", ".")
    assert (shown.code, shown.out) == (
        1,
        (
            ". is not what was released:\n"
            "  manifest.json cannot be read, so this is no bundle: No such file or directory\n"
        ),
    )
