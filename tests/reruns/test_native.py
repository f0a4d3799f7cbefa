"""What native code and programs ask for without opening it: whether a file may be read, and where a link leads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.facts import sentences
from tests.project import Project, built

PIPELINE = """
name: text
stages:
  tell: {uses: ./tell.py:tell}
"""
CODE = """
import ctypes
import multiprocessing
import os
import subprocess
import sys

from orun import stage

LIBC = ctypes.CDLL(None)
LIBC.realpath.restype = ctypes.c_void_p


def access(path):
    return LIBC.access(str(path).encode(), os.R_OK) == 0


def faccessat(path):
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    return LIBC.faccessat(folder, path.name.encode(), os.R_OK, 0) == 0


def readlink(path):
    found = ctypes.create_string_buffer(4096)
    size = LIBC.readlink(str(path).encode(), found, 4096)
    return found.raw[:size].decode() if size >= 0 else "none"


def realpath(path):
    found = ctypes.create_string_buffer(4096)
    return os.path.basename(found.value.decode()) if LIBC.realpath(str(path).encode(), found) else "none"


def in_worker(ask, path):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(ask, (path,))


def by_python(path):
    asks = f"import os, sys; sys.stdout.write(str(os.access({str(path)!r}, os.R_OK)))"
    return subprocess.check_output([sys.executable, "-S", "-c", asks], text=True)


def by_readlink(path):
    return subprocess.run(["readlink", path], stdout=subprocess.PIPE, text=True).stdout.strip() or "none"


@stage(inputs={}, output="files")
def tell(context):
    path = context.root / "flag"
    (context.output / "text").write_text(str(ASK))
"""


def make(folder: Path, ask: str) -> Project:
    project = Project.make(folder / "project", PIPELINE)
    project.write("tell.py", CODE.replace("ASK", ask))
    return project


def flag(project: Project) -> None:
    project.write("flag", "")


def link(project: Project) -> None:
    (project.folder / "flag").symlink_to("data")


@pytest.mark.parametrize(
    ("ask", "change", "before", "after"),
    [
        ("access(path)", flag, "False", "True"),
        ("faccessat(path)", flag, "False", "True"),
        ("in_worker(access, path)", flag, "False", "True"),
        ("by_python(path)", flag, "False", "True"),
        ("readlink(path)", link, "none", "data"),
        ("realpath(path)", link, "none", "data"),
        ("in_worker(readlink, path)", link, "none", "data"),
        ("by_readlink(path)", link, "none", "data"),
    ],
)
@pytest.mark.usefixtures("native_reads")
def test_what_is_asked_for(
    tmp_path: Path, ask: str, change: Callable[[Project], None], before: str, after: str
) -> None:
    project = make(tmp_path, ask)
    project.write("data", "")
    assert built(project.run()) == ["tell"]
    assert project.text("tell") == before
    assert built(project.run()) == []
    change(project)
    assert sentences(project.run()["tell"].reasons) == ("flag has appeared (looked for by the stage)",)
    assert project.text("tell") == after
    assert built(project.run()) == []
    (project.folder / "flag").unlink()
    assert built(project.run()) == []
    assert project.text("tell") == before


@pytest.mark.parametrize("ask", ["readlink(path)", "realpath(path)", "by_readlink(path)"])
@pytest.mark.usefixtures("native_reads")
def test_a_link_that_leads_elsewhere(tmp_path: Path, ask: str) -> None:
    project = make(tmp_path, ask)
    project.write("data", "")
    project.write("other", "")
    link(project)
    assert built(project.run()) == ["tell"]
    assert project.text("tell") == "data"
    (project.folder / "flag").unlink()
    (project.folder / "flag").symlink_to("other")
    assert sentences(project.run()["tell"].reasons) == ("flag changed (looked for by the stage)",)
    assert project.text("tell") == "other"
    assert built(project.run()) == []
