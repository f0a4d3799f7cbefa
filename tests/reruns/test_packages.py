"""Another version of a package: the stages run again that it counts for, however it came to be loaded."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.project import Project
from tests.reruns.expression_stages import code_of, make_expression_stages, texts
from tests.site_packages import Site, reasons

# A file of code by the name of its stage: what it writes, and what stands before its function.
IN_PROCESS = {
    "named": ("importlib.import_module(''.join(['sam', 'ple'])).VERSION", "import importlib"),
    "pickled": ("pickle.loads(b'csample\\nVERSION\\n.')", "import pickle"),
    "made": ("found['VERSION']", "found = {}; exec('from sample import VERSION', found)"),
    "by_path": ("runpy.run_path(str(context.root.parent / 'shared' / 'team.py'))['VERSION']", "import runpy"),
    "elsewhere": (
        "__import__('team').VERSION",
        "import sys; from pathlib import Path; sys.path.append(str(Path(__file__).parents[1] / 'shared'))",
    ),
}
PROGRAM = "import sys, sample; sys.stdout.write(sample.VERSION)"
POOL = """
import multiprocessing


def version(_):
    import sample

    return sample.VERSION


def ask():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(version, [0])[0]
"""
STARTS = """
import subprocess
import sys


def start(*words):
    return subprocess.check_output([sys.executable, *words], text=True)
"""
IN_OTHERS = {
    "script": ("start(str(context.root / 'script_of_it.py'))", STARTS),
    "module": ("start('-m', 'sample')", STARTS),
    "pool": ("ask()", POOL),
}
PLUGGED = """
name: text
stages: {repeat: {uses: example/repeat}}
"""
PLUG_IN = """
from dataclasses import dataclass

from orun.stages.contract import Spec

SPEC = Spec(output="files", preload=("example_kinds",))


@dataclass(frozen=True)
class Params:
    pass


def run(context, params):
    (context.output / "text").write_text("one")
    return {}
"""
SAMPLE = """
VERSION = "{0}"
if __name__ == "__main__":
    print(VERSION, end="")
"""


def project_of(folder: Path, stages: Mapping[str, tuple[str, str]]) -> Project:
    """Write a project with these stages, each with what it writes and what stands before its function."""
    cases = {**stages, "neither": ("'0'", "")}
    return make_expression_stages(folder, {name: code_of(*case) for name, case in cases.items()})


def check(folder: Path, stages: Mapping[str, tuple[str, str]]) -> None:
    """Run with one version of a package and with another: the stages run again that use it, and no other."""
    project, site = project_of(folder, stages), Site.make(folder)
    project.write("script_of_it.py", PROGRAM)
    (folder / "shared").mkdir()
    (folder / "shared" / "team.py").write_text("import sample\n\nVERSION = sample.VERSION\n")
    site.install("sample", "1.0", SAMPLE.format("1.0"))
    assert reasons(site.run(project)) == {name: ["never run before"] for name in (*stages, "neither")}
    site.install("sample", "2.0", SAMPLE.format("2.0"))
    why = ["package sample: 1.0 -> 2.0 (imported by the stage)"]
    assert reasons(site.run(project)) == dict.fromkeys(stages, why)
    assert texts(project, stages) == dict.fromkeys(stages, "2.0")
    assert reasons(site.run(project)) == {}


@pytest.mark.slow
def test_what_is_imported_by_its_name_or_out_of_a_pickle_or_by_code_elsewhere(tmp_path: Path) -> None:
    check(tmp_path, IN_PROCESS)


@pytest.mark.slow
@pytest.mark.usefixtures("native_reads")
def test_what_processes_load_that_a_stage_starts(tmp_path: Path) -> None:
    check(tmp_path, IN_OTHERS)


def develop(site: Site, folder: Path) -> None:
    """Let a package be the one in a folder, as its installer notes it; the module stands for what finds it there."""
    folder.mkdir(exist_ok=True)
    (folder / "inner.py").write_text(f"VERSION = '{folder.name}'")
    metadata = site.install("sample", "1.0", f"exec(open({str(folder / 'inner.py')!r}).read())")
    noted = {"url": f"file://{folder}", "dir_info": {"editable": True}}
    (metadata / "direct_url.json").write_text(json.dumps(noted))


@pytest.mark.slow
def test_what_stands_for_the_version_of_a_package(tmp_path: Path) -> None:
    """Of a module that no distribution has brought, of metadata as Debian has it, and of a package in development."""
    names = {"alone": "lonely", "older": "old", "developed": "sample"}
    project = project_of(tmp_path, {stage: (f"{name}.VERSION", f"import {name}") for stage, name in names.items()})
    site = Site.make(tmp_path)
    module = site.folder / "lonely.py"
    module.write_text("VERSION = '1.0'\n")
    os.utime(module, (10**9, 10**9))
    (site.folder / "old-1.0-py3.11.egg-info").write_text("Metadata-Version: 1.1\nName: old\nVersion: 1.0\n")
    site.place("old", "VERSION = '1.0'\n")
    develop(site, tmp_path / "first")
    assert list(reasons(site.run(project))) == [*names, "neither"]
    assert reasons(site.run(project)) == {}
    module.write_text("VERSION = '2.0'\n")  # of the same size and time
    os.utime(module, (10**9, 10**9))
    assert reasons(site.run(project)) == {"alone": [f"{module} changed (read by the stage)"]}
    site.place("old", "VERSION = '2.0'\n")
    (site.folder / "old-1.0-py3.11.egg-info").rename(site.folder / "old-2.0.egg-info")
    assert reasons(site.run(project)) == {"older": ["package old: 1.0 -> 2.0 (imported by the stage)"]}
    develop(site, tmp_path / "second")  # of the same version, and the files of the old checkout are as they were
    (why,) = reasons(site.run(project))["developed"]
    label = "1.0\\+editable\\.[0-9a-f]{16}"
    assert re.fullmatch(f"package sample: {label} -> {label} \\(imported by the stage\\)", why)
    assert texts(project, names) == {"alone": "2.0", "older": "2.0", "developed": "second"}
    assert reasons(site.run(project)) == {}


def test_a_plug_in_that_is_edited_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with nothing to do had gone by its version alone, and Python by byte code that looked right."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    project, site = Project.make(tmp_path / "project", PLUGGED), Site.make(tmp_path)
    metadata = site.install("example_kinds", "1.0", PLUG_IN)
    (metadata / "entry_points.txt").write_text("[orun.stages]\nexample/repeat = example_kinds\n")
    assert list(reasons(site.run(project))) == ["repeat"]
    assert reasons(site.run(project)) == {}
    module = site.folder / "example_kinds.py"
    before = module.stat()
    module.write_text(PLUG_IN.replace('"one"', '"two"'))
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert reasons(site.run(project)) == {"repeat": ["the code of example/repeat changed"]}
    assert project.text("repeat") == "two"


@pytest.mark.slow  # a plug-in, and workers that load a package, are tried apart above
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.usefixtures("native_reads")
def test_a_plug_in_s_workers_run_it_as_it_is(tmp_path: Path, method: str) -> None:
    project, site = Project.make(tmp_path / "project", PLUGGED), Site.make(tmp_path)
    metadata = site.install("example_kinds", "1.0", "")
    (metadata / "entry_points.txt").write_text("[orun.stages]\nexample/repeat = example_kinds.repeat\n")
    (site.folder / "example_kinds.py").unlink()
    package = site.folder / "example_kinds"
    package.mkdir()
    if method == "spawn":  # a package has no need of it
        (package / "__init__.py").touch()
    pool = f"multiprocessing.get_context({method!r}).Pool(1).map(words, ['!'])[0]"
    code = PLUG_IN.replace('"one"', pool).replace('preload=("example_kinds",)', "")
    (package / "repeat.py").write_text(f"import multiprocessing\nfrom example_kinds.words import words\n{code}")
    for word in ("one", "two"):
        (package / "words.py").write_text(f"def words(end):\n    return {word!r} + end\n")
        os.utime(package / "words.py", (10**9, 10**9))
        assert list(reasons(site.run(project))) == ["repeat"]
        assert project.text("repeat") == f"{word}!"


@pytest.mark.slow
def test_a_project_that_is_installed_in_development_may_move(tmp_path: Path) -> None:
    stages = {"asks": ("version('sample')", "from importlib.metadata import version")}
    project, site = project_of(tmp_path, stages), Site.make(tmp_path)
    develop(site, project.folder)
    assert list(reasons(site.run(project))) == ["asks", "neither"]
    moved = Project(project.folder.rename(tmp_path / "moved"), project.store)
    develop(site, moved.folder)
    assert reasons(site.run(moved)) == {}
