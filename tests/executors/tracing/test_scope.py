from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import orun
from orun.core.serialization import replace
from orun.executors.tracing import scope
from orun.executors.tracing.scope import Scope
from tests.executors.support import Project


@pytest.mark.parametrize(
    ("path", "discovery", "code"),
    [
        ("/home/me/project/data.npz", True, True),
        ("/home/me/project/pipelines/model.py", True, True),
        ("/home/me/project/artifacts/objects/ab", False, False),
        ("/home/me/project/artifacts-old/x", True, True),
        ("/home/me/project-2/x", True, False),
        ("/data/labels.csv", True, False),
        ("/proc/cpuinfo", False, False),
        ("/etc/hosts", False, False),
        ("/usr/share/dict/words", False, False),
        ("/dev/shm/data/train.npy", True, False),  # noqa: S108 - nothing is opened
        ("/dev/shm/psm_1234", False, False),  # noqa: S108 - the same
        ("/dev/null", False, False),
        ("/run/media/me/disk/train.npy", True, False),
        ("/run/media/me/store/objects/ab", False, False),
        (f"{sys.prefix}/lib/x.py", False, False),
        (os.__file__, False, False),
        (orun.__file__, False, False),
        (str(Path("~/.netrc").expanduser()), False, False),
        (str(Path("~/.aws/credentials").expanduser()), False, False),
        (str(Path("~/.cache/huggingface/hub/model.safetensors").expanduser()), True, False),
    ],
)
def test_a_project_and_its_store(path: str, discovery: bool, code: bool) -> None:
    scope = Scope(["/home/me/project"], ["/home/me/project/artifacts", "/run/media/me/store"])
    assert (scope.is_dependency(path), scope.is_code(path)) == (discovery, code)


def test_a_project_inside_a_folder_of_the_machine() -> None:
    scope = Scope(["/usr/src/app"])
    assert scope.is_dependency("/usr/src/app/model.py")
    assert scope.is_code("/usr/src/app/model.py")
    assert not scope.is_dependency("/usr/src/other/model.py")


@pytest.mark.parametrize("named", ["/usr/src/app", "/usr/src/app/pipelines", "/usr/src"])
def test_a_file_that_is_named_makes_the_store_no_discovery(named: str) -> None:
    """As in an image whose project is /usr/src/app, where every stage names its code."""
    scope = Scope(["/usr/src/app"], ["/usr/src/app/artifacts", "/usr/src/tmp"], [named])
    assert scope.is_dependency("/usr/src/app/pipelines/model.py")
    assert not scope.is_dependency("/usr/src/app/artifacts/tmp/1-make/output")
    assert not scope.is_dependency("/usr/src/tmp/1-make/output")


def test_a_file_that_is_named_makes_what_is_installed_in_the_project_no_discovery() -> None:
    project, model = str(Path(sys.prefix).parent), f"{sys.prefix}/lib/models/net.onnx"
    assert not Scope([project], named=[project]).is_dependency(model)
    assert Scope([project], named=[project]).is_dependency(f"{project}/model.py")
    scope = Scope([project], named=[f"{sys.prefix}/lib/models"])
    assert scope.is_dependency(model)
    assert not scope.is_dependency(f"{sys.prefix}/lib/x.py")


def test_an_environment_that_is_the_project() -> None:
    assert Scope([sys.prefix]).is_code(f"{sys.prefix}/model.py")
    assert not Scope([sys.prefix]).is_code(orun.__file__)


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is installed is found out anew in a test, and again after it."""
    caches = (scope.list_installed_prefixes, scope.list_library_prefixes)
    for cached in caches:
        cached.cache_clear()
    yield
    monkeypatch.undo()
    for cached in caches:
        cached.cache_clear()


@pytest.mark.usefixtures("anew")
def test_packages_of_another_environment_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count by their versions: that each file of theirs was looked at made an export take four times as long."""
    other, mine = tmp_path / "base/lib/python3/site-packages", tmp_path / "src"
    monkeypatch.setattr(sys, "path", [*sys.path, f"{other}/", str(mine), "site-packages"])
    scope = Scope(["/home/me/project"])
    assert not scope.is_dependency(f"{other}/torch/nn.py")
    assert scope.is_dependency(f"{tmp_path}/base/weights.npz")
    assert scope.is_dependency(f"{mine}/model.py")
    assert scope.is_dependency("/home/me/project/site-packages/model.py")


@pytest.mark.usefixtures("anew")
def test_an_environment_in_the_folder_of_all_projects_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No data there had been seen: `python -m venv .` beside them."""
    (tmp_path / "pyvenv.cfg").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    scope = Scope([f"{tmp_path}/project"])
    assert scope.is_dependency(f"{tmp_path}/data/a.npy")
    for name in ("pyvenv.cfg", "bin/tool", "lib/python3/site-packages/torch/nn.py", "share/man/man1/tool.1"):
        assert not scope.is_dependency(f"{tmp_path}/{name}")


def test_links_are_followed(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    assert Scope([str(link)]).is_code(f"{real}/x.py")
    assert Scope([str(real)]).is_dependency(f"{link}/x.py")
    path = tmp_path / "words"
    path.symlink_to("/etc/hosts")
    assert not Scope([str(real)]).is_dependency(str(path))
    inside = real / "words"
    inside.symlink_to("/etc/hosts")
    assert Scope([str(real)]).is_dependency(str(inside))


def test_before_the_project_is_known_everything_but_libraries_may_matter() -> None:
    assert Scope().is_dependency("/home/me/project/x")
    assert not Scope().is_dependency(os.__file__)
    assert not Scope().is_code("/home/me/project/x")


def test_what_lies_beside_a_file_of_the_machine_that_is_named() -> None:
    scope = Scope(["/home/me/project"], named=["/usr/share/models/v1"])
    assert scope.is_dependency("/usr/share/models/v1/net.data")
    assert not scope.is_dependency("/usr/share/models/v2/net.data")
    assert not scope.is_code("/usr/share/models/v1/net.py")


def test_a_file_among_all_that_is_installed_makes_none_of_it_the_stage_s(project: Project) -> None:
    packages = Path(pytest.__file__).parents[1]
    job = replace(
        project.job("mine.py:f"), named_folders=(str(packages), "/usr", f"{packages}/onnx_models", "/usr/share/models")
    )
    scope = Scope.of(job)
    assert not scope.is_dependency(pytest.__file__)
    assert not scope.is_dependency("/usr/lib/libc.so.6")
    assert scope.is_dependency(f"{packages}/onnx_models/net.data")
    assert scope.is_dependency("/usr/share/models/net.data")


def test_folders_above_code_and_store() -> None:
    scope = Scope(["/home/me/project"], ["/home/me/project/.orun/objects"])
    above = ["/", "/home/me", "/home/me/project", "/home/me/project/.orun", "/home/me/project/.orun/objects"]
    assert [*filter(scope.is_above, [*above, "/home/me/project/flag", "/home/me/other"])] == above
