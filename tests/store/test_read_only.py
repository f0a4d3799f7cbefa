"""Verbs that only look: they change nothing, not even where something is damaged, and work where nothing may change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import orun
from orun.cli.main import main
from orun.errors import StoreError
from tests.facts import sentences
from tests.project import Project, outcomes
from tests.store.support import NOBODY, flip, forks, in_child, needs_root

GATED = """
name: text
stages:
  make: {uses: ./stages.py:make, gate: {length: {max: 10}}}
  bundle: {uses: ./stages.py:upper, needs: make}
"""


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, mtime and content of everything below a folder."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
    return found


@contextmanager
def untouched(*folders: Path) -> Iterator[None]:
    before = [snapshot(folder) for folder in folders]
    yield
    after = [snapshot(folder) for folder in folders]
    assert after == before


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project.make(tmp_path / "project")
    project.run()
    project.write("extra.txt", "")
    project.run(set={"stages.upper.with.mark": "x"})
    project.run()
    monkeypatch.chdir(project.folder)
    return project


LOOKING = (
    ("plan", "pipeline.yaml"),
    ("plan", "pipeline.yaml", "--json"),
    ("explain", "pipeline.yaml", "upper"),
    ("validate", "pipeline.yaml"),
    ("graph", "pipeline.yaml"),
    ("history", "make.length"),
    ("diff", "last~1", "last"),
    ("stages", "quantize/dynamic"),
    ("doctor", "pipeline.yaml"),
)
WITHOUT_STORE = {"validate", "graph", "stages"}


def called(words: tuple[str, ...], store: Path) -> int:
    return main([*words, *(() if words[0] in WITHOUT_STORE else ("--store", str(store)))])


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_a_verb_that_looks_changes_nothing(project: Project, words: tuple[str, ...]) -> None:
    with untouched(project.store, project.folder):
        assert called(words, project.store) == 0


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_nor_where_something_is_damaged(
    project: Project, words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # so that no line is folded, however long the durations beside it are
    (damaged,) = (
        path for path in (project.store / "objects").rglob("*") if path.is_file() and path.read_bytes() == b"A B!"
    )
    flip(damaged)
    record = next((project.store / "latest").rglob("count.json"))
    flip(record)
    next((project.store / "index").glob("*.sqlite")).write_bytes(b"no database at all, but of some length" * 200)
    with untouched(project.store, project.folder):
        called(words, project.store)
    if words == LOOKING[0]:
        printed = capsys.readouterr().out
        assert "its stored result is damaged: text was damaged in the store" in " ".join(printed.split())


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("words", LOOKING[:3], ids=" ".join)
def test_nor_where_there_is_no_store(tmp_path: Path, words: tuple[str, ...]) -> None:
    with untouched(tmp_path):
        assert called(words, tmp_path / "none") == 0


@pytest.mark.parametrize("words", LOOKING[:3], ids=" ".join)
def test_nor_with_modes_that_another_has_changed(project: Project, words: tuple[str, ...]) -> None:
    for path in (project.store / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
    with untouched(project.store):
        assert called(words, project.store) == 0


def test_a_gate_that_blocks_is_in_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = Project.make(tmp_path / "project", GATED)
    assert outcomes(project.run()) == {"make": "built", "bundle": "built"}
    project.edit("pipeline.yaml", "{max: 10}", "{max: 1}")
    project.edit(
        "pipeline.yaml",
        "{uses: ./stages.py:upper, needs: make}",
        "{uses: ./stages.py:upper, needs: make, with: {mark: x}}",
    )
    assert main(["plan", str(project.folder / "pipeline.yaml"), "--store", str(project.store)]) == 0
    assert capsys.readouterr().out == (
        "stage   would       why\n"
        "make    stay        up to date\n"
        "bundle  be blocked  a gate of make failed\n"
        "\n"
        "nothing to run: 1 of 2 stages blocked\n"
    )
    step = orun.explain(project.folder / "pipeline.yaml", "bundle", store=project.store)
    assert (step.action, sentences(step.reasons)) == ("blocked", ("a gate of make failed",))
    assert sentences(project.run()["bundle"].reasons) == sentences(step.reasons)


IN_NAMESPACE = """
mount --bind {store} {store} && mount -o remount,bind,ro {store} && exec {python} -m orun {words}
"""


def locked(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    """A command line where the store is on a file system that is read-only."""
    script = IN_NAMESPACE.format(store=project.store, python=sys.executable, words=" ".join(words))
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        cwd=project.folder,
        env={**os.environ, "ORUN_STORE": str(project.store)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def may_mount() -> bool:
    done = subprocess.run(["unshare", "-m", "mount", "--bind", "/tmp", "/tmp"], capture_output=True, check=False)  # noqa: S108
    return done.returncode == 0


mounts = pytest.mark.skipif(not may_mount(), reason="this user may mount nothing")


@mounts
@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_a_verb_that_looks_at_a_read_only_store(project: Project, words: tuple[str, ...]) -> None:
    done = locked(project, *words)
    assert (done.returncode, done.stderr) == (0, "")


@mounts
@pytest.mark.parametrize("known", ["remembered", "planned"])
def test_a_run_with_nothing_to_do_on_a_read_only_store(project: Project, tmp_path: Path, known: str) -> None:
    if known == "planned":
        for note in (project.store / "index").glob("run-*.json"):
            note.unlink()
    with untouched(project.store):
        done = locked(project, "run", "pipeline.yaml", "--reports", str(tmp_path / "reports"))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"the store {project.store} cannot be written: this run is not recorded" in " ".join(done.stdout.split())
    assert (tmp_path / "reports" / "report.html").exists()


@mounts
def test_a_run_with_something_to_do_on_a_read_only_store(project: Project) -> None:
    project.edit("deep.py", "text.split()", "text.split(' ')")
    with untouched(project.store):
        done = locked(project, "run", "pipeline.yaml")
    assert done.returncode == 3
    assert done.stderr == (
        f"error: the store {project.store} cannot be written, and 3 of 3 stages would run\n"
        "  not up to date: make, upper, count; to see why: orun plan pipeline.yaml\n"
        f"  hint: Choose a place that can be written (--store DIR): ls -ld {project.store}\n"
    )


@mounts
def test_outputs_that_cannot_be_put_back(project: Project) -> None:
    (project.store / "out" / "text" / "make" / "text").unlink()
    done = locked(project, "run", "pipeline.yaml")
    assert done.returncode == 3
    assert done.stderr.startswith("error: cannot check out text/make: the file system is read-only\n")


@needs_root
@forks
def test_a_store_that_may_not_be_entered() -> None:
    with TemporaryDirectory() as folder:  # which another user may enter
        Path(folder).chmod(0o755)
        project = Project.make(Path(folder) / "project")
        project.run()
        project.store.chmod(0o700)

        def refused() -> str:
            with pytest.raises(StoreError) as caught:
                orun.run(project.folder / "pipeline.yaml", store=project.store)
            return caught.value.what

        assert in_child(refused, NOBODY) == "cannot open the store: permission denied"
