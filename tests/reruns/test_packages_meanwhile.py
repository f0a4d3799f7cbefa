"""Packages that are installed while a run goes on: what was made with one version is not stored under another."""

from __future__ import annotations

from pathlib import Path

from tests.project import Project
from tests.site_packages import Site

PIPELINE = """
name: text
stages:
  install: {uses: ./tell.py:install}
  declares: {uses: ./tell.py:declares, needs: {after: install}}
  imports: {uses: ./tell.py:imports, needs: {after: install}}
  neither: {uses: ./tell.py:neither, needs: {after: install}}
"""
CODE = """
import os
from pathlib import Path

from orun import stage

SITE = Path(os.environ["PYTHONPATH"].partition(os.pathsep)[0])


@stage(inputs={}, output="files")
def install(context):  # as somebody does beside the run
    if (SITE / "sample-1.0.dist-info").exists():
        (SITE / "sample.py").write_text("VERSION = '2.0'")
        (SITE / "sample-1.0.dist-info").rename(SITE / "sample-2.0.dist-info")
    (context.output / "text").write_text("")


def tell(context):
    import sample

    (context.output / "text").write_text(sample.VERSION)


@stage(inputs={"after": "files"}, output="files", tools=["sample"])
def declares(context):
    tell(context)


@stage(inputs={"after": "files"}, output="files")
def imports(context):
    tell(context)


@stage(inputs={"after": "files"}, output="files")
def neither(context):
    (context.output / "text").write_text("")
"""


def test_what_was_made_with_a_version_that_came_meanwhile_is_not_stored(tmp_path: Path) -> None:
    """It had been stored under the version of before, and was up to date when that was installed again."""
    project, site = Project.make(tmp_path / "project", PIPELINE), Site.make(tmp_path)
    project.write("tell.py", CODE)
    site.install("sample", "1.0", "VERSION = '1.0'")
    first = site.run(project, "--keep-going")
    assert {name: stage["outcome"] for name, stage in first.items()} == {
        "install": "built",
        "declares": "failed",
        "imports": "failed",
        "neither": "built",
    }
    for name in ("declares", "imports"):
        assert first[name]["failure"] == {
            "error": "InputChanged",
            "problem": f"package sample was changed (1.0 -> 2.0) while {name} ran",
            "why": "its result belongs to neither version, so nothing was stored",
            "hint": "run again",
        }
    second = site.run(project)
    assert {name: stage["outcome"] for name, stage in second.items()} == {
        "install": "cached",
        "declares": "built",
        "imports": "built",
        "neither": "cached",
    }
    assert project.text("declares") == project.text("imports") == "2.0"
