"""Versions read from the names of metadata folders."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

import pytest

from orun.environment import distributions as tools


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("sys.path", [str(tmp_path), str(tmp_path / "not there")])
    caches = (tools.list_installed, tools.list_exact, tools.list_metadata_paths)
    for cache in caches:
        cache.cache_clear()
    yield tmp_path
    for cache in caches:
        cache.cache_clear()


def test_every_installed_distribution_has_the_version_that_importlib_reports() -> None:
    tools.list_installed.cache_clear()
    expected = {
        tools.normalize(distribution.metadata["Name"]): distribution.version
        for distribution in importlib.metadata.distributions()
    }
    assert dict(tools.list_installed()) == expected


def test_names_are_compared_as_package_indexes_do(packages: Path) -> None:
    (packages / "Foo_Bar.baz-1.2+cpu.dist-info").mkdir()
    assert tools.find("foo-bar-baz") == ("foo-bar-baz", "1.2+cpu")


def test_a_module_in_a_folder_that_its_package_adds_to_the_path(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ONNX Runtime does with `onnxruntime/transformers`."""
    metadata, inside = packages / "foo-1.0.dist-info", packages / "foo" / "parts"
    for folder in (metadata, inside):
        folder.mkdir(parents=True)
    (metadata / "RECORD").write_text("foo/__init__.py,,\nfoo/parts/helper.py,,\n")
    monkeypatch.setattr("sys.path", [str(packages), str(inside)])
    files = {"helper": [str(inside / "helper.py")], "stranger": [str(inside / "stranger.py")]}
    files["other"] = [str(packages / "bar" / ".." / "foo" / "parts" / "helper.py")]
    assert tools.find_owners(files) == {"helper": ["foo"], "other": ["foo"]}


@pytest.mark.parametrize("name", ["Foo_Bar-1.2.egg-info", "foo_bar-1.2-py3.11.egg-info"])
def test_metadata_of_the_older_kind(packages: Path, name: str) -> None:
    (packages / name).write_text("Name: foo-bar")
    (packages / "mine.egg-info").mkdir()  # of a project that is developed in this folder
    assert dict(tools.list_installed()) == {"foo-bar": "1.2"}
    (packages / "foo_bar-1.3.dist-info").mkdir()
    assert tools.list_installed_in([str(packages)]) == {"foo-bar": "1.3"}


def test_the_first_alternative_that_is_installed_is_found(packages: Path) -> None:
    (packages / "onnxruntime_gpu-1.31.1.dist-info").mkdir()
    assert tools.find("onnxruntime|onnxruntime-gpu") == ("onnxruntime-gpu", "1.31.1")
    assert tools.find("onnxsim") is None


def test_the_first_folder_on_the_path_wins(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, version in (("first", "1.0"), ("second", "2.0")):
        (packages / folder / f"foo-{version}.dist-info").mkdir(parents=True)
    monkeypatch.setattr("sys.path", [str(packages / "first"), str(packages / "second")])
    assert tools.find("foo") == ("foo", "1.0")
