"""Versions of packages that no index served: one stands for many contents."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from blake3 import blake3

import orun
from orun.environment import distributions
from orun.environment.call_cache import forget
from orun.environment.package_origin import NOTE, build_label, find_development_folder

from .wheels import wheel

RECORD = "../../../bin/one,sha256={0},5\none.py,sha256=aaa,3\n__pycache__/one.cpython-311.pyc,,\n"
RECORD += "one-1.0.dist-info/METADATA,sha256={0},9\n"
PROJECT = """
name: text
stages: {told: {uses: './told.py:told'}}
"""
CODE = """
import one
from orun import stage


@stage(inputs={}, output="files")
def told(context):
    (context.output / "text").write_text(one.version)
"""


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    folder = tmp_path / "one-1.0.dist-info"
    folder.mkdir()
    (folder / "RECORD").write_text(RECORD.format("bbb"))
    return folder


def test_a_repository(metadata: Path) -> None:
    origin = {"url": "https://host.invalid/one", "vcs_info": {"vcs": "git", "commit_id": "0123456789abcdef" * 2}}
    (metadata / NOTE).write_text(json.dumps(origin))
    assert build_label(str(metadata)) == "commit.0123456789abcdef"


def test_an_archive_as_older_installers_note_it(metadata: Path) -> None:
    (metadata / NOTE).write_text(json.dumps({"archive_info": {"hash": f"sha256={'ab' * 32}"}}))
    assert build_label(str(metadata)) == "sha256.abababababababab"


def test_what_is_edited_in_its_folder_is_watched_there(metadata: Path) -> None:
    (metadata / NOTE).write_text(json.dumps({"url": "file:///one", "dir_info": {"editable": True}}))
    assert build_label(str(metadata)) == ""
    assert build_label(str(metadata), development=True) == f"editable.{blake3(b'file:///one').hexdigest()[:16]}"
    assert find_development_folder(str(metadata)) == "/one"


@pytest.mark.parametrize(
    "text", ['{"url": "file:///one", "dir_info": {}}', '{"archive_info": {}}', "[1", '{"vcs_info": 1}']
)
def test_what_has_no_digest_is_told_by_its_files(metadata: Path, text: str) -> None:
    """Not by its metadata, which says where it came from, nor by its scripts, which say where its Python is."""
    (metadata / NOTE).write_text(text)
    first = build_label(str(metadata))
    assert first.startswith("files.")
    (metadata / "RECORD").write_text(RECORD.format("ccc"))
    assert build_label(str(metadata)) == first
    (metadata / "RECORD").write_text(RECORD.format("bbb").replace("aaa", "ddd"))
    assert build_label(str(metadata)) != first


@pytest.mark.slow
def test_a_wheel_of_the_same_version_with_another_content(tmp_path: Path) -> None:
    """Installed by pip into the site-packages of the user, imported by a stage."""
    home, project = tmp_path / "home", tmp_path / "project"
    packages = home / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    project.mkdir()
    (project / "pipeline.yaml").write_text(PROJECT)
    (project / "told.py").write_text(CODE)
    path = os.pathsep.join([str(packages), str(Path(orun.__file__).parents[1])])
    variables = os.environ | {"PYTHONUSERBASE": str(home), "PYTHONPATH": path}
    command = [
        sys.executable,
        "-m",
        "orun",
        str(project / "pipeline.yaml"),
        "--store",
        str(tmp_path / "store"),
        "--json",
    ]
    versions, reasons = [], []
    for text in ("first", "second", "second"):
        versions.append(_install(tmp_path / text, packages, text))
        process = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        reasons += json.loads(process.stdout)["stages"][0]["reasons"]
        assert (tmp_path / "store" / "out" / "text" / "told" / "text").read_text() == text
    change = f"package one: {versions[0]} -> {versions[1]} (imported by the stage)"
    assert reasons == ["never run before", change, "up to date"]


def _install(folder: Path, packages: Path, text: str) -> str:
    """Its version, as orun tells it."""
    file = folder / "one-1.0-py3-none-any.whl"
    if not file.exists():
        wheel(folder, "one", "1.0", text=text)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--upgrade"]
    subprocess.run([*pip, "--target", str(packages), str(file)], check=True, capture_output=True)
    return f"1.0+sha256.{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"


def test_orun_s_own_environment_has_versions_from_an_index() -> None:
    forget()  # packages of other tests
    labelled = {
        name for name, version in distributions.list_exact().items() if version != distributions.list_installed()[name]
    }
    assert labelled == set(distributions.list_developed())  # orun itself, where it is worked on
