"""Verbs that only look: they change nothing, not even where something is damaged, and work where nothing may change."""

from __future__ import annotations

import json
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
from orun.environment import providers
from orun.errors import StoreError
from tests.facts import describe_reasons
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
    files = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        files[str(path)] = (status.st_mode, status.st_mtime_ns, content)
    return files


@contextmanager
def untouched(*folders: Path) -> Iterator[None]:
    before = [snapshot(folder) for folder in folders]
    yield
    after = [snapshot(folder) for folder in folders]
    assert after == before


@pytest.fixture(autouse=True)
def no_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare `orun doctor` a process for each execution provider."""
    monkeypatch.setattr(providers, "list_compiled_in", tuple)


def make_project(folder: Path) -> Project:
    """A project after three runs: a build, one with another parameter, and one with nothing to do."""
    project = Project.make(folder / "project")
    project.run()
    project.write("extra.txt", "")
    project.run(set={"stages.upper.with.mark": "x"})
    project.run()
    return project


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that every test here leaves as it is."""
    return make_project(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose store has a damaged object, record and index, and is left as it is."""
    project = make_project(tmp_path_factory.mktemp("damaged"))
    objects = (path for path in (project.store / "objects").rglob("*") if path.is_file())
    (output,) = (path for path in objects if path.read_bytes() == b"A B!")
    flip(output)
    flip(next((project.store / "latest").rglob("count.json")))
    next((project.store / "index").glob("*.sqlite")).write_bytes(b"no database at all, but of some length" * 200)
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
PLANNING = LOOKING[:3]
WITHOUT_STORE = {"validate", "graph", "stages"}


def call(
    project: Project, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, store: Path | None = None
) -> int:
    """The exit code of a command line in the folder of a project, with its store or another one."""
    monkeypatch.chdir(project.folder)
    return main([*arguments, *(() if arguments[0] in WITHOUT_STORE else ("--store", str(store or project.store)))])


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_a_verb_that_looks_changes_nothing(
    shared: Project, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with untouched(shared.store, shared.folder):
        assert call(shared, arguments, monkeypatch) == 0


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_a_verb_that_looks_changes_nothing_where_something_is_damaged(
    damaged: Project, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with untouched(damaged.store, damaged.folder):
        assert call(damaged, arguments, monkeypatch) == 0


def test_a_plan_says_which_stored_result_is_damaged(
    damaged: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # so that no line is folded, however long the durations beside it are
    call(damaged, ("plan", "pipeline.yaml"), monkeypatch)
    assert "its stored result is damaged: text was damaged in the store" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("arguments", PLANNING, ids=" ".join)
def test_a_verb_that_looks_makes_no_store(
    shared: Project, tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with untouched(tmp_path, shared.folder.parent):
        assert call(shared, arguments, monkeypatch, tmp_path / "none") == 0


def test_a_verb_that_looks_leaves_modes_that_were_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project.make(tmp_path / "project")
    project.run()
    for path in (project.store / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
    for arguments in PLANNING:
        with untouched(project.store):
            assert call(project, arguments, monkeypatch) == 0


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
    assert (step.action, describe_reasons(step.reasons)) == ("blocked", ("a gate of make failed",))
    assert describe_reasons(project.run()["bundle"].reasons) == describe_reasons(step.reasons)


READ_ONLY = """
mount --bind {store} {store} && mount -o remount,bind,ro {store} && exec "$@"
"""
CALL_EACH = """
import json, sys
from orun.cli.main import main
from orun.environment import providers
providers.list_compiled_in = tuple
codes = [main(words) for words in json.loads(sys.argv[1])]
print(json.dumps(codes))
"""


def call_read_only(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call Python where the store is on a file system that is read-only."""
    script = READ_ONLY.format(store=project.store)
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, *arguments],
        cwd=project.folder,
        env={**os.environ, "ORUN_STORE": str(project.store)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def may_mount() -> bool:
    process = subprocess.run(["unshare", "-m", "mount", "--bind", "/tmp", "/tmp"], capture_output=True, check=False)  # noqa: S108
    return process.returncode == 0


mounts = pytest.mark.skipif(not may_mount(), reason="this user may mount nothing")


@mounts
def test_verbs_that_look_at_a_read_only_store(shared: Project) -> None:
    process = call_read_only(shared, "-c", CALL_EACH, json.dumps(LOOKING))
    assert process.stderr == ""
    assert json.loads(process.stdout.splitlines()[-1]) == [0] * len(LOOKING)


@mounts
def test_a_run_with_nothing_to_do_on_a_read_only_store(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    unrecorded = f"the store {project.store} cannot be written: this run is not recorded"
    for known in ("remembered", "planned"):
        if known == "planned":
            for note in (project.store / "index").glob("run-*.json"):
                note.unlink()
        reports = tmp_path / known
        with untouched(project.store):
            process = call_read_only(project, "-m", "orun", "run", "pipeline.yaml", "--reports", str(reports))
        assert (process.returncode, process.stderr) == (0, "")
        assert unrecorded in " ".join(process.stdout.split())
        assert (reports / "report.html").exists()


@mounts
def test_a_run_with_something_to_do_on_a_read_only_store(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    project.run()
    project.edit("deep.py", "text.split()", "text.split(' ')")
    with untouched(project.store):
        process = call_read_only(project, "-m", "orun", "run", "pipeline.yaml")
    assert process.returncode == 3
    assert process.stderr == (
        f"error: the store {project.store} cannot be written, and 3 of 3 stages would run\n"
        "  not up to date: make, upper, count; to see why: orun plan pipeline.yaml\n"
        f"  hint: Choose a place that can be written (--store DIR): ls -ld {project.store}\n"
    )


@mounts
def test_outputs_that_cannot_be_put_back(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    project.run()
    (project.store / "out" / "text" / "make" / "text").unlink()
    process = call_read_only(project, "-m", "orun", "run", "pipeline.yaml")
    temporary = project.store / "tmp"
    assert process.returncode == 3
    assert process.stderr == (
        "error: cannot check out text/make: the file system is read-only\n"
        f"  {temporary}: Read-only file system\n"
        f"  hint: Choose a place that can be written (--store DIR): ls -ld {temporary}\n"
    )


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
            return caught.value.problem

        assert in_child(refused, NOBODY) == "cannot open the store: permission denied"
