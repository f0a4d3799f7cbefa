"""Packages that were upgraded between two runs are brought back, one at a time, in isolated environments."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from orun.core.run_record import RunResult
from orun.environment import venvs
from tests.blame.project import Project
from tests.environment.wheels import use_index, wheel
from tests.project import ROOT

COUNTED = """
import tiny


def value(text):
    return len(text) + (100 if tiny.version == "2.0" else 0)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose helper is worse with version 2.0 of a package; `other` is upgraded as well and does nothing."""
    use_index(tmp_path / "index", tmp_path / "environments", monkeypatch)
    for name in ("tiny", "other"):
        for version in ("1.0", "2.0"):
            wheel(tmp_path / "index", name, version)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site-packages'}:{os.environ.get('PYTHONPATH', '')}")
    new_project = Project(tmp_path)
    (new_project.folder / "helper.py").write_text(COUNTED)
    return new_project


def install(project: Project, name: str, version: str) -> None:
    """Put a package where orun runs, in place of another version of it."""
    site = project.folder.parent / "site-packages"
    for old in site.glob(f"{name}-*"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    for compiled in site.glob(f"__pycache__/{name}.*"):  # the new source may be of the same second and size
        compiled.unlink()
    with ZipFile(project.folder.parent / "index" / f"{name}-{version}-py3-none-any.whl") as archive:
        archive.extractall(site)
    sys.modules.pop(name, None)


def upgraded(project: Project, *names: str) -> tuple[RunResult, RunResult]:
    """A run with 1.0 of some packages, and one with 2.0 and another parameter that does not matter."""
    for name in names:
        install(project, name, "1.0")
    good = project.run()
    for name in names:
        install(project, name, "2.0")
    bad = project.run(**{"stages.score.with.note": "two"})
    assert [run.exit_code for run in (good, bad)] == [0, 1]
    return good, bad


@pytest.mark.slow
def test_the_package_that_did_it(project: Project) -> None:
    (project.folder / "helper.py").write_text(f"import other\n{COUNTED}")
    good, bad = upgraded(project, "tiny", "other")
    result = project.bisect(good, bad)
    assert result.changes == (
        'score.note: "one" -> "two"',
        "package: other==1.0 -> other==2.0",
        "package: tiny==1.0 -> tiny==2.0",
    )
    assert result.causes == (("package: tiny==1.0 -> tiny==2.0",),)
    assert result.fixed == ()
    assert result.advice == ()
    assert result.sentence == (
        "score score max 10 fails because of package: tiny==1.0 -> tiny==2.0; 2 other changes do not matter"
    )
    assert {record.requirements for record in venvs.read_all().values()} == {
        ("other==1.0", "tiny==1.0"),
        ("other==1.0", "tiny==2.0"),
        ("other==2.0", "tiny==1.0"),
    }


@pytest.mark.slow
def test_a_version_that_is_not_to_be_had_any_more(project: Project) -> None:
    good, bad = upgraded(project, "tiny")
    (project.folder.parent / "index" / "tiny-1.0-py3-none-any.whl").unlink()
    result = project.bisect(good, bad)
    assert result.causes == ()
    assert result.fixed == (
        (
            "imported tiny of make: 1.0 -> 2.0 (ERROR: Could not find a version that satisfies the requirement "
            "tiny==1.0 (from versions: 2.0))"
        ),
    )
    assert result.advice == (
        (
            f"packages: python -m venv then && then/bin/pip install -e {ROOT} 'tiny==1.0' && "
            f"then/bin/orun bisect {good.run} {bad.run} --store {project.store}"
        ),
    )


@pytest.mark.slow
def test_what_code_and_parameters_explain_needs_no_environment(project: Project) -> None:
    install(project, "tiny", "1.0")
    good = project.run()
    install(project, "tiny", "2.0")
    (project.folder / "helper.py").write_text(COUNTED.replace("100 if", "50 if"))
    bad = project.run(**{"stages.score.with.offset": 90.0})
    install(project, "tiny", "1.0")
    assert project.bisect(good, bad).causes == (("score.offset: 0.0 -> 90.0",),)
    assert venvs.read_all() == {}


def test_too_many_packages(project: Project) -> None:
    names = [f"p{number}" for number in range(5)]
    for name in names:
        for version in ("1.0", "2.0"):
            wheel(project.folder.parent / "index", name, version)
    (project.folder / "helper.py").write_text(f"import {', '.join(names)}\n{COUNTED.replace('tiny', 'p3')}")
    good, bad = upgraded(project, *names)
    result = project.bisect(good, bad)
    assert result.fixed[0] == "imported p0 of make: 1.0 -> 2.0 (5 packages differ, which is too many to try one by one)"
    assert "'p0==1.0' 'p1==1.0' 'p2==1.0' 'p3==1.0' 'p4==1.0'" in result.advice[0]
