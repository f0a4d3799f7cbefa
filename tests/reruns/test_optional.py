"""Packages that are optional to whoever asks for them: the stage runs again when one appears, changes or goes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from orun.store import Store
from tests.project import Project
from tests.reruns.expression_stages import code_of, make_expression_stages, texts
from tests.site_packages import Site, reasons

ASKED = """
from importlib.metadata import PackageNotFoundError, version


def asked():
    try:
        return version("extra") and "there"
    except PackageNotFoundError:
        return "none"
"""
OLD = sys.version_info < (3, 14)  # which has no `pkgutil.find_loader` any more
# What the user's code writes, and what stands before its function: each is "none" without the package.
BY_USER = {
    "find_spec": ("find_spec('extra') and 'there' or 'none'", "from importlib.util import find_spec"),
    "of the module": ("importlib.util.find_spec('extra') and 'there' or 'none'", "import importlib.util"),
    "path finder": (
        "PathFinder.find_spec('extra') and 'there' or 'none'",
        "from importlib.machinery import PathFinder",
    ),
    "version": ("asked()", ASKED),
} | ({"find_loader": ("find_loader('extra') and 'there' or 'none'", "from pkgutil import find_loader")} if OLD else {})
# The module of a library that imports or asks for another package, which its metadata does not name.
BY_LIBRARY = {
    "imports": "try:\n    from extra import WORD\nexcept ImportError:\n    WORD = 'none'\n",
    "by name": "import importlib\ntry:\n    WORD = importlib.import_module('ex' + 'tra').WORD\n"
    "except ImportError:\n    WORD = 'none'\n",
    "find_spec": "from importlib.util import find_spec\nWORD = 'there' if find_spec('extra') else 'none'\n",
    "version": "from importlib.metadata import PackageNotFoundError, version\n"
    "try:\n    WORD = version('extra') and 'there'\nexcept PackageNotFoundError:\n    WORD = 'none'\n",
}
LIBRARIES = {f"library_{number}": text for number, text in enumerate(BY_LIBRARY.values())}
POOL = """
import multiprocessing


def word(_):
    import {library}

    return {library}.WORD


def ask():
    with multiprocessing.get_context({method!r}).Pool(1) as pool:
        return pool.map(word, [0])[0]
"""
SCRIPT = """
import subprocess
import sys


def ask():
    return subprocess.check_output([sys.executable, {script!r}], text=True)
"""


def make(folder: Path, stages: Mapping[str, tuple[str, str]]) -> tuple[Project, Site]:
    """Write a project with these stages, each with what it writes and what stands before its function."""
    cases = {**stages, "neither": ("0", "")}
    return make_expression_stages(folder, {name: code_of(*case) for name, case in cases.items()}), Site.make(folder)


def make_asking(folder: Path, library: str, before: str = "import library") -> tuple[Project, Site]:
    """Write a project whose stage `asks` tells the word of a library of this text."""
    project, site = make(folder, {"asks": ("__import__('library').WORD", before)})
    site.install("library", "1.0", library)
    return project, site


def check(project: Project, site: Site, stages: Collection[str]) -> None:
    """Install another package, an optional one, both anew, and remove the optional one again."""
    assert list(reasons(site.run(project))) == [*stages, "neither"]
    assert texts(project, stages) == dict.fromkeys(stages, "none")
    site.install("unrelated", "1.0", "")
    assert reasons(site.run(project)) == {}
    site.install("extra", "1.0", "WORD = 'there'")
    why = "package extra: not installed -> 1.0 (imported by the stage)"
    assert reasons(site.run(project)) == {stage: [why] for stage in stages}
    assert texts(project, stages) == dict.fromkeys(stages, "there")
    assert reasons(site.run(project)) == {}
    site.install("unrelated", "2.0", "")
    site.install("extra", "2.0", "WORD = 'there'")
    why = "package extra: 1.0 -> 2.0 (imported by the stage)"
    assert reasons(site.run(project)) == {stage: [why] for stage in stages}
    site.remove("extra")
    assert reasons(site.run(project)) == {}, "the first result holds again"
    assert texts(project, stages) == dict.fromkeys(stages, "none")


@pytest.mark.slow
def test_a_package_that_your_code_asks_for_or_a_library(tmp_path: Path) -> None:
    """The metadata of a library does not name it: that it asks for another package is seen while the stage runs.

    The fork server has loaded what stands at the top, the process of the stage what its function imports.
    """
    stages = {
        **{f"user_{number}": case for number, case in enumerate(BY_USER.values())},
        **{f"by_{name}": (f"{name}.WORD", f"import {name}") for name in LIBRARIES},
        "of_a_library": ("outer.WORD", "import outer"),
        "in_the_function": ("__import__('outer').WORD", ""),
    }
    project, site = make(tmp_path, stages)
    install_libraries(site)
    site.install("outer", "1.0", "from deeper import WORD")
    site.install("deeper", "1.0", BY_LIBRARY["imports"])
    check(project, site, stages)


@pytest.mark.slow
@pytest.mark.usefixtures("native_reads")
def test_a_package_that_another_process_of_the_stage_asks_for(tmp_path: Path) -> None:
    """Each way to ask in a worker that is forked, and each way to start a worker; and a script."""
    workers = [*(("fork", library) for library in LIBRARIES), ("spawn", "library_0"), ("forkserver", "library_1")]
    stages = {
        f"{method}_{library}": ("ask()", POOL.format(method=method, library=library)) for method, library in workers
    }
    script = tmp_path / "project" / "script.py"
    stages["program"] = ("ask()", SCRIPT.format(script=str(script)))
    project, site = make(tmp_path, stages)
    script.write_text(f"import sys\n{BY_LIBRARY['imports']}sys.stdout.write(WORD)")
    install_libraries(site)
    assert list(reasons(site.run(project))) == [*stages, "neither"]
    assert texts(project, stages) == dict.fromkeys(stages, "none")
    site.install("extra", "1.0", "WORD = 'there'")
    why = "package extra: not installed -> 1.0 (imported by the stage)"
    assert reasons(site.run(project)) == {stage: [why] for stage in stages}
    assert texts(project, stages) == dict.fromkeys(stages, "there")


def install_libraries(site: Site) -> None:
    for name, text in LIBRARIES.items():
        site.install(name, "1.0", text)


def test_a_module_of_another_name_than_its_distribution(tmp_path: Path) -> None:
    project, site = make_asking(tmp_path, BY_LIBRARY["imports"])
    assert list(reasons(site.run(project))) == ["asks", "neither"]
    metadata = site.install("some_wheel", "1.0", "")
    (site.folder / "some_wheel.py").unlink()
    (site.folder / "extra.py").write_text("WORD = 'there'")
    (metadata / "RECORD").write_text("extra.py,,\nsome_wheel-1.0.dist-info/METADATA,,\n")
    why = "package extra: not installed -> installed (imported by the stage)"
    assert reasons(site.run(project)) == {"asks": [why]}
    assert project.text("asks") == "there"
    metadata.rename(site.folder / "some_wheel-2.0.dist-info")
    assert reasons(site.run(project)) == {"asks": ["package some-wheel: 1.0 -> 2.0 (imported by the stage)"]}


def place(module: Path, package: Path) -> None:
    """Copy a module, and a package, to these places."""
    package.mkdir()
    for file in (module, package / "__init__.py"):
        file.write_text("WORD = 'there'")


@pytest.mark.slow
def test_what_is_copied_among_the_installed_packages(tmp_path: Path) -> None:
    """A module or a package, or a part of a package that distributions share, as `google` is.

    No distribution comes with it, so that the list of these stays as it was.
    """
    names = {"module": "extra", "package": "more", "part": "space.extra", "part_package": "space.more"}
    project, site = make(tmp_path, {stage: (f"by_{stage}.WORD", f"import by_{stage}") for stage in names})
    for stage, name in names.items():
        site.install(f"by_{stage}", "1.0", f"import space.one\n{BY_LIBRARY['imports'].replace('extra', name)}")
    (site.folder / "space").mkdir()
    (site.folder / "space" / "one.py").touch()
    assert list(reasons(site.run(project))) == [*names, "neither"]
    assert texts(project, names) == dict.fromkeys(names, "none")
    (site.folder / "space" / "two.py").touch()
    assert reasons(site.run(project)) == {}
    copies = [site.folder / name for name in ("extra.py", "more")]
    parts = [site.folder / "space" / name for name in ("extra.py", "more")]
    place(*copies)
    place(*parts)
    assert reasons(site.run(project)) == {
        "module": ["package extra: not installed -> installed (imported by the stage)"],
        "package": ["package more: not installed -> installed (imported by the stage)"],
        "part": [f"{parts[0]} has appeared (looked for by the stage)"],
        "part_package": [f"{parts[1]} has appeared (looked for by the stage)"],
    }
    assert texts(project, names) == dict.fromkeys(names, "there")
    for file, folder in (copies, parts):
        file.unlink()
        shutil.rmtree(folder)
    assert reasons(site.run(project)) == {}
    assert texts(project, names) == dict.fromkeys(names, "none")


@pytest.mark.slow
def test_a_module_of_yours_that_a_library_imports_instead(tmp_path: Path) -> None:
    project, site = make_asking(tmp_path, BY_LIBRARY["imports"], before="")
    assert list(reasons(site.run(project))) == ["asks", "neither"]
    project.write("extra.py", "WORD = 'mine'")
    assert reasons(site.run(project)) == {"asks": ["extra.py has appeared (read by the stage)"]}
    assert project.text("asks") == "mine"


def test_what_counts_is_what_was_asked_for(tmp_path: Path) -> None:
    """Nothing of the standard library, of orun's own, and of packages that are only installed beside."""
    library = f"import copy, pickle, platform\n{BY_LIBRARY['imports']}"
    project, site = make_asking(tmp_path, library, before="import asyncio, library, sqlite3, xml.dom.minidom")
    site.install("unrelated", "1.0", "")
    site.run(project)
    with Store.open(project.store) as store:
        actions = [store.find_latest("text", name) for name in ("asks", "neither")]
    assert [dict(action.implicit_deps.packages) for action in actions if action] == [
        {"extra": "not installed", "library": "1.0"},
        {},
    ]
